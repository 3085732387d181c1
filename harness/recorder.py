"""Records a run's history while it goes on, at almost no cost to the thread that plays it.

The hot path is one `list.extend` an event: eight integers (text as codes, null as a sentinel), no
lock, no object that stays. Ten times a second a background thread takes what has come, joins each
completion to its invocation, counts, and every few seconds writes a part. Events are only ever
added behind, each in one step, so taking the first ones away needs no lock either.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.errors import EnvironmentFailure, HarnessFailure
from harness.history import HISTORY, NEMESIS_PROCESS, WRITE
from harness.parts import PART_S, PartWriter
from harness.protocols import FAIL, INFO, OK, Completion, Invoke

INVOKE: Final = "invoke"
_TYPES: Final = (INVOKE, OK, FAIL, INFO)
_TYPE_CODES: Final = {name: code for code, name in enumerate(_TYPES)}
_NULL: Final = -(2**63)

# A row of the history, but for `run_id` and `index`. An event is a row of the same width in which
# a completion leaves open what its invocation knows.
_COLUMNS: Final = (
    *("time_ns", "process", "type", "error", "node", "offset"),
    *("f", "key", "value", "partition", "intended_ns"),
)
_WIDTH: Final = len(_COLUMNS)
_TIME, _PROCESS, _TYPE, _F, _VALUE = (
    _COLUMNS.index(name) for name in ("time_ns", "process", "type", "f", "value")
)
_PIECE: Final = 8_192 * _WIDTH
_PART_ROWS: Final = 1_000_000
_DRAIN_S: Final = 0.1
_RATE_OVER_S: Final = 2.0

Ints = npt.NDArray[np.int64]


class Live(NamedTuple):
    """How far the workload is: operations begun, how they ended, operations begun a second."""

    attempted: int = 0
    ok: int = 0
    fail: int = 0
    info: int = 0
    per_s: float = 0.0


class Recorder:
    """Records one run's history into parts. A context that writes the rest at its end.

    Thread-safe, except that the operations of one process are recorded in their order.
    """

    def __init__(self, folder: Path, *, run_id: str, period_s: float = PART_S) -> None:
        self._broken: HarnessFailure | None = None
        self._refused: EnvironmentFailure | None = None
        self._events: list[int] = []
        self._add = self._events.extend
        self._notes: list[tuple[int, ...]] = []
        self._codes = {name: _Codes() for name in ("f", "key", "node", "error")}
        self._f, self._key, self._node, self._error = self._codes.values()

        self._parts = PartWriter(folder, HISTORY, run_id=run_id)
        self._period_s = period_s
        self._draining = threading.Lock()
        self._begun = np.empty((0, _WIDTH), dtype=np.int64)
        self._unwritten: list[Ints] = []
        self._acknowledged: list[Ints] = []
        self._rows_written = 0
        self._counts = np.zeros(len(_TYPES), dtype=np.int64)
        self._attempts = deque([(time.monotonic(), 0)])
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._write_parts, name="recorder", daemon=True)
        self._thread.start()

    def invoke(self, process: int, invoke: Invoke, intended_ns: int, time_ns: int) -> None:
        """Record that a process begins an operation."""
        f, value, partition, key = invoke
        self._add(
            (time_ns, process, 0, 0, 0, _NULL,
             self._f[f], self._key[key], value, partition, intended_ns)
        )  # fmt: skip

    def complete(self, process: int, completion: Completion, time_ns: int) -> None:
        """Record how the operation that a process has begun ended."""
        type_, offset, error, node = completion
        self._add(
            (time_ns, process, _TYPE_CODES[type_], self._error[error], self._node[node],
             _NULL if offset is None else offset, 0, 0, 0, 0, 0)
        )  # fmt: skip

    def note(self, type_: str, *, f: str, key: str, node: str, error: str, time_ns: int) -> None:
        """Record a row of the nemesis (see `harness.history`)."""
        ended = (_TYPE_CODES[type_], self._error[error], self._node[node], _NULL)
        begun = (self._f[f], self._key[key], _NULL, _NULL, time_ns)
        self._notes.append((time_ns, NEMESIS_PROCESS, *ended, *begun))

    def live(self) -> Live:
        """How far the workload is, at most two tenths of a second old."""
        (from_s, first), (to_s, last) = self._attempts[0], self._attempts[-1]
        per_s = (last - first) / (to_s - from_s) if to_s > from_s else 0.0
        attempted, ok, fail, info = self._counts.tolist()
        return Live(attempted, ok, fail, info, per_s)

    def acknowledged(self) -> Ints:
        """The values of all writes that have ended ok so far."""
        with self._draining:
            self._drain()
            return np.concatenate([np.empty(0, dtype=np.int64), *self._acknowledged])

    @property
    def failure(self) -> EnvironmentFailure | HarnessFailure | None:
        """What keeps the background thread from writing, if anything does."""
        return self._broken or self._refused

    def close(self) -> None:
        """Write what is left. Raises EnvironmentFailure when the disk takes it not."""
        self._closing.set()
        self._thread.join()
        with self._draining:
            self._drain()
            self._flush()
        if self.failure is not None:
            raise self.failure

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        try:
            self.close()
        except (EnvironmentFailure, HarnessFailure):
            if error is None:
                raise

    def _write_parts(self) -> None:
        written_at = time.monotonic()
        while not self._closing.wait(_DRAIN_S):
            try:
                with self._draining:
                    self._drain()
                    rows = sum(len(chunk) for chunk in self._unwritten)
                    if rows >= _PART_ROWS or time.monotonic() - written_at >= self._period_s:
                        self._flush()
                        written_at = time.monotonic()
            except Exception as error:
                self._broken = HarnessFailure(f"the recorder broke: {error!r}")
                self._broken.__cause__ = error
                return

    def _drain(self) -> None:
        """Take what has come: into rows, and into the counts."""
        pieces = []
        while piece := self._events[:_PIECE]:
            del self._events[: len(piece)]
            pieces.append(np.fromiter(piece, np.int64, len(piece)).reshape(-1, _WIDTH))
        if pieces:
            rows, self._begun = _joined(self._begun, np.concatenate(pieces))
            self._unwritten.append(rows)
            self._counts = self._counts + np.bincount(rows[:, _TYPE], minlength=len(_TYPES))
            acknowledged = (rows[:, _TYPE] == _TYPE_CODES[OK]) & (rows[:, _F] == self._f[WRITE])
            self._acknowledged.append(rows[acknowledged, _VALUE])
        self._attempts.append((time.monotonic(), int(self._counts[0])))
        while self._attempts[-1][0] - self._attempts[0][0] > _RATE_OVER_S:
            self._attempts.popleft()

    def _flush(self) -> None:
        """Write what was drained as one part; what the disk does not take is kept."""
        if notes := self._notes[:]:
            del self._notes[: len(notes)]
            rows = np.concatenate([*self._unwritten, np.array(notes, dtype=np.int64)])
            self._unwritten = [rows[np.argsort(rows[:, _TIME], kind="stable")]]
        self._refused = None
        if not self._unwritten:
            return
        rows = np.concatenate(self._unwritten)
        try:
            self._parts.write(self._table(rows))
        except EnvironmentFailure as error:
            self._refused = error
        else:
            self._unwritten = []
            self._rows_written += len(rows)

    def _table(self, rows: Ints) -> pa.Table:
        first = self._rows_written
        columns = {"index": pa.array(np.arange(first, first + len(rows)))}
        for name, column in zip(_COLUMNS, rows.T, strict=True):
            if name == "type":
                columns[name] = _texts(column, list(_TYPES))
            elif name in self._codes:
                columns[name] = _texts(column - 1, list(self._codes[name])[1:])
            else:
                kind = HISTORY.field(name).type.to_pandas_dtype()
                null = column == _NULL
                columns[name] = pa.array(np.where(null, 0, column).astype(kind), mask=null)
        return pa.table(columns)


def _joined(begun: Ints, events: Ints) -> tuple[Ints, Ints]:
    """Events as whole rows, in the same order, and the invocations that are still open.

    `begun` are the invocations that were open before. A process has one operation at a time, so
    that in the order of processes each completion comes right after its invocation.
    """
    known = np.concatenate([begun, events])
    order = np.argsort(known[:, _PROCESS], kind="stable")
    known = known[order]
    ends = known[:, _TYPE] > 0
    completions = np.flatnonzero(ends)
    process = known[:, _PROCESS]
    if ends[completions - 1].any() or (process[completions - 1] != process[completions]).any():
        raise HarnessFailure("an operation was completed that was not begun, or twice")
    known[completions, _F:] = known[completions - 1, _F:]
    still_open = ~ends & np.append(process[1:] != process[:-1], True)
    rows = np.empty_like(known)
    rows[order] = known
    return rows[len(begun) :], known[still_open]


class _Codes(dict[str | None, int]):
    """Text to numbers, given out in order of appearance; null is 0."""

    def __init__(self) -> None:
        super().__init__({None: 0})
        self._lock = threading.Lock()

    def __missing__(self, text: str | None) -> int:
        with self._lock:
            return self.setdefault(text, len(self))


def _texts(codes: Ints, texts: list[str | None]) -> pa.DictionaryArray:
    """A text column from codes; a negative code is null."""
    indices = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))
