"""When something happened, and how long it took, for any number of operations in bounded memory.

Up to some millions of numbers are kept unchanged. Of more, only what the results need is kept:

- Of instants, those that bound a gap longer than `width_ns`: the first and the last of each stretch
  of that length. Every longer gap between neighbours is there, exactly, and none that is not.
- Of delays, how many there are of each microsecond, in which they are given. Half a microsecond is
  counted apart: which way it is rounded is left to `round`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from harness.protocols import Ints

KEPT: Final = 2**23
"""This many instants are kept; of a night's instants, they show every gap longer than 34 ms."""

FOLDED: Final = 2**20
"""This many delays are kept until they are counted."""

WIDEST_NS: Final = 2**29
"""Stretches are at most as long as this: half a second, so two instants a second are kept in any
case, and they distinguish every gap of a second from shorter ones."""

_PAGE: Final = 2**12
"""This many neighbouring counts are one array, which is made when one of them is needed."""


_SHORT: Final = 2**20
"""Delays with a lower code, a third of a second, are the most."""


@dataclass
class Instants:
    """Instants, in any order; the first at or after each of `marks_ns` is kept whatever `width_ns`
    is. 0: all are there."""

    marks_ns: Sequence[int] = ()
    width_ns: int = 0
    _parts: list[Ints] = field(default_factory=list)
    _size: int = 0
    _marked: dict[int, int] = field(default_factory=dict)

    def add(self, times_ns: Ints) -> None:
        """Take some instants into account."""
        for mark in self.marks_ns:
            later = times_ns[times_ns >= mark]
            if later.size:
                self._marked[mark] = min(int(later.min()), self._marked.get(mark, int(later[0])))
        part = _ends_of_stretches(np.sort(times_ns), self.width_ns) if self.width_ns else times_ns
        self._parts.append(part)
        self._size += len(part)
        if self._size > KEPT:
            self._thin()

    def ordered(self) -> Ints:
        """Those that were kept, in order; some may be there twice."""
        marked = np.array(list(self._marked.values()), np.int64)
        return np.sort(_joined([*self._parts, marked] if self.width_ns else self._parts))

    def _thin(self) -> None:
        ordered = np.sort(_joined(self._parts))
        while len(ordered) > KEPT // 2 and self.width_ns < WIDEST_NS:
            self.width_ns = max(2 * self.width_ns, 1)
            ordered = _ends_of_stretches(ordered, self.width_ns)
        self._parts, self._size = [ordered], len(ordered)


def _ends_of_stretches(ordered: Ints, width_ns: int) -> Ints:
    """The first and the last of each stretch of so many nanoseconds. (Stretches of twice the length
    are made of complete ones.)"""
    changes = np.diff(ordered // width_ns) != 0
    ends = np.ones(len(ordered), np.bool_)
    ends[1:-1] = changes[1:] | changes[:-1]
    return np.compress(ends, ordered)


def longest_gap_ns(
    instants: Callable[[], Iterable[Ints]], from_ns: int, to_ns: int, number: int
) -> int:
    """The longest time without one of these instants, of which there are about so many, from one
    that is before them all to one after them. Reads them again for each stretch of time that has
    some millions of them."""
    pieces = 1 + number // (4 * KEPT)
    borders = [from_ns + (to_ns + 1 - from_ns) * piece // pieces for piece in range(pieces + 1)]
    longest, last = 0, from_ns
    for low, high in pairwise(borders):
        inside = [part[(part >= low) & (part < high)] for part in instants()]
        here = np.sort(_joined([np.array([last]), *inside, np.empty(0, np.int64)]))
        longest, last = max(longest, int(np.diff(here).max(initial=0))), int(here[-1])
    return max(longest, to_ns - last)


@dataclass
class Delays:
    """Times that something took, in nanoseconds."""

    _parts: list[Ints] = field(default_factory=list)
    _size: int = 0
    _folded: int = 0
    _pages: dict[int, Ints] = field(default_factory=dict)

    def add(self, delays_ns: Ints) -> None:
        """Take some into account."""
        self._parts.append(delays_ns)
        self._size += len(delays_ns)
        if self._size - self._folded > FOLDED:
            self._fold()

    def percentile_ms(self, share: float) -> float | None:
        """The smallest delay that at least this share does not exceed; None if there is none."""
        if not self._size:
            return None
        place = math.ceil(share * self._size) - 1
        if not self._folded:
            delays_ns = _joined(self._parts)
            return _ms(int(np.partition(delays_ns, place)[place]))
        self._fold()
        for page in sorted(self._pages):
            before, place = place, place - int(self._pages[page].sum())
            if place < 0:
                upto = np.cumsum(self._pages[page])
                return _ms(_of_code(page * _PAGE + int(np.searchsorted(upto, before, "right"))))
        raise AssertionError("as many are counted as were added")

    def _fold(self) -> None:
        """Count what is kept; the few long ones in order, which takes longer."""
        codes = _codes(_joined(self._parts))
        short = (codes >= 0) & (codes < _SHORT)
        pages = np.bincount(np.compress(short, codes), minlength=_SHORT).reshape(-1, _PAGE)
        for number in np.flatnonzero(pages.any(axis=1)).tolist():
            self._count(number, pages[number])
        others = np.sort(codes[~short])
        page = others // _PAGE
        first = np.flatnonzero(np.diff(page, prepend=page[:1] - 1)).tolist()
        for begin, behind in pairwise([*first, len(others)]):
            number = int(page[begin])
            on_page = others[begin:behind] - number * _PAGE
            self._count(number, np.bincount(on_page, minlength=_PAGE))
        self._parts, self._folded = [], self._size

    def _count(self, number: int, counts: Ints) -> None:
        total = counts + self._pages.get(number, 0)
        self._pages[number] = total.astype(np.uint32) if total.max() < 2**32 else total


def _codes(delays_ns: Ints) -> Ints:
    """Three numbers for each microsecond: less than half of it, half, and more."""
    microseconds = delays_ns // 1_000
    rest = delays_ns - 1_000 * microseconds
    return 3 * microseconds + (rest >= 500) + (rest > 500)


def _of_code(code: int) -> int:
    """A delay with this code: all of them are rounded to the same microsecond."""
    microseconds, third = divmod(code, 3)
    return 1_000 * microseconds + (0, 500, 750)[third]


def _ms(delay_ns: int) -> float:
    return round(delay_ns / 1e6, 3)


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *parts])
