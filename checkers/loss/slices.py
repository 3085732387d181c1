"""The shards of a run: its values, distributed in blocks of neighbours.

Within a shard a value is known by the integer that it would be if the shard's blocks stood side by
side: so the values of a shard are as dense as those of the run, and take as little room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

from checkers.loss.numbering import Extent, Numbering
from harness.history.parquet_reader import some
from harness.protocols import Bools, Ints, Reads, Texts, Writes

BLOCK_BITS: Final = 10

Rows = TypeVar("Rows", Writes, Reads)


@dataclass(frozen=True)
class Slice:
    """A shard: the values in every block whose remainder by `of` is `number`; `extent`: of what the
    run holds, where that is known and it is all of it."""

    number: int
    of: int
    extent: Extent | None = None

    def rows(self, rows: Rows) -> Rows:
        """Those with values of the shard."""
        return rows if self.of == 1 else some(rows, self._holds(rows.value))

    def things(self, key: Texts, value: Ints) -> tuple[Texts, Ints]:
        """Those of the shard, each value as the integer that is its place in the shard."""
        if self.of == 1:
            return key, value
        chosen = self._holds(value)
        return Texts(key.codes[chosen], key.names), self.inside(value[chosen])

    def inside(self, value: Ints) -> Ints:
        """The places of values of the shard."""
        low = (1 << BLOCK_BITS) - 1
        return ((value >> BLOCK_BITS) // self.of << BLOCK_BITS) | (value & low)

    def outside(self, place: Ints) -> Ints:
        """The values that have these places."""
        low = (1 << BLOCK_BITS) - 1
        return ((place >> BLOCK_BITS) * self.of + self.number << BLOCK_BITS) | (place & low)

    def _holds(self, value: Ints) -> Bools:
        chosen: Bools = (value >> BLOCK_BITS) % self.of == self.number
        return chosen


@dataclass(frozen=True)
class OfSlice:
    """Numbers of the values of a shard, from those of their places; see Numbering."""

    of_places: Numbering
    slice: Slice

    @property
    def size(self) -> int:
        """See Numbering."""
        return self.of_places.size

    def numbers(self, key: Texts, value: Ints) -> Ints:
        """See Numbering."""
        return self.of_places.numbers(key, self.slice.inside(value))

    def things(self, numbers: Ints) -> tuple[Texts, Ints]:
        """See Numbering."""
        keys, places = self.of_places.things(numbers)
        return keys, self.slice.outside(places)
