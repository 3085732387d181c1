"""Dense numbers for the values of a run, so that arrays can tell what became of each.

Values of a workload are integers in a row: their distance from the least is their number. Where
they are not (histories from elsewhere, or values that count anew for each key), every distinct key
and value is listed, sorted, and its place is its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from harness.protocols import Ints, Texts

_ROOM: Final = 4
"""So many numbers for each row, at most, may stay unused in a row of integers."""

Things = Iterable[tuple[Texts, Ints]]


class Numbering(Protocol):
    """Numbers from 0 up to `size` for keys with values."""

    @property
    def size(self) -> int:
        """One more than the largest number."""
        ...

    def numbers(self, key: Texts, value: Ints) -> Ints:
        """The number of each of these, all of which are known."""
        ...

    def things(self, numbers: Ints) -> tuple[list[str | None], Ints]:
        """Keys and values that have these numbers."""
        ...


def numbered(things: Callable[[], Things]) -> Numbering:
    """Numbers for all keys and values that `things`, called once or twice, goes over."""
    rows, keyed = 0, False
    least, most = 2**63, -(2**63)
    for key, value in things():
        if len(value):
            rows += len(value)
            least, most = min(least, int(value.min())), max(most, int(value.max()))
            keyed = keyed or bool((key.codes >= 0).any())
    if not rows:
        return InARow(0, 0)
    if not keyed and most - least < _ROOM * rows + 1024:
        return InARow(least, most - least + 1)
    return Listed.of(things())


@dataclass(frozen=True)
class InARow:
    """Integers without a key, from `least` on."""

    least: int
    size: int

    def numbers(self, key: Texts, value: Ints) -> Ints:  # noqa: ARG002
        """See Numbering."""
        return value - self.least

    def things(self, numbers: Ints) -> tuple[list[str | None], Ints]:
        """See Numbering."""
        return [None] * len(numbers), numbers + self.least


@dataclass(frozen=True)
class Listed:
    """All there are. A pair is the place of its key (0: null) times the number of distinct values,
    plus the place of its value."""

    keys: list[str]
    values: Ints
    pairs: Ints

    @classmethod
    def of(cls, things: Things) -> Listed:
        """The distinct ones of these."""
        seen = list(things)
        keys = sorted({name for key, _ in seen for name in key.names})
        values = np.unique(np.concatenate([value for _, value in seen]))
        nothing = cls(keys, values, np.empty(0, np.int64))
        return cls(keys, values, np.unique(np.concatenate([nothing._pairs(*x) for x in seen])))

    @property
    def size(self) -> int:
        """See Numbering."""
        return len(self.pairs)

    def numbers(self, key: Texts, value: Ints) -> Ints:
        """See Numbering."""
        return np.searchsorted(self.pairs, self._pairs(key, value))

    def things(self, numbers: Ints) -> tuple[list[str | None], Ints]:
        """See Numbering."""
        key, value = np.divmod(self.pairs[numbers], len(self.values))
        names = [None, *self.keys]
        return [names[place] for place in key.tolist()], self.values[value]

    def _pairs(self, key: Texts, value: Ints) -> Ints:
        places = key.places(self.keys) + 1
        return places * len(self.values) + np.searchsorted(self.values, value)
