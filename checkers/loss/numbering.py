"""Dense numbers for the values of a run, so that arrays can hold the outcome of each.

Values of a workload are integers in a row, as long as its processes are equally fast: their
distance from the least is their number. Processes of uneven speed leave gaps: then a bit shows
whether each integer is a value, and the bits before it are its number (rank by population counts:
Jacobson, "Space-efficient static trees and graphs", 1989). Elsewhere (values that are far apart, or
that count again for each key) every distinct key and value is listed, sorted, and its place is its
number.

One number for each of very many values, in as few bytes as the numbers need.

The shards of a run: its values, distributed in blocks of neighbours.

Within a shard a value is known by the integer that it would be if the shard's blocks stood side by
side: so the values of a shard are as dense as those of the run, and take as little room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from harness.errors import HistoryError
from harness.history.parquet_reader import some
from harness.history.parquet_writer import places
from harness.protocols import NULL, Bools, Ints, Reads, Texts, Writes
from harness.protocols.runs import Bounds

_TYPES: Final = (np.int8, np.int16, np.int32, np.int64)


class Narrow:
    """`size` numbers, none of which is known at first (NULL); those from `dtype` on that hold all
    that were put here, as wide as int64."""

    def __init__(self, size: int, dtype: type[np.signedinteger[Any]]) -> None:
        self._numbers: npt.NDArray[np.signedinteger[Any]] = np.full(
            size, np.iinfo(dtype).min, dtype
        )

    def put(self, places: Ints, numbers: Ints) -> None:
        """Note numbers, or NULL, at these places; of several for one, the last."""
        if not numbers.size:
            return
        known = numbers != NULL
        least = int(numbers.min(initial=0, where=known))
        self._widen(least, int(numbers.max(initial=0, where=known)))
        nothing = self._nothing
        self._numbers[places] = numbers if known.all() else np.where(known, numbers, nothing)

    def lacks(self, places: Ints) -> Bools:
        """At which of these places no number is known."""
        lacking: Bools = self._numbers[places] == self._nothing
        return lacking

    def holds(self, places: Ints, numbers: Ints) -> Bools:
        """At which of these places these very numbers, none of which is NULL, stand."""
        held: Bools = self._numbers[places] == numbers
        return held

    @property
    def _nothing(self) -> int:
        return int(np.iinfo(self._numbers.dtype).min)

    def _widen(self, least: int, most: int) -> None:
        for kind in _TYPES:
            fits = np.iinfo(kind).min < least and most <= np.iinfo(kind).max
            if fits or kind is np.int64:
                if np.dtype(kind).itemsize > self._numbers.itemsize:
                    lacking = self._numbers == self._nothing
                    self._numbers = self._numbers.astype(kind)
                    self._numbers[lacking] = self._nothing
                return


_ROOM: Final = 4
"""So many numbers for each row, at most, may stay unused in a row of integers."""

_GAPS: Final = 64
"""So many integers for each row, at most, may be no values where bits show which are: 16 bytes a
row."""

_MANY: Final = 2**24
"""Of so many rows, integers are in a row only where most of them are values."""

_LISTED_BYTES: Final = 48
"""For each row, while they are sorted."""

_FLAGS: Final = 2**27
"""So many bytes, at most, show which integers are values until bits do."""

_WORD_BYTES: Final = 12
"""Of 64 integers: bits, and how many are set before them."""

_BITS: Final = 64
_SHIFT, _LOW = 6, 63
"""A number of bits, as words and as bits of the last one."""

Words = NDArray[np.uint64]
Ranks = NDArray[np.uint32] | NDArray[np.int64]
Things = Iterable[tuple[Texts, Ints]]


class Numbering(Protocol):
    """Numbers from 0 up to `size` for keys with values."""

    @property
    def size(self) -> int: ...

    def numbers(self, key: Texts, value: Ints) -> Ints:
        """The number of each of these, all of which are known."""

    def things(self, numbers: Ints) -> tuple[Texts, Ints]:
        """Keys and values that have these numbers."""


class Extent(Bounds):
    """The bounds of keys and values, and what follows from them."""

    __slots__ = ()

    @property
    def integers(self) -> int:
        """How many integers reach from the least to the most."""
        return self.most - self.least + 1

    def way(self) -> type[InARow | Gapped | Listed]:
        """How to number them."""
        integers = self.integers
        few = self.rows < _MANY
        if not self.rows or (
            not self.keyed and integers <= (_ROOM * self.rows + 1024 if few else self.rows // 2)
        ):
            return InARow
        return Gapped if not self.keyed and integers <= _GAPS * self.rows else Listed

    def bytes_needed(self, of_a_value: int) -> int:
        """About how much memory arrays of so many bytes a value take, and the numbers of values:
        most have three rows."""
        values = self.rows // 3
        way = self.way()
        if way is Listed:
            return self.rows * _LISTED_BYTES + values * of_a_value
        if way is Gapped:
            return self.integers * _WORD_BYTES // _BITS + values * of_a_value
        return self.integers * of_a_value if self.rows else 0


def numbered(things: Callable[[], Things], extent: Extent | None = None) -> Numbering:
    """Numbers for all keys and values that `things`, called once or twice, goes over, which have
    this extent."""
    extent = extent or Extent.of(things())
    way = extent.way()
    if way is Listed:
        return Listed.of(things())
    if way is Gapped:
        return Gapped.of(extent.least, extent.most, things())
    return InARow(extent.least, extent.integers) if extent.rows else InARow(0, 0)


def _steps(value: Ints, least: int, most: int) -> Ints:
    """How far values are from the least. Raises HistoryError if some are not between the two:
    these may be what a file states, and a number that is not an offset would be another value's."""
    if len(value) and (int(value.min()) < least or int(value.max()) > most):
        raise _unlike_stated(f"values beyond those that its Parquet states, {least:,} to {most:,}")
    return value - least


