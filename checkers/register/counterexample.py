"""A smallest part of a history that shows why a key is wrong, and what a drawing of it needs.

Leaving operations out may not make an anomaly that the history does not have. Two rules are sound:

    A prefix. Of what was invoked by an instant, what had not completed by then is pending: its
    reads are left out, its writes become `info`. If S is a linearization of the history, then S up
    to the last operation that had completed is one of the prefix: what stands before that one was
    invoked in time, since what was invoked later follows it. So the history is not linearizable if
    a prefix is not.

    A *closed* part: with any operation that consumes a value, every write that stores that value.
    If S is a legal order of the whole, then S without the rest is a legal order of the part: the
    last write before an operation that consumes its value stores that value, so it is in the part,
    and nothing that was left out stood between; where there is none the value is the initial one,
    and so it is in the part. So the whole has no legal order if a closed part has none. That holds
    for both consistencies, as the rest of an order keeps the order of what is left.

First the history of a key is cut to its shortest wrong prefix, then parts are left out, halves at
first and single operations at last (Zeller and Hildebrandt, "Simplifying and isolating
failure-inducing input", IEEE TSE 28 (2), 2002), with a write always what consumes its value. What
is left is minimal: leave out any one operation, and what is left of that has a legal order. (It
need not be the smallest of all: there may be several.) So a reader can check it by hand, and needs
to know of the rest of the history only that no other write in it stores any of the values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from checkers.register.answers import (
    INVALID,
    LINEARIZABLE,
    answers,
    consistency_named,
)
from checkers.register.linearization import MAX_STATES
from checkers.register.operations import (
    CAS,
    INFO,
    NULL,
    OK,
    READ,
    WRITE,
    Ints,
    Operation,
    Operations,
)
from checkers.register.sources import said


@dataclass(frozen=True, kw_only=True)
class Placed:
    """An operation of a counter-example, an interval on the lane of its process. `row`: its place
    among all operations; `pending`: it completed after the prefix, and may have taken effect or
    not; `place`: where it stands in the longest legal order that was found, from 0, and `register`:
    what the register holds then; None where it is not in it."""

    row: int
    operation: Operation
    pending: bool
    place: int | None
    register: int | None


@dataclass(frozen=True, kw_only=True)
class CounterExample:
    """Operations of one key, by invocation, that have no legal order. `stuck`: the row of the one
    that cannot be placed behind the longest legal order that was found; `register`: what the
    register holds at its end."""

    key: int
    consistency: str
    operations: tuple[Placed, ...]
    stuck: int
    register: int


def counter_example(
    operations: Operations,
    key: int,
    *,
    consistency: str = LINEARIZABLE,
    initial: int = NULL,
    max_states: int = MAX_STATES,
) -> CounterExample | None:
    """A minimal counter-example of a key; None where none is found within the budget."""

    def wrong(part: Operations) -> bool:
        found = answers(part, consistency=consistency, initial=initial, max_states=max_states)
        return found.verdicts == (INVALID,)

    row = np.flatnonzero(operations.key == key)
    some = operations.take(row)
    kept, f = said(some)
    row, some = row[kept], some.take(kept).changed(f=f)
    if not len(some) or not wrong(some):
        return None
    if consistency == LINEARIZABLE:
        cut, some = _shortest_prefix(some, wrong)
        row = row[cut]
    left = _minimal(some, wrong, in_real_time=consistency_named(consistency).in_real_time)
    part = some.take(left)
    return _drawn(operations, key, row[left], part, consistency, initial, max_states)


def _prefix(operations: Operations, end_ns: int) -> tuple[Ints, Operations]:
    """What was invoked by an instant; what had not completed is pending."""
    late = (operations.complete_ns > end_ns) & (operations.type == OK)
    there = operations.invoke_ns <= end_ns
    rows = np.flatnonzero(there & ~(late & (operations.f == READ)))
    kind = np.where(late, INFO, operations.type)
    return rows, operations.changed(type=kind).take(rows)


def _shortest_prefix(
    operations: Operations, wrong: Callable[[Operations], bool]
) -> tuple[Ints, Operations]:
    """The shortest wrong prefix, of a wrong history, by halving: longer ones are wrong too."""
    ends = np.unique(operations.complete_ns[operations.type == OK])
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        if wrong(_prefix(operations, int(ends[middle]))[1]):
            high = middle
        else:
            low = middle + 1
    return _prefix(operations, int(ends[high]))


def _minimal(
    operations: Operations, wrong: Callable[[Operations], bool], *, in_real_time: bool
) -> Ints:
    """The rows of a wrong closed part of which nothing can be left out."""
    rows, left = list(operations), list(range(len(operations)))
    size = len(left)
    while size:
        place, before = 0, len(left)
        while place < len(left):
            out = left[place : place + size]
            part = _without(rows, left, out, in_real_time=in_real_time)
            if part and wrong(operations.take(np.array(part))):
                left = part
            else:
                place += size
        if size > 1 or len(left) == before:
            size //= 2
    return np.array(left)


def _without(
    rows: Sequence[Operation], left: Iterable[int], out: Iterable[int], *, in_real_time: bool
) -> list[int]:
    """What is left without some operations, closed: without what may have consumed the values of
    writes that are left out."""
    gone = list(out)
    kept = dict.fromkeys(at for at in left if at not in set(gone))
    for at in gone:  # grows while it is gone through
        write = rows[at]
        if write.f == READ:
            continue
        for one in list(kept):
            late = in_real_time and rows[one].complete_ns < write.invoke_ns
            if _consumed(rows[one]) == write.value and not late:
                del kept[one]
                gone.append(one)
    return list(kept)


def _consumed(one: Operation) -> int | None:
    return {READ: one.value, CAS: one.expected, WRITE: None}[one.f]


def _drawn(
    operations: Operations,
    key: int,
    row: Ints,
    part: Operations,
    consistency: str,
    initial: int,
    max_states: int,
) -> CounterExample:
    search = consistency_named(consistency).search
    found = search(list(part), initial=initial, max_states=max_states)
    register, holds = initial, {}
    for at in found.order:
        if part.f[at] != READ:
            register = int(part.value[at])
        holds[at] = register
    place = {at: number for number, at in enumerate(found.order)}
    assert found.stuck is not None
    placed = [
        Placed(
            row=int(row[at]),
            operation=one,
            pending=bool(part.type[at] != one.type),
            place=place.get(at),
            register=holds.get(at),
        )
        for at, one in enumerate(operations.take(row))
    ]
    placed.sort(key=lambda each: (each.operation.invoke_ns, each.row))
    return CounterExample(
        key=key,
        consistency=consistency,
        operations=tuple(placed),
        stuck=int(row[found.stuck]),
        register=register,
    )
