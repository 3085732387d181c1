"""Records a run's history during the run, at almost no cost to the thread that runs it.

The hot path is one `struct.pack_into` per row, into a block of memory that is reused
in packed rows. No object per operation stays alive and no lock is taken. Full blocks,
and ten times a second the current one, are handed over to a background thread that turns them into
columns, counts and, every few seconds, writes a part.
"""

from __future__ import annotations

import struct
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.errors import EnvironmentFailure, HarnessFailure
from harness.history import HISTORY, NEMESIS_PROCESS
from harness.history.parquet_writer import PART_S, ParquetWriter
from harness.models import APPEND
from harness.protocols import FAIL, INFO, NULL, OK, Completion, Expected, Ints, Invoke, Result

# Rows of a history as the recorder packs them, and their way into columns and a Parquet table.
#
# A row is fourteen integers: text as codes (0 is null), null as a sentinel. Converting numbers is
# most of the cost of a row, so the fields that most rows leave empty are at its end and are packed
# as bytes.

INVOKE: Final = "invoke"
TYPES: Final = (INVOKE, OK, FAIL, INFO)
TYPE_CODES: Final = {name: code for code, name in enumerate(TYPES)}
ENDED_CODES: Final = {name: TYPE_CODES[name] for name in (OK, FAIL, INFO)}

# A row of the history, but for `run_id` and `index`: first what the beginning of an operation has,
# then what its end adds, then what only operations other than writes have.
ROW: Final = np.dtype(
    [
        *((name, np.int64) for name in ("value", "partition", "intended_ns", "time_ns")),
        *((name, np.int32) for name in ("process", "f", "key", "type", "node", "error")),
        *((name, np.int64) for name in ("offset", "expected", "result", "elements")),
    ]
)
ROW_BYTES: Final = ROW.itemsize
BLOCK_BYTES: Final = 4_096 * ROW_BYTES
"""So few that a block turned into columns stays in a processor's cache."""

pack_begun: Final = struct.Struct("=4q3i44s").pack_into
BEGUN: Final = struct.pack("=3i4q", 0, 0, 0, NULL, NULL, NULL, NULL)
pack_ended: Final = struct.Struct("=4q6iq24s").pack_into
WRITE_ONLY: Final = struct.pack("=3q", NULL, NULL, NULL)
pack_row: Final = struct.Struct("=4q6i4q").pack_into

Columns = dict[str, npt.NDArray[Any]]
"""Rows by the names of `ROW`."""


