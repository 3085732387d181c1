"""Which reader is believed on which partition, and whether the readers agree.

Survivors come from complete reads (truth rule 3). So a partition that any reader read to its end
without an error is judged by the rows of the first of those alone; what the others saw of it counts
only as a second opinion. Where readers are replicas, the rows of all that are complete count: what
is lost is on none of them. Where no reader was complete, all rows count: what was seen was there,
and what was not seen may be there.

Readers agree on a partition when they met the same records there: equal numbers of rows and equal
sums of two 64-bit mixes of key, offset and value (the finalizer of MurmurHash3), from the latest of
their log starts on. Sums need no memory and no order; that two different reads agree by chance is
as likely as one in 2^128.

Whether a partition is confirmed by a second reader that did not read all of it.

A record is *named* when a write of its value was acknowledged at this very partition and offset:
the library that wrote is then a second witness of what stands there. Where the believed reader met
every offset of a partition once, in order, and each record that is not named lies in ranges in
which another reader met the same, two libraries account for every record of the partition. So a
missing value is as well confirmed as by two complete reads (`harness.run.final_read` chooses the
ranges; nothing of what it concluded is believed here).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.history.parquet_reader import some
from harness.protocols import Bools, Facts, Ints, PartitionEnd, Reads, Texts


class Ranges(NamedTuple):
    """Ranges of offsets, in the order of their first ones; of each, the offset after it and after
    all before it."""

    firsts: Ints
    behind: Ints

    @classmethod
    def of(cls, ranges: Sequence[tuple[int, int]]) -> Ranges:
        """Pairs of the first offset of a range and the one after it, in any order."""
        firsts, behind = np.array(sorted(ranges), np.int64).reshape(-1, 2).T
        return cls(firsts, np.maximum.accumulate(behind))

    def hold(self, offset: Ints) -> Bools:
        """Which offsets lie in any of the ranges."""
        if not len(self.firsts):
            return np.zeros(len(offset), np.bool_)
        at = np.searchsorted(self.firsts, offset, side="right") - 1
        inside: Bools = (at >= 0) & (offset < self.behind[at])
        return inside


def in_part(facts: Facts) -> dict[int, PartitionEnd]:
    """The partitions that one reader read to the end and another one in part."""
    return {end.partition: end for end in facts.ends if len(end.readers) == 1 and end.verified}


def _ranges_in(facts: Facts) -> dict[int, Ranges]:
    """What the other reader read of each of them."""
    ends = in_part(facts).items()
    return {partition: Ranges.of(end.verified[0].ranges) for partition, end in ends}


@dataclass
class Verification:
    """Goes through what was read, and finds what is not confirmed; rows of the believed reader."""

    ends: dict[int, PartitionEnd]
    ranges: dict[int, Ranges] = field(default_factory=dict)
    next_offset: dict[int, int] = field(default_factory=dict)
    holds: bool = True

    @classmethod
    def of(cls, facts: Facts) -> Verification:
        ends = in_part(facts)
        first = {partition: end.log_start or 0 for partition, end in ends.items()}
        return cls(ends, _ranges_in(facts), first)

    def follow(self, rows: Reads) -> None:
        """Take rows into account, in the order of the files: every offset once."""
        for partition, next_offset in self.next_offset.items():
            offset = rows.offset[rows.partition == partition]
            behind = next_offset + len(offset)
            self.holds = self.holds and np.array_equal(offset, np.arange(next_offset, behind))
            self.next_offset[partition] = behind

    def rest(self, rows: Reads, named: Bools) -> None:
        """Take rows into account, in any order, and whether an acknowledgement names them."""
        for partition, ranges in self.ranges.items():
            offset = rows.offset[(rows.partition == partition) & ~named]
            self.holds = self.holds and bool(ranges.hold(offset).all())

    def ended(self) -> bool:
        """Whether everything that was examined is confirmed, and the partitions were followed to
        the end."""
        return self.holds and all(
            self.next_offset[partition] == end.read_to for partition, end in self.ends.items()
        )


NOBODY: Final = -2
"""The code of a reader of which these rows have no record; -1 is null."""

_Mixes = npt.NDArray[np.uint64]
_SALTS: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03))
_SHIFT: Final = np.uint64(33)
_FACTORS: Final = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))


@dataclass
class Seen:
    """What one reader met on one partition: how many rows, and the sums of their mixes."""

    rows: int = 0
    sums: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, rows: Reads) -> None:
        """Take some rows of that reader and partition into account."""
        self.rows += len(rows.value)
        for place, salt in enumerate(_SALTS):
            total = int(_mixed(rows, salt).sum(dtype=np.uint64))
            self.sums[place] = (self.sums[place] + total) % 2**64


class Disagreement(NamedTuple):
    """Complete readers that met different records, and where: a partition in words."""

    readers: tuple[str, ...]
    partition: str


class Readers:
    """Chooses the rows that a run is judged by, and compares its readers; rows go through `judged`
    once or more, and through `compare` once."""

    def __init__(self, facts: Facts) -> None:
        self._ends = {end.partition: end for end in facts.ends}
        self._ranges = _ranges_in(facts)
        self._partitions = facts.promises.partitions
        self._replicas = facts.promises.readers_are_replicas
        self._seen: dict[tuple[int, str], Seen] = {}

    @property
    def count_together(self) -> bool:
        """Whether the rows of several readers may count on one partition."""
        numbers = range(self._partitions)
        return self._replicas or not all(
            number in self._ends and self._ends[number].readers for number in numbers
        )

    def judged(self, rows: Reads) -> Reads:
        """The rows of the readers that are believed on their partitions."""
        first = {end.partition: end.readers[0] for end in self._ends.values() if end.readers}
        if not first:
            return rows
        if self._replicas:
            chosen = np.ones(len(rows.partition), np.bool_)
            for end in self._ends.values():
                if end.readers:
                    chosen &= (rows.partition != end.partition) | _of(rows.reader, end.readers)
            return rows if chosen.all() else some(rows, chosen)
        if set(first.values()) == set(rows.reader.names) and len(rows.reader.names) == 1:
            return rows
        place = {name: code for code, name in enumerate(rows.reader.names)}
        partitions = np.array(sorted(first), np.int64)
        believed = np.array(
            [place.get(first[number], NOBODY) for number in sorted(first)], np.int32
        )
        at = np.searchsorted(partitions, rows.partition).clip(max=len(partitions) - 1)
        chosen = (partitions[at] != rows.partition) | (believed[at] == rows.reader.codes)
        return rows if chosen.all() else some(rows, chosen)

    def compare(self, rows: Reads) -> None:
        """Take rows into account where two readers or more are complete, or one of them is and
        others read ranges."""
        for end in self._ends.values():
            if len(names := _compared(end)) < 2:
                continue
            here = rows.partition == end.partition
            if end.log_start is not None:
                here &= rows.offset >= end.log_start
            if len(end.readers) == 1:
                here &= self._ranges[end.partition].hold(rows.offset)
            for name in names:
                mine = here & _of(rows.reader, [name])
                if mine.any():
                    self._seen.setdefault((end.partition, name), Seen()).add(some(rows, mine))

    def disagreements(self) -> list[Disagreement]:
        """The partitions for which readers report different things, once everything is compared."""
        return [
            Disagreement(names, f"partition {end.partition}")
            for end in self._ends.values()
            if len(names := _compared(end)) > 1
            and any(self._of(end, name) != self._of(end, names[0]) for name in names[1:])
        ]

    def _of(self, end: PartitionEnd, reader: str) -> Seen:
        return self._seen.get((end.partition, reader), Seen())


class OnReplicas:
    """Which replicas have each value, of those that were read to the end of every partition; rows
    of `Readers.judged` go through `read` once."""

    def __init__(self, facts: Facts, size: int) -> None:
        of_each = [set(end.readers) for end in facts.ends if facts.promises.readers_are_replicas]
        self.names = sorted(set.intersection(*of_each)) if of_each else []
        self._bits = np.zeros(size if self.names else 0, f"uint{_bits(len(self.names))}")

    def read(self, rows: Reads, numbers: Ints) -> None:
        """Take some records into account, whose values have these numbers."""
        for bit, name in enumerate(self.names):
            self._bits[numbers[_of(rows.reader, [name])]] |= self._bits.dtype.type(1 << bit)

    def lacking(self, acknowledged: Callable[[Ints], Bools]) -> Counter[str]:
        """How many acknowledged values each of them lacks that another one has."""
        found = Counter[str]()
        apart = np.flatnonzero((self._bits != 0) & (self._bits != (1 << len(self.names)) - 1))
        bits = self._bits[apart[acknowledged(apart)]]
        for bit, name in enumerate(self.names):
            found[name] = int(np.count_nonzero(bits >> bit & 1 == 0))
        return found


def _bits(number: int) -> int:
    return next(size for size in (8, 16, 32, 64) if number <= size)


def _compared(end: PartitionEnd) -> tuple[str, ...]:
    """The readers that must have met the same: all that are complete; where there is one, it and
    the one that read ranges."""
    ranged = end.verified[:1] if len(end.readers) == 1 else ()
    return (*end.readers, *(each.reader for each in ranged))


def confirmed(facts: Facts, *, verified: bool = False) -> frozenset[int]:
    """The partitions on which a counter-example may rest: two libraries read them to the end, or
    (`verified`) one did, and `checkers.loss.readers` holds."""
    in_parts = in_part(facts) if verified else {}
    return frozenset(
        end.partition
        for end in facts.ends
        if facts.one_reader or len(end.readers) >= 2 or end.partition in in_parts
    )


def _of(reader: Texts, names: Iterable[str]) -> Bools:
    wanted = np.array([*(name in set(names) for name in reader.names), False])
    chosen: Bools = wanted[reader.codes]
    return chosen


def _mixed(rows: Reads, salt: np.uint64) -> _Mixes:
    hashes = (hashlib.blake2b(name.encode(), digest_size=8).digest() for name in rows.key.names)
    keys = np.array([*(int.from_bytes(each, "big") for each in hashes), 0], np.uint64)
    mixed = _finalized(rows.offset.astype(np.uint64) + salt)
    mixed = _finalized(mixed ^ rows.value.astype(np.uint64))
    return _finalized(mixed ^ (keys[rows.key.codes] * salt))


def _finalized(mix: _Mixes) -> _Mixes:
    """MurmurHash3's 64-bit finalizer (Appleby, public domain)."""
    for factor in _FACTORS:
        mix = (mix ^ (mix >> _SHIFT)) * factor
    finalized: _Mixes = mix ^ (mix >> _SHIFT)
    return finalized