def _refuse_keys(key: Texts) -> None:
    """Raise HistoryError for values with keys, where a file states that there are none."""
    if key.names and bool((key.codes >= 0).any()):
        raise _unlike_stated("keys, of which its Parquet states that it has none")


def _unlike_stated(what: str) -> HistoryError:
    return HistoryError(
        f"holds {what}",
        key="value",
        hint="copy the run folder again; if the copy is the same, report its writer",
    )


@dataclass(frozen=True)
class InARow:
    """Integers without a key, from `least` on."""

    least: int
    size: int

    def numbers(self, key: Texts, value: Ints) -> Ints:
        _refuse_keys(key)
        return _steps(value, self.least, self.least + self.size - 1)

    def things(self, numbers: Ints) -> tuple[Texts, Ints]:
        return Texts.nulls(len(numbers)), numbers + self.least


@dataclass(frozen=True)
class Gapped:
    """Integers without a key, some of those from `least` on: a bit for each, in `words`, and how
    many are set `before` each word, and in all."""

    least: int
    words: Words
    before: Ranks

    @classmethod
    def of(cls, least: int, most: int, things: Things) -> Gapped:
        """The distinct ones of these, the least and the most of which are known."""
        few = most - least < _FLAGS
        words = (_flagged if few else _set)((most - least >> _SHIFT) + 1, least, most, things)
        kind = np.dtype(np.uint32 if len(words) * _BITS < 2**32 else np.int64)
        before: Ranks = np.zeros(len(words) + 1, kind)
        np.cumsum(np.bitwise_count(words), dtype=kind, out=before[1:])
        return cls(least, words, before)

    @property
    def size(self) -> int:
        return int(self.before[-1])

    def numbers(self, key: Texts, value: Ints) -> Ints:
        _refuse_keys(key)
        steps = value - self.least
        word = steps >> _SHIFT
        lower = (np.uint64(1) << (steps & _LOW).view(np.uint64)) - np.uint64(1)
        lower &= self.words[word]
        numbers: Ints = self.before[word].astype(np.int64)
        numbers += np.bitwise_count(lower)
        return numbers

    def things(self, numbers: Ints) -> tuple[Texts, Ints]:
        word = np.searchsorted(self.before, numbers.astype(self.before.dtype), side="right") - 1
        bits = np.unpackbits(self.words[word].astype("<u8").view(np.uint8), bitorder="little")
        order = np.cumsum(bits.reshape(-1, _BITS), axis=1, dtype=np.uint8)
        bit = (order <= (numbers - self.before[word])[:, None]).sum(axis=1)
        return Texts.nulls(len(numbers)), self.least + word * _BITS + bit


