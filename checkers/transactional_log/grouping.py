"""Numbering and grouping of integers: by a table where they lie close together, else by sorting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from harness.protocols import Bools, Ints

_SPREAD: Final = 16
"""A table is made where it has at most so many places an integer."""
_ROOM: Final = 1 << 16


class Codes(NamedTuple):
    """`codes`: of each row, the place of its value among the distinct ones, in order; `number`: how
    many those are."""

    codes: Ints
    number: int

    def firsts(self, values: Ints) -> Ints:
        """The distinct values, in order."""
        found = np.zeros(self.number, np.int64)
        found[self.codes] = values
        return found


def codes_of(values: Ints, major: Ints | None = None) -> Codes:
    """The codes of values, ordered by `major` (small codes) first where it is given."""
    if not len(values):
        return Codes(np.zeros(0, np.int64), 0)
    low, high = int(values.min()), int(values.max())
    width, majors = high - low + 1, 1 if major is None else int(major.max()) + 1
    if width * majors >= 2**62:
        distinct, inner = np.unique(values, return_inverse=True)
        if major is None:
            return Codes(inner, len(distinct))
        one, width = inner + major * len(distinct), len(distinct)
    else:
        one = values - low if major is None else (values - low) + major * width
    if width * majors <= _SPREAD * len(values) + _ROOM:
        there = np.zeros(width * majors, np.bool_)
        there[one] = True
        place = np.cumsum(there, dtype=np.int32)
        return Codes(place[one].astype(np.int64) - 1, int(place[-1]))
    distinct, codes = np.unique(one, return_inverse=True)
    return Codes(codes, len(distinct))


def places(rows: Ints | Bools) -> Ints | None:
    """The places of the chosen rows; `None`: all are chosen."""
    if rows.dtype == np.bool_:
        return None if rows.all() else np.flatnonzero(rows)
    return rows.astype(np.int64, copy=False)


def taken(columns: Iterable[Ints], rows: Ints) -> Iterator[Ints]:
    """These rows of columns."""
    return (np.take(column, rows) for column in columns)


def ordered(codes: Ints, number: int) -> Ints:
    """The rows in the order of their codes, stable; codes that fit in 16 bits take one pass."""
    if len(codes) < 2 or bool((codes[1:] >= codes[:-1]).all()):
        return np.arange(len(codes))
    return np.argsort(codes.astype(np.uint16) if number <= _ROOM else codes, kind="stable")


def begins(codes: Ints) -> Bools:
    """Where a group of equal codes begins, in rows that are grouped."""
    first = np.ones(len(codes), np.bool_)
    first[1:] = codes[1:] != codes[:-1]
    return first


def starts(first: Bools) -> Ints:
    """Of each row, the row at which its group begins."""
    rows = np.where(first, np.arange(len(first)), 0)
    return np.maximum.accumulate(rows)
