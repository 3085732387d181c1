"""Records a run's history while it goes on, at almost no cost to the thread that plays it.

The hot path is one `struct.pack_into` a row: fourteen int64 into a block of memory that is used
again and again (text as codes, null as a sentinel). No object per operation stays alive and no lock
is taken. Full blocks, and ten times a second what there is, are handed over to a background
thread that counts and, every few seconds, turns them into columns and writes a part.
"""

from __future__ import annotations

import struct
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
from harness.history import HISTORY, NEMESIS_PROCESS
from harness.history.parquet_writer import PART_S, ParquetWriter
from harness.models import APPEND
from harness.protocols import FAIL, INFO, NULL, OK, Completion, Invoke

INVOKE: Final = "invoke"
_TYPES: Final = (INVOKE, OK, FAIL, INFO)
_TYPE_CODES: Final = {name: code for code, name in enumerate(_TYPES)}

# A row of the history, but for `run_id` and `index`.
_COLUMNS: Final = (
    *("process", "type", "f", "key", "value", "partition", "offset", "node", "error"),
    *("intended_ns", "time_ns", "expected", "result", "elements"),
)
_TYPE, _F, _VALUE, _TIME = (_COLUMNS.index(name) for name in ("type", "f", "value", "time_ns"))
_ROW: Final = struct.Struct(f"={len(_COLUMNS)}q")
_ROW_BYTES: Final = _ROW.size
_BLOCK_BYTES: Final = 16_384 * _ROW_BYTES
_PART_ROWS: Final = 1_000_000
_DRAIN_S: Final = 0.1
_RATE_OVER_S: Final = 2.0

HAND_OVER_NS: Final = 100_000_000
"""How often whoever records calls `hand_over`."""

Ints = npt.NDArray[np.int64]


class Live(NamedTuple):
    """How far the workload is: operations begun, how they ended, operations begun a second."""

    attempted: int = 0
    ok: int = 0
    fail: int = 0
    info: int = 0
    per_s: float = 0.0


class Written(NamedTuple):
    """The values of writes: of all that were begun, and of those that ended ok or failed."""

    attempted: Ints
    acknowledged: Ints
    failed: Ints


