"""The rows of one run, as its checkers request them.

A run that is not large is kept in memory while it is judged; the parts of a larger one are read
again by every pass, so that a run of any size takes the memory of one batch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from pathlib import Path
from queue import Full, Queue
from typing import Any, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HistoryError
from harness.history import parquet_reader
from harness.models import MODELS
from harness.protocols.runs import (
    Bounds,
    Deliveries,
    Facts,
    FaultWindow,
    Ints,
    Operations,
    Reads,
    Texts,
    Writes,
)

# Reads ahead: while the consumer works on a part, threads make the next ones.
#
# Decoding Parquet and numpy's work on long arrays hold no lock of the interpreter, so all cores are
# used.

THREADS: Final = 2
"""Each makes the parts of every other item."""

PARTS: Final = 1
"""The largest number of parts of a thread that wait for the consumer."""

_LOOK_S: Final = 0.2
"""How often a waiting thread checks whether its consumer has gone."""

Item = TypeVar("Item")
Part = TypeVar("Part")
_Said = tuple[Part] | BaseException | None
"""A part, what making one raised, or that the parts of an item are all there."""


def ahead(items: Sequence[Item], make: Callable[[Item], Iterable[Part]]) -> Iterator[Part]:
    """The parts that `make` returns for each item, in order; what it raises is raised here, behind
    the parts before it."""
    readers = [_Reader(items[n::THREADS], make) for n in range(min(THREADS, len(items)))]
    for reader in readers:
        reader.start()
    try:
        for place in range(len(items)):
            yield from readers[place % THREADS].of_next_item()
    finally:
        for reader in readers:
            reader.stop.set()


class _Reader(threading.Thread, Generic[Item, Part]):
    """Makes the parts of some items until there are none, or `stop` is set."""

    def __init__(self, items: Sequence[Item], make: Callable[[Item], Iterable[Part]]) -> None:
        super().__init__(name="read-ahead", daemon=True)
        self.stop = threading.Event()
        self._items, self._make = items, make
        self._queue: Queue[_Said[Part]] = Queue(PARTS)

    def run(self) -> None:
        try:
            for item in self._items:
                for part in self._make(item):
                    if not self._put((part,)):
                        return
                if not self._put(None):
                    return
        except BaseException as error:  # raised again where the parts are used
            self._put(error)

    def of_next_item(self) -> Iterator[Part]:
        """The parts of the next of its items, as they are made."""
        while (got := self._queue.get()) is not None:
            if isinstance(got, BaseException):
                raise got
            yield got[0]

    def _put(self, what: _Said[Part]) -> bool:
        """Hand something over; whether it is still wanted."""
        while not self.stop.is_set():
            try:
                self._queue.put(what, timeout=_LOOK_S)
            except Full:
                continue
            return True
        return False


# What Parquet files state about the keys and values in them, so that few rows are read for it.
#
# Writers of Parquet store the least and the greatest value of a column and its number of nulls
# with each group of rows (the format's `Statistics`); they need not. A nemesis' rows have a key
# too, which is not that of a value: a file that holds some is read.


def stated(path: Path) -> Bounds | None:
    """The bounds of all rows of a file; `None` where it does not state them, or a nemesis' row may
    have a key. Raises HistoryError for a damaged file."""
    try:
        with pa.OSFile(str(path)) as source:  # a path would be looked up among file systems
            footer = pq.read_metadata(source)
    except (OSError, pa.ArrowException) as error:
        raise HistoryError("cannot be read: its Parquet is damaged", file=str(path)) from error
    names = [footer.schema.column(place).path for place in range(footer.num_columns)]
    groups = [_of_group(footer.row_group(n), names) for n in range(footer.num_row_groups)]
    known = [each for each in groups if each is not None]
    return together(known) if len(known) == len(groups) else None


def together(parts: Iterable[Bounds]) -> Bounds:
    """The bounds of all parts."""
    return reduce(_both, parts, Bounds.none())


def _both(one: Bounds, other: Bounds) -> Bounds:
    if not one.rows or not other.rows:
        return one if one.rows else other
    least, most = min(one.least, other.least), max(one.most, other.most)
    return Bounds(one.rows + other.rows, one.keyed or other.keyed, least, most)


def _of_group(group: pq.RowGroupMetaData, names: list[str]) -> Bounds | None:
    value, key, process = (_statistics(group, names, each) for each in ("value", "key", "process"))
    if value is None or key is None:
        return None
    keyed = key.null_count < group.num_rows
    if keyed and "process" in names and (process is None or not (process.min or 0) >= 0):
        return None
    if value.null_count == group.num_rows:
        return Bounds.none()
    if not value.has_min_max or value.min > value.max:
        return None
    return Bounds(group.num_rows, keyed, value.min, value.max)


def _statistics(group: pq.RowGroupMetaData, names: list[str], column: str) -> Any:
    """Those of a column; `None`: it has none, or does not say how many nulls it has."""
    if column not in names:
        return None
    found = group.column(names.index(column)).statistics
    return found if found is not None and found.has_null_count else None


Holding = Callable[[Texts, Ints], bool]

NEVER: Final = 2**63 - 1
_KEPT_BYTES: Final = 2**25
_KEPT_ROWS: Final = 2**22
"""The rows of a run with no more Parquet and no more rows are kept: they take 250 MB at most."""

_ALONE_BYTES: Final = 2**24
"""So much is read by this thread alone: others would take longer to start."""


def bounds_ns(windows: Sequence[FaultWindow]) -> tuple[Ints, Ints]:
    """The first and the last instant of each fault's window; no instant lies in one that never
    began."""
    begins, ends = [], []
    for window in windows:
        if window.from_s is None:
            begins.append(NEVER)
            ends.append(NEVER - 1)
        else:
            begins.append(round(window.from_s * 1e9))
            ends.append(NEVER if window.to_s is None else round(window.to_s * 1e9))
    return np.array(begins, np.int64), np.array(ends, np.int64)


class Rows:
    """The rows of one run. All raise HistoryError for a part that cannot be read."""

    def __init__(self, facts: Facts) -> None:
        self._facts, self._model = facts, MODELS[facts.promises.model]
        size_bytes = sum(path.stat().st_size for path in (*facts.history, *facts.reads))
        self._keeps = size_bytes <= _KEPT_BYTES and (facts.rows or 0) <= _KEPT_ROWS
        self._alone = self._keeps and size_bytes <= _ALONE_BYTES
        self._writes: list[Writes] | None = None
        self._reads: list[Reads] | None = None

    @property
    def facts(self) -> Facts:
        """Everything else that is known about the run."""
        return self._facts

    def writes(self, *, holding: Holding | None = None) -> Iterator[Writes]:
        """The writes: neither the nemesis' nor other operations."""
        if self._writes is None and self._keeps:
            self._writes = list(self._read_writes())
        if self._writes:
            return iter(self._writes)
        return self._read_writes(holding)

    def operations(self) -> Iterator[Operations]:
        """All operations of the run's model, in the order of the history."""
        return self._read_operations()

    def reads(self) -> Iterator[Reads]:
        """The records, of all readers."""
        if self._reads is None and self._keeps:
            self._reads = list(self._read_reads())
        if self._reads:
            return iter(self._reads)
        return self._read_reads()

    def deliveries(self) -> Iterator[Deliveries]:
        """What consumers did."""
        return self._each(self._facts.deliveries, parquet_reader.deliveries)

    def things(self) -> Iterator[tuple[Texts, Ints]]:
        """The keys and values of all rows."""
        if self._keeps:
            yield from ((rows.key, rows.value) for rows in self.writes())
            yield from ((rows.key, rows.value) for rows in self.reads())
        else:
            yield from self._each(self._facts.history, self._written)
            yield from self._each(self._facts.reads, parquet_reader.keys_and_values)

    def bounds(self) -> Bounds:
        return together(
            stated(path) or Bounds.of(read([path]))
            for read, paths in (
                (self._written, self._facts.history),
                (parquet_reader.keys_and_values, self._facts.reads),
            )
            for path in paths
        )

    def _each(
        self, paths: Sequence[Path], read: Callable[[Sequence[Path]], Iterator[Part]]
    ) -> Iterator[Part]:
        """What `read` has of these files; those of a large run are read ahead."""
        return read(paths) if self._alone else ahead(paths, lambda path: read([path]))

    def _written(self, paths: Iterable[Path]) -> Iterator[tuple[Texts, Ints]]:
        return parquet_reader.written(paths, self._model.writes)

    def _read_writes(self, holding: Holding | None = None) -> Iterator[Writes]:
        def read(paths: Iterable[Path]) -> Iterator[Writes]:
            if holding is not None:
                paths = [
                    path for path in paths if any(holding(*each) for each in self._written([path]))
                ]
            return parquet_reader.writes(paths, self._model.writes, self._facts.footers)

        return self._each(self._facts.history, read)

    def _read_reads(self) -> Iterator[Reads]:
        read = partial(parquet_reader.reads, footers=self._facts.footers)
        return self._each(self._facts.reads, read)

    def _read_operations(self) -> Iterator[Operations]:
        def read(paths: Iterable[Path]) -> Iterator[Operations]:
            return parquet_reader.operations(paths, self._model.functions, self._facts.footers)

        return self._each(self._facts.history, read)