class Codes(dict[str, int]):
    """Text to numbers from 1 on, given out in order of appearance; 0 stands for null."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def __missing__(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"{text!r:.40} is not text")
        with self._lock:
            return self.setdefault(text, len(self) + 1)


def columns_of(blocks: Sequence[tuple[bytearray, int]]) -> Columns:
    """The rows in the first so many bytes of each block."""
    ends = list(accumulate(end // ROW_BYTES for _, end in blocks))
    columns = {name: np.empty(ends[-1], ROW[name]) for name in ROW.names or ()}
    for first, end, (block, _) in zip([0, *ends], ends, blocks, strict=False):
        rows = np.frombuffer(block, ROW, count=end - first)
        for name, column in columns.items():
            column[first:end] = rows[name]
    return columns


def concatenated(parts: Sequence[Mapping[str, Any]]) -> Columns:
    """The rows of several parts."""
    return {name: np.concatenate([part[name] for part in parts]) for name in ROW.names or ()}


def in_order_of_time(parts: Sequence[Columns], notes: Sequence[tuple[int, ...]]) -> Columns:
    """The rows of several parts, and rows that were noted beside, each a tuple in the order of
    `ROW`."""
    columns = concatenated([*parts, np.array(notes, ROW)])  # type: ignore[list-item]
    order = np.argsort(columns["time_ns"], kind="stable")
    return {name: column[order] for name, column in columns.items()}


def history_table(
    columns: Columns, *, first: int, codes: Mapping[str, Codes], sets: Sequence[tuple[int, ...]]
) -> pa.Table:
    """The rows as those of HISTORY from index `first` on, without `run_id` and without columns that
    are null throughout. `sets` are what `elements` has places in."""
    made: dict[str, pa.Array | None] = {
        "index": pa.array(np.arange(first, first + len(columns["type"])))
    }
    for name, column in columns.items():
        if name == "type":
            made[name] = _texts(column, TYPES)
        elif name in codes:
            made[name] = _texts(column - 1, list(codes[name]))
        elif name == "elements":
            made[name] = _lists(column, sets)
        else:
            made[name] = _numbers(column, HISTORY.field(name))
    return pa.table({name: column for name, column in made.items() if column is not None})


def _texts(codes: npt.NDArray[np.int32], texts: Sequence[str]) -> pa.Array | None:
    """A text column from codes, of which a negative one is null."""
    if codes.max(initial=-1) < 0:
        return None
    indices = pa.array(codes, mask=codes < 0 if codes.min() < 0 else None)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


def _numbers(column: Ints, field: pa.Field) -> pa.Array | None:
    numbers = column.astype(field.type.to_pandas_dtype(), copy=False)
    if not field.nullable or not (null := column == NULL).any():
        return pa.array(numbers)
    return None if null.all() else pa.array(numbers, mask=null)


def _lists(places: Ints, sets: Sequence[tuple[int, ...]]) -> pa.Array | None:
    if (places == NULL).all():
        return None
    lists = [None if at == NULL else sets[at] for at in places.tolist()]
    return pa.array(lists, HISTORY.field("elements").type)


_PART_ROWS: Final = 1_000_000
_DRAIN_S: Final = 0.1
_RATE_OVER_S: Final = 2.0

HAND_OVER_NS: Final = 100_000_000
"""How often the recording thread calls `hand_over`."""


class Live(NamedTuple):
    """Progress of the workload: operations begun, how they ended, operations begun per second."""

    attempted: int = 0
    ok: int = 0
    fail: int = 0
    info: int = 0
    per_s: float = 0.0

    @classmethod
    def of_all(cls, cells: Iterable[Live]) -> Live:
        """Progress of all cells of a run."""
        return cls(*map(sum, zip(*cells, strict=True)))


class Written(NamedTuple):
    """The values of writes: of all that were begun, and of those that ended ok or failed. Of those
    that ended ok also the `partition` and `offset` that were acknowledged, NULL where none was."""

    attempted: Ints
    acknowledged: Ints
    failed: Ints
    partition: Ints
    offset: Ints


class Recorder:
    """Records one run's history into parts. A context that writes the rest at its end.

    `invoke`, `complete` and `hand_over` belong to one thread; everything else is thread-safe.
    """

    def __init__(self, folder: Path, *, run_id: str, period_s: float = PART_S) -> None:
        self._broken: HarnessFailure | None = None
        self._refused: EnvironmentFailure | None = None
        self._block, self._at = bytearray(BLOCK_BYTES), 0
        self._spare: list[bytearray] = []
        self._handed: deque[tuple[bytearray, int]] = deque()
        self._notes: deque[tuple[int, ...]] = deque()
        self._codes = {name: Codes() for name in ("f", "key", "node", "error")}
        self._f, self._key, self._node, self._error = self._codes.values()

        self._parts = ParquetWriter(folder, HISTORY, run_id=run_id)
        self._period_s = period_s
        self._draining = threading.Lock()
        self._unwritten: list[Columns] = []
        self._elements: list[tuple[int, ...]] = []
        self._values: dict[str, list[Ints]] = {name: [] for name in (INVOKE, OK, FAIL)}
        self._places: dict[str, list[Ints]] = {"partition": [], "offset": []}
        self._rows_written = 0
        self._counts = np.zeros(len(TYPES), dtype=np.int64)
        self._attempts = deque([(time.monotonic(), 0)])
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._write_parts, name="recorder", daemon=True)
        self._thread.start()

    def invoke(self, process: int, op: Invoke, intended_ns: int, time_ns: int) -> None:
        """Record that an operation begins."""
        f, value, partition, key, expected = op
        at = self._at
        if expected is NULL:  # the number itself, by which a workload says that there is none
            pack_begun(
                self._block, at,
                value, partition, intended_ns, time_ns,
                process, self._f[f], 0 if key is None else self._key[key], BEGUN,
            )  # fmt: skip
        else:
            pack_row(
                self._block, at,
                value, partition, intended_ns, time_ns,
                process, self._f[f], 0 if key is None else self._key[key], 0, 0, 0,
                NULL, *self._expected(expected),
            )  # fmt: skip
        self._at = at = at + ROW_BYTES
        if at == BLOCK_BYTES:
            self.hand_over()

    def complete(
        self, process: int, op: Invoke, ended: Completion, intended_ns: int, time_ns: int
    ) -> None:
        """Record how an operation ended."""
        f, value, partition, key, expected = op
        type_, offset, error, node, result = ended
        at = self._at
        if result is None and expected is NULL:
            pack_ended(
                self._block, at,
                value, partition, intended_ns, time_ns,
                process, self._f[f], 0 if key is None else self._key[key], ENDED_CODES[type_],
                0 if node is None else self._node[node], 0 if error is None else self._error[error],
                NULL if offset is None else offset, WRITE_ONLY,
            )  # fmt: skip
        else:
            pack_row(
                self._block, at,
                value, partition, intended_ns, time_ns,
                process, self._f[f], 0 if key is None else self._key[key], ENDED_CODES[type_],
                0 if node is None else self._node[node], 0 if error is None else self._error[error],
                NULL if offset is None else offset,
                NULL if isinstance(expected, tuple) else expected, *self._read(result),
            )  # fmt: skip
        self._at = at = at + ROW_BYTES
        if at == BLOCK_BYTES:
            self.hand_over()

    def _expected(self, expected: Expected) -> tuple[int, int, int]:
        """What a compare-and-set must find, nothing read, and the place of what a transaction is
        to do."""
        if isinstance(expected, tuple):
            return NULL, *self._read(expected)
        return expected, NULL, NULL

    def _read(self, result: Result) -> tuple[int, int]:
        """What was read, as a value and the place of a set: one of them at most."""
        if isinstance(result, tuple):
            self._elements.append(result)
            return NULL, len(self._elements) - 1
        return NULL if result is None else result, NULL

    def hand_over(self) -> None:
        """Give what was recorded so far to the background thread."""
        if self._at:
            self._handed.append((self._block, self._at))
            self._block = self._spare.pop() if self._spare else bytearray(BLOCK_BYTES)
            self._at = 0

    def note(self, type_: str, *, f: str, key: str, node: str, error: str, time_ns: int) -> None:
        """Record a row of the nemesis (see `harness.history`)."""
        what = (NEMESIS_PROCESS, self._f[f], self._key[key], TYPE_CODES[type_])
        where = (self._node[node], self._error[error])
        self._notes.append((NULL, NULL, time_ns, time_ns, *what, *where, NULL, NULL, NULL, NULL))

    def live(self) -> Live:
        """Progress of the workload, at most two tenths of a second old."""
        (from_s, first), (to_s, last) = self._attempts[0], self._attempts[-1]
        per_s = (last - first) / (to_s - from_s) if to_s > from_s else 0.0
        attempted, ok, fail, info = self._counts.tolist()
        return Live(attempted, ok, fail, info, per_s)

    def written(self) -> Written:
        """The values of all writes, of what was handed over so far."""
        with self._draining:
            self._drain()
            none = np.empty(0, dtype=np.int64)
            columns = (*self._values.values(), *self._places.values())
            return Written(*(np.concatenate([none, *parts]) for parts in columns))

    @property
    def failure(self) -> EnvironmentFailure | HarnessFailure | None:
        """What keeps the background thread from writing, if anything does."""
        return self._broken or self._refused

    def close(self) -> None:
        """Write what is left. Raises EnvironmentFailure when the disk does not accept it."""
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
                    rows = sum(len(part["type"]) for part in self._unwritten)
                    if rows >= _PART_ROWS or time.monotonic() - written_at >= self._period_s:
                        self._flush()
                        written_at = time.monotonic()
            except Exception as error:
                self._broken = HarnessFailure(f"the recorder broke: {error!r}")
                self._broken.__cause__ = error
                return

    def _drain(self) -> None:
        """Take what was handed over: into columns, and into the counts."""
        blocks = [self._handed.popleft() for _ in range(len(self._handed))]
        if blocks:
            columns = columns_of(blocks)
            self._spare += [block for block, _ in blocks]
            self._unwritten.append(columns)
            self._count(columns)
        self._attempts.append((time.monotonic(), int(self._counts[0])))
        while self._attempts[-1][0] - self._attempts[0][0] > _RATE_OVER_S:
            self._attempts.popleft()

    def _count(self, columns: Columns) -> None:
        """Count rows by type, and keep the values of writes, and where they were acknowledged."""
        types, values = columns["type"], columns["value"]
        is_ok = (columns["f"] == self._f[APPEND]) & (types == TYPE_CODES[OK])
        for name, parts in self._places.items():
            parts.append(np.compress(is_ok, columns[name]))
        counts = np.bincount(types, minlength=len(TYPES))
        self._counts = self._counts + counts
        if not (is_write := columns["f"] == self._f[APPEND]).all():
            types, values = np.compress(is_write, types), np.compress(is_write, values)
        for name, parts in self._values.items():
            if counts[code := TYPE_CODES[name]]:
                parts.append(np.compress(types == code, values))

    def _flush(self) -> None:
        """Write what was drained as one part; what the disk does not accept is kept."""
        if notes := [self._notes.popleft() for _ in range(len(self._notes))]:
            self._unwritten = [in_order_of_time(self._unwritten, notes)]
        self._refused = None
        if not self._unwritten:
            return
        columns = concatenated(self._unwritten)
        table = history_table(
            columns, first=self._rows_written, codes=self._codes, sets=self._elements
        )
        try:
            self._parts.write(table)
        except EnvironmentFailure as error:
            self._refused = error
        else:
            self._unwritten = []
            self._rows_written += len(table)
            places = columns["elements"]  # of sets that the disk has taken: before, it may be full
            for at in places[places != NULL].tolist():
                self._elements[at] = ()