class Recorder:
    """Records one run's history into parts. A context that writes the rest at its end.

    `invoke`, `complete` and `hand_over` belong to one thread; everything else is thread-safe.
    """

    def __init__(self, folder: Path, *, run_id: str, period_s: float = PART_S) -> None:
        self._broken: HarnessFailure | None = None
        self._refused: EnvironmentFailure | None = None
        self._block, self._at = bytearray(_BLOCK_BYTES), 0
        self._spare: list[bytearray] = []
        self._handed: deque[tuple[bytearray, int]] = deque()
        self._notes: deque[tuple[int, ...]] = deque()
        self._codes = {name: _Codes() for name in ("f", "key", "node", "error")}
        self._f, self._key, self._node, self._error = self._codes.values()

        self._parts = ParquetWriter(folder, HISTORY, run_id=run_id)
        self._period_s = period_s
        self._draining = threading.Lock()
        self._unwritten: list[Ints] = []
        self._elements: list[tuple[int, ...]] = []
        self._values: dict[str, list[Ints]] = {name: [] for name in (INVOKE, OK, FAIL)}
        self._rows_written = 0
        self._counts = np.zeros(len(_TYPES), dtype=np.int64)
        self._attempts = deque([(time.monotonic(), 0)])
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._write_parts, name="recorder", daemon=True)
        self._thread.start()

    def invoke(self, process: int, op: Invoke, intended_ns: int, time_ns: int) -> None:
        """Record that an operation begins."""
        f, value, partition, key, expected = op
        at = self._at
        _ROW.pack_into(
            self._block, at,
            process, 0, self._f[f], 0 if key is None else self._key[key],
            value, partition, NULL, 0, 0, intended_ns, time_ns, expected, NULL, NULL,
        )  # fmt: skip
        self._at = at = at + _ROW_BYTES
        if at == _BLOCK_BYTES:
            self.hand_over()

    def complete(
        self, process: int, op: Invoke, ended: Completion, intended_ns: int, time_ns: int
    ) -> None:
        """Record how an operation ended."""
        f, value, partition, key, expected = op
        type_, offset, error, node, result = ended
        elements = NULL
        if isinstance(result, tuple):
            self._elements.append(result)
            result, elements = None, len(self._elements) - 1
        at = self._at
        _ROW.pack_into(
            self._block, at,
            process, _TYPE_CODES[type_],
            self._f[f], 0 if key is None else self._key[key],
            value, partition,
            NULL if offset is None else offset,
            0 if node is None else self._node[node], 0 if error is None else self._error[error],
            intended_ns, time_ns, expected,
            NULL if result is None else result, elements,
        )  # fmt: skip
        self._at = at = at + _ROW_BYTES
        if at == _BLOCK_BYTES:
            self.hand_over()

    def hand_over(self) -> None:
        """Give what was recorded so far to the background thread."""
        if self._at:
            self._handed.append((self._block, self._at))
            self._block = self._spare.pop() if self._spare else bytearray(_BLOCK_BYTES)
            self._at = 0

    def note(self, type_: str, *, f: str, key: str, node: str, error: str, time_ns: int) -> None:
        """Record a row of the nemesis (see `harness.history`)."""
        what = (_TYPE_CODES[type_], self._f[f], self._key[key], NULL, NULL, NULL)
        where = (self._node[node], self._error[error])
        returned = (NULL, NULL, NULL)
        self._notes.append((NEMESIS_PROCESS, *what, *where, time_ns, time_ns, *returned))

    def live(self) -> Live:
        """How far the workload is, at most two tenths of a second old."""
        (from_s, first), (to_s, last) = self._attempts[0], self._attempts[-1]
        per_s = (last - first) / (to_s - from_s) if to_s > from_s else 0.0
        attempted, ok, fail, info = self._counts.tolist()
        return Live(attempted, ok, fail, info, per_s)

    def written(self) -> Written:
        """The values of all writes, of what was handed over so far."""
        with self._draining:
            self._drain()
            none = np.empty(0, dtype=np.int64)
            return Written(*(np.concatenate([none, *parts]) for parts in self._values.values()))

    @property
    def failure(self) -> EnvironmentFailure | HarnessFailure | None:
        """What keeps the background thread from writing, if anything does."""
        return self._broken or self._refused

    def close(self) -> None:
        """Write what is left. Raises EnvironmentFailure when the disk takes it not."""
        self.hand_over()
        self._closing.set()
        self._thread.join()
        if self._broken is None:
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
        """Take what was handed over: into rows, and into the counts."""
        blocks = [self._handed.popleft() for _ in range(len(self._handed))]
        if blocks:
            used = b"".join(memoryview(block)[:end] for block, end in blocks)
            self._spare += [block for block, _ in blocks]
            rows = np.frombuffer(used, np.int64).reshape(-1, len(_COLUMNS))
            self._unwritten.append(rows)
            self._counts = self._counts + np.bincount(rows[:, _TYPE], minlength=len(_TYPES))
            is_write = rows[:, _F] == self._f[APPEND]
            for name, parts in self._values.items():
                parts.append(rows[is_write & (rows[:, _TYPE] == _TYPE_CODES[name]), _VALUE])
        self._attempts.append((time.monotonic(), int(self._counts[0])))
        while self._attempts[-1][0] - self._attempts[0][0] > _RATE_OVER_S:
            self._attempts.popleft()

    def _flush(self) -> None:
        """Write what was drained as one part; what the disk does not take is kept."""
        if notes := [self._notes.popleft() for _ in range(len(self._notes))]:
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
                columns[name] = _texts(column - 1, list(self._codes[name]))
            elif name == "elements":
                columns[name] = self._lists(column)
            else:
                kind = HISTORY.field(name).type.to_pandas_dtype()
                null = column == NULL
                columns[name] = pa.array(np.where(null, 0, column).astype(kind), mask=null)
        return pa.table(columns)

    def _lists(self, places: Ints) -> pa.Array:
        """The sets that were read, by their places; each is written once, and then forgotten."""
        if (places == NULL).all():
            return pa.nulls(len(places), HISTORY.field("elements").type)
        lists = [None if at == NULL else self._elements[at] for at in places.tolist()]
        for at in places[places != NULL].tolist():
            self._elements[at] = ()
        return pa.array(lists, HISTORY.field("elements").type)


class _Codes(dict[str, int]):
    """Text to numbers from 1 on, given out in order of appearance; 0 stands for null."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def __missing__(self, text: str) -> int:
        with self._lock:
            return self.setdefault(text, len(self) + 1)


def _texts(codes: Ints, texts: list[str]) -> pa.DictionaryArray:
    """A text column from codes; a negative code is null."""
    indices = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))