def _set(size: int, least: int, most: int, things: Things) -> Words:
    """So many words, with a bit set for each value."""
    words = np.zeros(size, np.uint64)
    for _, value in things:
        steps = _steps(value, least, most)
        word, bit = steps >> _SHIFT, np.uint64(1) << (steps & _LOW).view(np.uint64)
        fresh = words[word] & bit == 0  # most stand in several rows: setting is what takes time
        np.bitwise_or.at(words, np.compress(fresh, word), np.compress(fresh, bit))
    return words


def _flagged(size: int, least: int, most: int, things: Things) -> Words:
    """The same; the bits are bytes first, which are several times as fast to set."""
    flags = np.zeros(size * _BITS, np.bool_)
    for _, value in things:
        flags[_steps(value, least, most)] = True
    return np.packbits(flags, bitorder="little").view("<u8").astype(np.uint64, copy=False)


@dataclass(frozen=True)
class Listed:
    """All there are. A pair is the place of its key (0: null) times the number of distinct values,
    plus the place of its value."""

    keys: list[str]
    values: Ints
    pairs: Ints

    @classmethod
    def of(cls, things: Things) -> Listed:
        seen = list(things)
        keys = sorted({name for key, _ in seen for name in key.names})
        values = distinct(np.concatenate([value for _, value in seen]))
        if not keys:
            return cls(keys, values, np.arange(len(values)))
        nothing = cls(keys, values, np.empty(0, np.int64))
        return cls(keys, values, distinct(np.concatenate([nothing._pairs(*x) for x in seen])))

    @property
    def size(self) -> int:
        return len(self.pairs)

    def numbers(self, key: Texts, value: Ints) -> Ints:
        pairs = self._pairs(key, value)
        return places(self.pairs, pairs) if self.keys else pairs

    def things(self, numbers: Ints) -> tuple[Texts, Ints]:
        key, value = np.divmod(self.pairs[numbers], len(self.values))
        return Texts((key - 1).astype(np.int32), self.keys), self.values[value]

    def _pairs(self, key: Texts, value: Ints) -> Ints:
        place = places(self.values, value)
        return (key.places(self.keys) + 1) * len(self.values) + place if self.keys else place


def distinct(values: Ints) -> Ints:
    """The distinct ones, in order. (`np.unique` of numpy 2.3 hashes them, which takes some ten
    times as long for millions.)"""
    ordered = np.sort(values)
    return np.compress(np.diff(ordered, prepend=ordered[:1] - 1) != 0, ordered)


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
        return rows if self.of == 1 else some(rows, self._holds(rows.value))

    def things(self, key: Texts, value: Ints) -> tuple[Texts, Ints]:
        """Those of the shard, each value as the integer that is its place in the shard."""
        if self.of == 1:
            return key, value
        chosen = self._holds(value)
        return Texts(key.codes[chosen], key.names), self.inside(value[chosen])

    def inside(self, value: Ints) -> Ints:
        low = (1 << BLOCK_BITS) - 1
        return ((value >> BLOCK_BITS) // self.of << BLOCK_BITS) | (value & low)

    def outside(self, place: Ints) -> Ints:
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
        return self.of_places.size

    def numbers(self, key: Texts, value: Ints) -> Ints:
        return self.of_places.numbers(key, self.slice.inside(value))

    def things(self, numbers: Ints) -> tuple[Texts, Ints]:
        keys, places = self.of_places.things(numbers)
        return keys, self.slice.outside(places)
