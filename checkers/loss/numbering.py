"""Dense numbers for the values of a run, so that arrays can tell what became of each.

Values of a workload are integers in a row, as long as its processes are equally fast: their
distance from the least is their number. Processes of uneven speed leave gaps: then a bit tells
whether each integer is a value, and the bits before it are its number (rank by population counts:
Jacobson, "Space-efficient static trees and graphs", 1989). Elsewhere (values that are far apart, or
that count again for each key) every distinct key and value is listed, sorted, and its place is its
number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from harness.protocols import Ints, Texts

_ROOM: Final = 4
"""So many numbers for each row, at most, may stay unused in a row of integers."""

_GAPS: Final = 64
"""So many integers for each row, at most, may be no values where bits tell which are: 16 bytes a
row."""

_BITS: Final = 64

Words = NDArray[np.uint64]
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
    if not keyed and most - least < _GAPS * rows:
        return Gapped.of(least, most, things())
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
class Gapped:
    """Integers without a key, some of those from `least` on: a bit for each, in `words`, and how
    many are set `before` each word, and in all."""

    least: int
    words: Words
    before: Ints

    @classmethod
    def of(cls, least: int, most: int, things: Things) -> Gapped:
        """The distinct ones of these, the least and the most of which are known."""
        words = np.zeros((most - least) // _BITS + 1, np.uint64)
        for _, value in things:
            word, bit = np.divmod(value - least, _BITS)
            np.bitwise_or.at(words, word, np.uint64(1) << bit.astype(np.uint64))
        before = np.concatenate([[0], np.cumsum(np.bitwise_count(words), dtype=np.int64)])
        return cls(least, words, before)

    @property
    def size(self) -> int:
        """See Numbering."""
        return int(self.before[-1])

    def numbers(self, key: Texts, value: Ints) -> Ints:  # noqa: ARG002
        """See Numbering."""
        word, bit = np.divmod(value - self.least, _BITS)
        lower = (np.uint64(1) << bit.astype(np.uint64)) - np.uint64(1)
        return self.before[word] + np.bitwise_count(self.words[word] & lower)

    def things(self, numbers: Ints) -> tuple[list[str | None], Ints]:
        """See Numbering."""
        word = np.searchsorted(self.before, numbers, side="right") - 1
        bits = np.unpackbits(self.words[word].astype("<u8").view(np.uint8), bitorder="little")
        order = np.cumsum(bits.reshape(-1, _BITS), axis=1, dtype=np.uint8)
        bit = (order <= (numbers - self.before[word])[:, None]).sum(axis=1)
        return [None] * len(numbers), self.least + word * _BITS + bit


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
        values = distinct(np.concatenate([value for _, value in seen]))
        if not keys:
            return cls(keys, values, np.arange(len(values)))
        nothing = cls(keys, values, np.empty(0, np.int64))
        return cls(keys, values, distinct(np.concatenate([nothing._pairs(*x) for x in seen])))

    @property
    def size(self) -> int:
        """See Numbering."""
        return len(self.pairs)

    def numbers(self, key: Texts, value: Ints) -> Ints:
        """See Numbering."""
        pairs = self._pairs(key, value)
        return np.searchsorted(self.pairs, pairs) if self.keys else pairs

    def things(self, numbers: Ints) -> tuple[list[str | None], Ints]:
        """See Numbering."""
        key, value = np.divmod(self.pairs[numbers], len(self.values))
        names = [None, *self.keys]
        return [names[place] for place in key.tolist()], self.values[value]

    def _pairs(self, key: Texts, value: Ints) -> Ints:
        place = np.searchsorted(self.values, value)
        return (key.places(self.keys) + 1) * len(self.values) + place if self.keys else place


def distinct(values: Ints) -> Ints:
    """The distinct ones, in order. (`np.unique` of numpy 2.3 hashes them, which takes some ten
    times as long for millions.)"""
    ordered = np.sort(values)
    return np.compress(np.diff(ordered, prepend=ordered[:1] - 1) != 0, ordered)
