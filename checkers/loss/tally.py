"""What became of every written value: a tally over all of them, then a closer look at a few.

One byte a value tells whether it was invoked, how it ended and whether it was read. A value is
*plain* when its place in the log is what was promised: acknowledged and read, once and where it was
sent to; refused and not read; or unknown and either of them. Plain values are counted by their
bytes. All others are *odd*: lost, refused and found, duplicated, unexpected, on a wrong partition.
Their rows are gone over again, for all that is known of them; where none is odd, there is no second
pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from checkers.loss.numbering import Numbering
from harness.history.parquet_reader import Part, some
from harness.protocols import NULL, Bits, Bools, Int32s, Ints, Reads, Writes
from harness.protocols.runs import FAIL, INFO, INVOKED, OK, READ

ATTEMPTED: Final = INVOKED | OK | FAIL | INFO
LATEST: Final = 2**63 - 1
NOBODY: Final = -1


class Tally:
    """Marks of all values of a run, by number, and which of them are odd. First all writes, then
    all reads. `names`: records will be asked for that acknowledgements name."""

    def __init__(self, numbering: Numbering, *, names: bool = False) -> None:
        self._numbering = numbering
        self._marks: Bits = np.zeros(numbering.size, np.uint8)
        # Where it was sent to; for values that were sent anywhere, where it was read first.
        self._partition: Int32s = np.full(numbering.size, NOBODY, np.int32)
        self._offset: Ints = np.empty(numbering.size, np.int64)
        self._odd: Bools = np.zeros(numbering.size, np.bool_)
        self._acknowledged_at: Ints | None = np.full(numbering.size, NULL) if names else None
        self._begun = 0

    def write(self, rows: Writes) -> None:
        """Mark some writes."""
        numbers = self._numbering.numbers(rows.key, rows.value)
        for mark in (INVOKED, OK, FAIL, INFO):
            marked = np.compress(rows.mark == mark, numbers)
            self._marks[marked] |= mark
            self._begun += len(marked) if mark == INVOKED else 0
            if mark == OK and self._acknowledged_at is not None:
                self._acknowledged_at[marked] = np.compress(rows.mark == OK, rows.offset)
        if (sent := rows.partition != NULL).all():
            self._settle(numbers, rows.partition)
        else:
            self._settle(numbers[sent], rows.partition[sent])

    def begun_again(self) -> int:
        """How many writes began with a value that another one has, when all writes are marked."""
        return self._begun - int(np.count_nonzero(self._marks & INVOKED))

    def named(self, rows: Reads) -> Bools:
        """Which records are where a write of their value was acknowledged, when all writes are
        marked."""
        assert self._acknowledged_at is not None
        numbers = self._numbering.numbers(rows.key, rows.value)
        named: Bools = self._acknowledged_at[numbers] == rows.offset
        named &= (rows.offset != NULL) & (self._partition[numbers] == rows.partition)
        return named

    def read(self, rows: Reads) -> None:
        """Mark some records that were read."""
        numbers = self._numbering.numbers(rows.key, rows.value)
        self._settle(numbers, rows.partition)
        before = (self._marks[numbers] & READ != 0) & (self._offset[numbers] != rows.offset)
        self._offset[numbers] = rows.offset
        # Of several copies within these rows, the last one's offset now stands.
        self._odd[numbers[before | (self._offset[numbers] != rows.offset)]] = True
        self._marks[numbers] |= READ

    def _settle(self, numbers: Ints, partition: Ints) -> None:
        """Note the partitions of values; one that has another already is odd."""
        fresh = self._partition[numbers] == NOBODY
        self._partition[np.compress(fresh, numbers)] = np.compress(fresh, partition)
        self._odd[numbers[self._partition[numbers] != partition]] = True

    def odd(self) -> Bools:
        """Which values are odd, when all rows are marked."""
        marks = self._marks
        refused = (marks & FAIL != 0) & (marks & (OK | INFO) == 0)
        read = marks & READ != 0
        lost = (marks & OK != 0) & ~read
        odd: Bools = self._odd | lost | (refused & read) | (read & (marks & ATTEMPTED == 0))
        return odd

    def plain(self, odd: Bools) -> Ints:
        """How many of the others, the plain values, have which marks: an array of 32 counts."""
        marks = self._marks[~odd]
        return np.bincount(marks[marks != 0], minlength=32)


@dataclass(frozen=True)
class Odd:
    """All that the rows of a run say of its odd values; arrays, one entry a value.

    `marks`, without READ; `process`, `partition` and `offset` as the client knew them, and
    `intended_ns, invoke_ns, complete_ns`, NULL where nobody knew; `error`, or null. `sent_to`:
    pairs of a value's place here and a partition it was sent to. `copies`: the distinct (place
    here, partition, offset) at which values were read, in order.
    """

    keys: list[str | None]
    values: Ints
    marks: Bits
    process: Ints
    partition: Ints
    offset: Ints
    intended_ns: Ints
    invoke_ns: Ints
    complete_ns: Ints
    error: list[str | None]
    sent_to: Ints
    copies: Ints


def looked_up(
    writes: Iterable[Writes], reads: Iterable[Reads], numbering: Numbering, odd: Bools
) -> Odd:
    """Go over all rows again, for the odd values."""
    numbers = np.flatnonzero(odd)
    place = np.cumsum(odd) - 1
    keys, values = numbering.things(numbers)

    def among(parts: Iterable[Part]) -> Iterator[tuple[Part, Ints]]:
        for part in parts if numbers.size else ():
            each = numbering.numbers(part.key, part.value)
            yield some(part, odd[each]), place[each[odd[each]]]

    written = _written(list(among(writes)), len(numbers))
    copies = [np.column_stack([at, found.partition, found.offset]) for found, at in among(reads)]
    return Odd(keys=keys, values=values, **written, copies=_distinct(copies, 3))


def _written(writes: Sequence[tuple[Writes, Ints]], size: int) -> dict[str, Any]:
    """What the writes of odd values tell of them: the fields of Odd."""
    marks = np.zeros(size, np.uint8)
    error = np.full(size, -1)
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
    texts = [None if code < 0 else names[code] for code in error.tolist()]
    return {"marks": marks, "error": texts, "sent_to": _distinct(sent, 2), **most, **known}


def _distinct(parts: Sequence[Ints], columns: int) -> Ints:
    """The distinct rows of these, in order."""
    rows = np.concatenate([np.empty((0, columns), np.int64), *parts])
    rows = rows[np.lexsort(rows.T[::-1])]
    new = np.ones(len(rows), np.bool_)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows[new]
