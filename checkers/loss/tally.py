"""The outcome of every written value: a tally over all of them, before a closer look at a few.

One byte per value shows whether it was invoked, how it ended and whether it was read. A value is
*plain* when its place in the log is what was promised: acknowledged and read, once and where it was
sent to; refused and not read; or unknown and either of them. Plain values are counted by their
bytes. All others are *odd*: lost, refused and found, duplicated, unexpected, on a wrong partition.
Their rows are read again, for all that is known of them (`checkers.loss.tally`); if none is
anomalous, there is no second pass. So that a value is odd without need costs time, and changes no
count: it is what saves the room for every offset at which a value was read.

A closer look at the values that the tally found odd: all that the rows say of them.

All rows are read once more, and those of odd values are kept; where these are many, once more for
each group of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np

from checkers.loss.numbering import Narrow, Numbering
from harness.history.parquet_reader import some
from harness.history.parquet_writer import places
from harness.protocols import NULL, Bits, Bools, Ints, Reads, Texts, Writes
from harness.protocols.runs import FAIL, INFO, INVOKED, OK, READ

ATTEMPTED: Final = INVOKED | OK | FAIL | INFO

ODD: Final = 32
"""Beside the marks of a value: it is odd, whatever they are."""

_PIECE: Final = 2**22


class Tally:
    """Marks of all values of a run, by number, and which of them are odd. First all writes, then
    all reads. `names`: records that acknowledgements name will be requested. `often`: the same
    record may be read many times; else a value that is read again is anomalous, no matter where
    that was."""

    def __init__(self, numbering: Numbering, *, names: bool = False, often: bool = True) -> None:
        self._numbering = numbering
        self._marks: Bits = np.zeros(numbering.size, np.uint8)
        # Where it was sent to; for values that were sent anywhere, where it was read first.
        self._partition = Narrow(numbering.size, np.int8)
        self._acknowledged_at = Narrow(numbering.size, np.int32) if names else None
        self._offset = Narrow(numbering.size, np.int32) if often else None
        self._begun = 0

    def write(self, rows: Writes) -> Ints:
        """Mark some writes; the numbers of those that began."""
        numbers = self._numbering.numbers(rows.key, rows.value)
        for mark in (INVOKED, OK, FAIL, INFO):
            chosen = rows.mark == mark
            marked = np.compress(chosen, numbers)
            self._marks[marked] |= mark
            self._begun += len(marked) if mark == INVOKED else 0
            if mark == OK and self._acknowledged_at is not None:
                self._acknowledged_at.put(marked, np.compress(chosen, rows.offset))
        if (sent := rows.partition != NULL).all():
            self._settle(numbers, rows.partition)
        else:
            self._settle(numbers[sent], rows.partition[sent])
        return np.compress(rows.mark == INVOKED, numbers)

    def acknowledged(self, numbers: Ints) -> Bools:
        """Which values with these numbers were acknowledged, when all writes are marked."""
        found: Bools = self._marks[numbers] & OK != 0
        return found

    def begun_again(self) -> int:
        """How many writes began with a value that another one has, when all writes are marked."""
        pieces = (self._marks[piece] for piece in self._pieces())
        return self._begun - sum(int(np.count_nonzero(piece & INVOKED)) for piece in pieces)

    def numbers(self, rows: Reads) -> Ints:
        """The numbers of the values of some records."""
        return self._numbering.numbers(rows.key, rows.value)

    def named(self, rows: Reads, numbers: Ints) -> Bools:
        """Which records, whose values have these numbers, are where a write of their value was
        acknowledged, when all writes are marked."""
        assert self._acknowledged_at is not None
        named = self._acknowledged_at.holds(numbers, rows.offset)
        named &= (rows.offset != NULL) & self._partition.holds(numbers, rows.partition)
        return named

    def read(self, rows: Reads, numbers: Ints) -> None:
        """Mark some records that were read, whose values have these numbers."""
        self._settle(numbers, rows.partition)
        again = self._marks[numbers] & READ != 0
        self._marks[numbers] |= READ
        if self._offset is None:
            self._marks[numbers[again]] |= ODD
            self._marks[_repeated(numbers)] |= ODD
            return
        again &= ~self._offset.holds(numbers, rows.offset)
        self._offset.put(numbers, rows.offset)
        # Of several copies within these rows, the last one's offset now stands.
        self._marks[numbers[again | ~self._offset.holds(numbers, rows.offset)]] |= ODD

    def _settle(self, numbers: Ints, partition: Ints) -> None:
        """Note the partitions of values; one that has another already is odd."""
        fresh = self._partition.lacks(numbers)
        if fresh.any():
            self._partition.put(np.compress(fresh, numbers), np.compress(fresh, partition))
        self._marks[numbers[~self._partition.holds(numbers, partition)]] |= ODD

    def odd(self) -> Ints:
        """The numbers of the values that are odd, in order, when all rows are marked."""
        found = [np.empty(0, np.int64)]
        for piece in self._pieces():
            marks = self._marks[piece]
            marks |= _ODD_BY_MARKS[marks]
            found.append(np.flatnonzero(marks & ODD) + piece.start)
        return np.concatenate(found)

    def plain(self) -> Ints:
        """How many of the others, the plain values, have which marks: an array of 32 counts, once
        `odd` was requested."""
        pieces = (np.bincount(self._marks[piece], minlength=2 * ODD) for piece in self._pieces())
        counts = sum(pieces, np.zeros(2 * ODD, np.int64))[:ODD]
        counts[0] = 0
        return counts

    def is_odd(self, numbers: Ints) -> Bools:
        """Which of these numbers are those of anomalous values, once `odd` was requested."""
        found: Bools = self._marks[numbers] & ODD != 0
        return found

    def close(self) -> None:
        self._partition = Narrow(0, np.int8)
        self._offset = self._acknowledged_at = None

    def _pieces(self) -> Iterator[slice]:
        """Parts of all numbers: what is made of all at once would take many times the marks."""
        size = len(self._marks)
        return (slice(begin, min(begin + _PIECE, size)) for begin in range(0, size, _PIECE))


def _repeated(numbers: Ints) -> Ints:
    ordered = np.sort(numbers)
    return np.compress(ordered[1:] == ordered[:-1], ordered[1:])


def _odd_by_marks() -> Bits:
    """ODD for marks that are odd by themselves: lost; refused and read; read, and not attempted."""
    marks = np.arange(256)
    refused = (marks & FAIL != 0) & (marks & (OK | INFO) == 0)
    read = marks & READ != 0
    lost = (marks & OK != 0) & ~read
    odd = lost | (refused & read) | (read & (marks & ATTEMPTED == 0))
    return np.where(odd, ODD, 0).astype(np.uint8)


_ODD_BY_MARKS: Final = _odd_by_marks()


LATEST: Final = 2**63 - 1

Part = TypeVar("Part", Writes, Reads)


@dataclass(frozen=True)
class Odd:
    """All that the rows of a run say of its odd values; arrays, one entry a value.

    `marks`, without READ; `process`, `partition` and `offset` as the client knew them, and
    `intended_ns, invoke_ns, complete_ns`, NULL where unknown; its `error`. `sent_to`:
    pairs of a value's place here and a partition it was sent to. `copies`: the distinct (place
    here, partition, offset) at which values were read, in order.
    """

    keys: Texts
    values: Ints
    marks: Bits
    process: Ints
    partition: Ints
    offset: Ints
    intended_ns: Ints
    invoke_ns: Ints
    complete_ns: Ints
    error: Texts
    sent_to: Ints
    copies: Ints


def kept(
    parts: Iterable[Part], numbering: Numbering, chosen: Callable[[Ints], Bools]
) -> Iterator[tuple[Part, Ints]]:
    """The rows of chosen values, with the numbers of these."""
    for part in parts:
        numbers = numbering.numbers(part.key, part.value)
        of = chosen(numbers)
        if of.any():
            yield some(part, of), numbers[of]


def odd_of(
    numbering: Numbering,
    numbers: Ints,
    of_writes: Iterable[tuple[Writes, Ints]],
    of_reads: Iterable[tuple[Reads, Ints]],
) -> Odd:
    """What these rows say of the values with these numbers."""
    keys, values = numbering.things(numbers)
    writes = [(part, places(numbers, each)) for part, each in of_writes]
    written = _written(writes, len(numbers))
    copies = [
        np.column_stack([places(numbers, each), found.partition, found.offset])
        for found, each in of_reads
    ]
    return Odd(keys=keys, values=values, **written, copies=_distinct(copies, 3))


def _written(writes: Sequence[tuple[Writes, Ints]], size: int) -> dict[str, Any]:
    """What the writes of anomalous values show about them: the fields of Odd."""
    marks = np.zeros(size, np.uint8)
    error = np.full(size, -1, np.int32)
    most = {name: np.full(size, NULL) for name in ("process", "partition", "offset", "complete_ns")}
    least = {name: np.full(size, LATEST) for name in ("intended_ns", "invoke_ns")}
    names = sorted({name for part, _ in writes for name in part.error.names})
    for part, at in writes:
        ok, begun = part.mark == OK, part.mark == INVOKED
        np.bitwise_or.at(marks, at, part.mark)
        np.maximum.at(error, at, part.error.places(names))
        np.maximum.at(most["process"], at, part.process)
        np.maximum.at(most["partition"], at, part.partition)
        np.maximum.at(most["offset"], at[ok], part.offset[ok])
        np.maximum.at(most["complete_ns"], at[~begun], part.time_ns[~begun])
        np.minimum.at(least["intended_ns"], at, part.intended_ns)
        np.minimum.at(least["invoke_ns"], at[begun], part.time_ns[begun])
    sent = [np.column_stack([at, part.partition])[part.partition != NULL] for part, at in writes]
    known = {name: np.where(times == LATEST, NULL, times) for name, times in least.items()}
    others = {"marks": marks, "error": Texts(error, names), "sent_to": _distinct(sent, 2)}
    return {**others, **most, **known}


def _distinct(parts: Sequence[Ints], columns: int) -> Ints:
    """The distinct rows of these, in order."""
    rows = np.concatenate([np.empty((0, columns), np.int64), *parts])
    rows = rows[np.lexsort(rows.T[::-1])]
    new = np.ones(len(rows), np.bool_)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows[new]
