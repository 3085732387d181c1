"""Whether a partition is confirmed by a second reader that did not read all of it.

A record is *named* when a write of its value was acknowledged at this very partition and offset:
the library that wrote is then a second witness of what stands there. Where the believed reader met
every offset of a partition once, in order, and each record that is not named lies in ranges in
which another reader met the same, two libraries account for every record of the partition. So a
missing value is as well confirmed as by two complete reads (`harness.run.second_read` chooses the
ranges; nothing of what it concluded is believed here).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from harness.protocols import Bools, Facts, Ints, PartitionEnd, Reads


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


@dataclass
class Verification:
    """Goes through what was read, and finds what is not confirmed; rows of the believed reader."""

    ends: dict[int, PartitionEnd]
    ranges: dict[int, Ranges] = field(default_factory=dict)
    next_offset: dict[int, int] = field(default_factory=dict)
    holds: bool = True

    @classmethod
    def of(cls, facts: Facts) -> Verification:
        """Nothing has been examined yet."""
        ends = in_part(facts)
        return cls(
            ends,
            {partition: Ranges.of(end.verified[0].ranges) for partition, end in ends.items()},
            {partition: end.log_start or 0 for partition, end in ends.items()},
        )

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
