"""The findings of all groups of values in one order, whether or not they fit in memory.

Each group's are in order. Few are sorted together. Of many, each group's wait in a file, and are
merged batch by batch (external merge sort: Knuth, The Art of Computer Programming, vol. 3, 5.4).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.loss.findings import FINDINGS, KINDS, ORDER, ordered
from harness.machine.scratch import scratch
from harness.protocols import NULL, Bools, Ints

HELD: Final = 2**20
"""So many findings are held in memory."""

BATCH: Final = 2**15


class Pile:
    """Tables of findings, each of which is in order, as they are added. One that is pickled takes
    all that is in its files along."""

    def __init__(self, tables: Sequence[pa.Table] = ()) -> None:
        self._tables: list[pa.Table | Path] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.rows = 0
        for table in tables:
            self.add(table)

    def add(self, table: pa.Table) -> None:
        """Put a table on top."""
        self._tables.append(table)
        self.rows += len(table)
        if self.rows > HELD and len(self._tables) > 1:
            self._folder = self._folder or scratch()
            for place, each in enumerate(self._tables):
                if isinstance(each, pa.Table):
                    self._tables[place] = path = Path(self._folder.name, f"{place}.parquet")
                    pq.write_table(each, path)

    @property
    def tables(self) -> Iterator[pa.Table]:
        """All tables, one at a time in memory."""
        return (pq.read_table(t) if isinstance(t, Path) else t for t in self._tables)

    def sources(self) -> list[Iterator[pa.RecordBatch]]:
        """The batches of each table."""
        return [_batches(table) for table in self._tables]

    def __reduce__(self) -> tuple[type[Pile], tuple[list[pa.Table]]]:
        return Pile, (list(self.tables),)


def together(piles: Sequence[Pile]) -> pa.Table | pa.RecordBatchReader:
    """All findings in order; a reader, which can be read once, where they are many."""
    if sum(pile.rows for pile in piles) <= HELD or sum(len(pile.sources()) for pile in piles) == 1:
        tables = [table for pile in piles for table in pile.tables if len(table)]
        joined = pa.concat_tables([pa.Table.from_batches([], FINDINGS), *tables])
        return ordered(joined) if len(tables) > 1 else joined

    def batches() -> Iterator[pa.RecordBatch]:
        yield from merged([source for pile in piles for source in pile.sources()])

    return pa.RecordBatchReader.from_batches(FINDINGS, batches())


def merged(sources: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Batches that are in order, from several sources of which each is; of equal rows, those of an
    earlier source come first."""
    fronts = [front for source in sources if (front := _Front.of(source))]
    while fronts:
        least = min(range(len(fronts)), key=lambda place: fronts[place].last)
        last, taken = fronts[least].last, []
        for place, front in enumerate(fronts):
            ready = front.before(last, or_there=place <= least)
            taken.append(front.rows.slice(0, ready))
            fronts[place] = front.behind(ready)
        yield from ordered(pa.Table.from_batches(taken)).combine_chunks().to_batches()
        refilled = (front if front.rows.num_rows else _Front.of(front.source) for front in fronts)
        fronts = [front for front in refilled if front]


class _Front(NamedTuple):
    """The rows of a source that come next, and the numbers by which they are ordered."""

    source: Iterator[pa.RecordBatch]
    rows: pa.RecordBatch
    keys: list[Ints]

    @classmethod
    def of(cls, source: Iterator[pa.RecordBatch]) -> _Front | None:
        """The next batch of a source; None at its end."""
        rows = next((batch for batch in source if batch.num_rows), None)
        return None if rows is None else cls(source, rows, [_key(rows[name]) for name in ORDER])

    @property
    def last(self) -> tuple[int, ...]:
        """The keys of the last row."""
        return tuple(int(key[-1]) for key in self.keys)

    def before(self, place: tuple[int, ...], *, or_there: bool) -> int:
        """How many rows come before one with these keys, or are equal to it."""
        less: Bools = np.zeros(self.rows.num_rows, np.bool_)
        equal: Bools = np.ones(self.rows.num_rows, np.bool_)
        for key, number in zip(self.keys, place, strict=True):
            less |= equal & (key < number)
            equal &= key == number
        return int(np.count_nonzero(less | equal if or_there else less))

    def behind(self, ready: int) -> _Front:
        """What is left when so many rows are taken."""
        return _Front(self.source, self.rows.slice(ready), [key[ready:] for key in self.keys])


def _key(column: pa.Array) -> Ints:
    if pa.types.is_string(column.type):
        column = pc.index_in(column, value_set=pa.array(KINDS)).cast(pa.int64())
    numbers: Ints = pc.fill_null(column.cast(pa.int64()), NULL).to_numpy(zero_copy_only=False)
    return numbers


def _batches(table: pa.Table | Path) -> Iterator[pa.RecordBatch]:
    if isinstance(table, pa.Table):
        yield from table.to_batches(BATCH)
        return
    with pq.ParquetFile(table, pre_buffer=False) as file:
        yield from file.iter_batches(BATCH, use_threads=False)
