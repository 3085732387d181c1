"""Operations of transactions as numpy columns, for the checkers that look for cycles in them.

Operations stand in the order in which they completed, those that never did at the end; `place` is
that of their completion (or invocation) in the history. What a row did is in the column `elements`,
four integers a micro-operation (`harness.models.micro_ops`).

Numbering and grouping of integers: by a table where they lie close together, else by sorting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from harness.errors import HistoryError
from harness.models.micro_ops import TEXT, WIDTH
from harness.protocols import NULL, Ints, Operations
from harness.protocols.runs import INFO, INVOKED, Bits, Bools

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


ABSENT: Final = -1
"""The place of an invocation or completion that the history does not hold."""

ASSIGN, SUBSCRIBE, POLLING, OTHER = range(4)
_FUNCTIONS: Final = {"assign": ASSIGN, "subscribe": SUBSCRIBE, "poll": POLLING, "txn": POLLING}


class Ops(NamedTuple):
    """One row an operation. `mark` is OK, FAIL or INFO (also of one that never completed);
    `begun` and `ended` are places in the order of all rows, ABSENT if there is no such row;
    `f` is ASSIGN, SUBSCRIBE, POLLING (`poll` and `txn`) or OTHER."""

    place: Ints
    process: Ints
    mark: Bits
    f: Ints
    begun: Ints
    ended: Ints
    begun_ns: Ints
    ended_ns: Ints


def named(number: int, texts: Sequence[str]) -> str:
    """A key or value as people write it."""
    return texts[number - TEXT] if number >= TEXT else str(number)


class Rows(NamedTuple):
    """The columns of all rows; what a row did is in `micro` from `start` to `stop`."""

    place: Ints
    process: Ints
    mark: Bits
    f: Ints
    time_ns: Ints
    start: Ints
    stop: Ints
    elements: Ints

    @classmethod
    def of(cls, parts: list[Operations]) -> Rows:
        starts, stops, begin = [], [], 0
        for part in parts:
            starts.append(part.elements.starts[:-1] + begin)
            stops.append(part.elements.starts[1:] + begin)
            begin += len(part.elements.values)
        f = [
            np.array([*(_FUNCTIONS.get(n, OTHER) for n in p.f.names), OTHER])[p.f.codes]
            for p in parts
        ]
        return cls(
            place=_all([part.place for part in parts]),
            process=_all([part.process for part in parts]),
            mark=np.concatenate([np.empty(0, np.uint8), *(part.mark for part in parts)]),
            f=_all(f),
            time_ns=_all([part.time_ns for part in parts]),
            start=_all(starts),
            stop=_all(stops),
            elements=_all([part.elements.values for part in parts]),
        )


def _all(columns: list[Ints]) -> Ints:
    return columns[0] if len(columns) == 1 else np.concatenate([np.empty(0, np.int64), *columns])


def paired(rows: Rows) -> tuple[Ints, Ints]:
    """The rows of invocation and completion of each operation, ABSENT if there is none. A
    process does one thing at a time, so a completion belongs to the row before it of its process,
    where that is an invocation."""
    order = ordered(*codes_of(rows.process))
    begins = (rows.mark == INVOKED)[order]
    process = rows.process[order]
    answered = np.zeros(len(order), np.bool_)
    answered[:-1] = begins[:-1] & ~begins[1:] & (process[:-1] == process[1:])
    began = np.full(len(order), ABSENT)
    begun_at = np.flatnonzero(answered[:-1])
    began[np.take(order, begun_at + 1)] = np.take(order, begun_at)
    completions = np.flatnonzero(rows.mark != INVOKED)
    open_ = np.sort(order[begins & ~answered])
    return (
        np.concatenate([began[completions], open_]),
        np.concatenate([completions, np.full(len(open_), ABSENT)]),
    )


def ops_of(rows: Rows, began: Ints, ended: Ints) -> Ops:
    """The operations, from the rows of their invocations and completions."""
    known = np.where(ended == ABSENT, began, ended)
    completed, invoked = ended != ABSENT, began != ABSENT
    return Ops(
        place=rows.place[known],
        process=rows.process[known],
        mark=np.where(completed, rows.mark[known], INFO).astype(np.uint8),
        f=rows.f[known],
        begun=began,
        ended=ended,
        begun_ns=np.where(invoked, rows.time_ns[began], NULL),
        ended_ns=np.where(completed, rows.time_ns[ended], NULL),
    )


def elements_in(rows: Rows, source: Ints, file: str) -> tuple[Ints, Ints]:
    """What these rows hold, one row an operation: the operation and the four integers of each
    micro-operation."""
    there = source != ABSENT
    start = np.where(there, rows.start[source], 0)
    length = np.where(there, rows.stop[source], 0) - start
    if (length % WIDTH).any():
        raise HistoryError(
            f"an operation's elements are not {WIDTH} integers a micro-operation",
            file=file,
            key="elements",
        )
    numbers = length // WIDTH
    op = np.repeat(np.arange(len(numbers)), numbers)
    first = np.cumsum(numbers) - numbers
    at = start[op] // WIDTH + np.arange(len(op)) - first[op]
    return op, rows.elements.reshape(-1, WIDTH)[at]
