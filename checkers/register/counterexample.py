"""A minimal part of a history that shows why a key is wrong, and what a drawing of it needs.

The history of a key is cut to its shortest wrong prefix; where it is not known which write a read
returned, to its shortest wrong window; then operations are left out, halves of them at first and
single ones at last (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input",
IEEE TSE 28 (2), 2002). Every step keeps to the rules of `parts`, so what is left proves that the
complete history has no legal order. It is minimal by those rules: without any one of its operations
(and what those rules leave out with it) an order is found. It need not be the smallest of all.
There is a budget for that: so many parts, and so many configurations that the searches of them may
see together. Once it is spent, the part that was reached stays, and is not called minimal.

To check one by hand, one needs to know of the rest of the history only that nothing else in it, in
that span of time, stores any of the values that are read or expected.

Parts of a key's history that are sound: if one has no legal order, the history has none.

Leaving operations out may make an anomaly that the history does not have: a read of a value whose
write was left out. These rules do not:

    A prefix. What was invoked by an instant; of that, what had not completed by then is pending:
    its reads are left out, its writes become `info`. If S is a linearization of the history, then S
    up to the last operation that had completed is one of the prefix: what stands before that one
    was invoked by then, since what was invoked later follows it.

    A window. What had not completed before an instant; of that, what was invoked before it is
    pending; and the register may hold anything at first. Any linearization gives each operation an
    instant: those from this instant on, in their order, are a linearization of the window from what
    the register held then.

    A closed part. With any operation that consumes a value, every write that stores it (in real
    time: that may come before it). If S is a legal order of the complete history, then S without
    the rest is a legal order of the part: the last write before an operation that consumes its
    value stores that value, so it is in the part, and no write that was left out made a difference
    to it; if there is none it consumes what the register held at first, and does so in the part.
    The order of what is left is the same. This holds for sequential consistency too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from checkers.register.answers import LINEARIZABLE, answers, consistency_named
from checkers.register.linearization import MAX_STATES, Outcome
from checkers.register.operations import (
    CAS,
    READ,
    WRITE,
    Operation,
    Operations,
    constraining,
    sources,
)
from harness.protocols import INVALID
from harness.protocols.runs import (
    INFO,
    NULL,
    OK,
    Bools,
    Ints,
)


@dataclass(frozen=True)
class Part:
    """Some operations of a key and their rows; `any_start`: the register may hold anything at
    first."""

    operations: Operations
    row: Ints
    any_start: bool = False

    def take(self, chosen: Ints | Bools) -> Part:
        return Part(self.operations.take(chosen), self.row[chosen], self.any_start)


def prefix(part: Part, end_ns: int) -> Part:
    """What was invoked by an instant."""
    late = (part.operations.type == OK) & (part.operations.complete_ns > end_ns)
    return _cut(part, late, part.operations.invoke_ns <= end_ns)


def window(part: Part, begin_ns: int) -> Part:
    """What may have taken effect at an instant or later."""
    operations = part.operations
    early = operations.invoke_ns < begin_ns
    over = early & (operations.type == OK) & (operations.complete_ns < begin_ns)
    return replace(_cut(part, early, ~over), any_start=True)


def _cut(part: Part, pending: Bools, there: Bools) -> Part:
    """What is there of a part; what is pending has not ended."""
    kept = there & ~(pending & (part.operations.f == READ))
    kind = np.where(pending, INFO, part.operations.type)
    return replace(part, operations=replace(part.operations, type=kind)).take(kept)


def without(
    part: Mapping[int, Operation],
    out: Iterable[int],
    consumers: Mapping[int, Sequence[int]],
    *,
    in_real_time: bool,
) -> dict[int, Operation]:
    """What is left of a closed part without some of its operations, closed: without what may have
    consumed the values of writes that are left out. `consumers`: what may, by value."""
    left, gone = dict(part), list(out)
    for at in gone:
        del left[at]
    for at in gone:  # grows while it is gone through
        write = part[at]
        for one in consumers.get(write.value, ()) if write.f != READ else ():
            sure = one in left and left[one].type == OK
            late = in_real_time and sure and left[one].complete_ns < write.invoke_ns
            if one in left and not late:
                del left[one]
                gone.append(one)
    return left


def consumers_of(rows: Iterable[Operation]) -> dict[int, list[int]]:
    """The operations that consume each value."""
    found: dict[int, list[int]] = {}
    for at, one in enumerate(rows):
        value = consumed(one)
        if value is not None:
            found.setdefault(value, []).append(at)
    return found


def consumed(one: Operation) -> int | None:
    """The value that an operation reads or expects; None for a write."""
    return {READ: one.value, CAS: one.expected, WRITE: None}[one.f]


MAX_PARTS: Final = 400
"""How many parts are decided about for one counter-example."""

SEARCHES: Final = 5
"""What the searches of these parts may see together: so many times what one may."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """An operation of a counter-example, an interval on the lane of its process. `row`: its place
    among all operations; `pending`: it reaches beyond the part that is shown, so it may have taken
    effect there or not; `place`: its place in the longest legal order that was found, from 0,
    and `register`: what the register holds then; both None where it is not in it."""

    row: int
    operation: Operation
    pending: bool
    place: int | None
    register: int | None


@dataclass(frozen=True, kw_only=True)
class CounterExample:
    """Operations of one key, by invocation, that have no legal order. `minimal`: none can be left
    out; not where the budget was spent before that was known. `any_start`: whatever the
    register held before them; `start`: what it held where the longest legal order was found;
    `stuck`: the row of an operation that cannot be placed after that order; `register`: what the
    register holds at its end."""

    key: int
    consistency: str
    operations: tuple[Placed, ...]
    minimal: bool
    any_start: bool
    start: int
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
    """A counter-example of a key, minimal if the budget suffices; None where none is found."""
    row = np.flatnonzero(operations.key == key)
    kept, f = constraining(operations.take(row))
    part = Part(replace(operations.take(row[kept]), f=f), row[kept])
    judge = _Judge(consistency, initial, max_states)
    if not judge.wrong(part):
        return None
    if consistency == LINEARIZABLE:
        part = judge.cut(part)
    return judge.drawn(operations, key, judge.minimal(part))


@dataclass
class _Judge:
    """Decides about parts, always in the same way, until its budget is spent. `parts`, `states`:
    about how many it did, and how many configurations were seen for that."""

    consistency: str
    initial: int
    max_states: int
    parts: int = 0
    states: int = 0

    @property
    def spent(self) -> bool:
        """Whether nothing more is decided."""
        return self.parts >= MAX_PARTS or self.states > SEARCHES * self.max_states

    def wrong(self, part: Part) -> bool:
        """Whether a part has no legal order; not if that cannot be decided."""
        if self.spent:
            return False
        self.parts += 1
        return all(self._wrong_from(start, part.operations) for start in self.starts(part))

    def _wrong_from(self, start: int, operations: Operations) -> bool:
        left = SEARCHES * self.max_states - self.states
        found = answers(
            operations,
            consistency=self.consistency,
            initial=start,
            max_states=max(0, min(left, self.max_states)),
        )
        self.states += int(found.states.sum())
        return found.verdicts == (INVALID,)

    def starts(self, part: Part) -> list[int]:
        """What the register may hold at first: of what nothing consumes, one stands for all."""
        if not part.any_start:
            return [self.initial]
        values = consumers_of(part.operations)
        return [*sorted(values), max(values, default=0) + 1]

    def cut(self, part: Part) -> Part:
        """The shortest wrong prefix of a wrong part, and where values are ambiguous the shortest
        wrong window of that, if any is wrong."""
        ends = np.unique(part.operations.complete_ns[part.operations.type == OK])
        low, high = 0, len(ends) - 1
        while low < high:
            middle = (low + high) // 2
            if self.wrong(prefix(part, int(ends[middle]))):
                high = middle
            else:
                low = middle + 1
        part = prefix(part, int(ends[high]))
        if sources(part.operations, initial=self.initial).ambiguous.any():
            return self._window(part)
        return part

    def _window(self, part: Part) -> Part:
        begins = np.unique(part.operations.invoke_ns)[::-1].tolist()
        low, high = 0, 1
        while not self.wrong(window(part, begins[high - 1])):
            if high == len(begins):
                return part
            low, high = high, min(2 * high, len(begins))
        while low < high - 1:
            middle = (low + high) // 2
            if self.wrong(window(part, begins[middle - 1])):
                high = middle
            else:
                low = middle
        return window(part, begins[high - 1])

    def minimal(self, part: Part) -> Part:
        """A wrong part of a wrong part, of which nothing can be left out if the budget suffices."""
        in_real_time = consistency_named(self.consistency).in_real_time
        left = dict(enumerate(part.operations))
        consumers = consumers_of(left.values())
        size = len(left)
        while size and not self.spent:
            place, before = 0, len(left)
            while place < len(left) and not self.spent:
                out = list(left)[place : place + size]
                fewer = without(left, out, consumers, in_real_time=in_real_time)
                if fewer and self.wrong(part.take(np.array(list(fewer)))):
                    left = fewer
                else:
                    place += size
            if size > 1 or len(left) == before:
                size //= 2
        return part.take(np.array(list(left)))

    def drawn(self, operations: Operations, key: int, part: Part) -> CounterExample:
        """A part that was reached, with the longest legal order of some of it."""
        search = consistency_named(self.consistency).search
        rows, starts = list(part.operations), self.starts(part)
        share = self.max_states // len(starts)
        found: dict[int, Outcome] = {
            start: search(rows, initial=start, max_states=share) for start in starts
        }
        start = max(found, key=lambda each: len(found[each].order))
        placed, register = _placed(rows, part, operations, start, found[start].order)
        stuck = found[start].stuck
        assert stuck is not None
        return CounterExample(
            key=key,
            consistency=self.consistency,
            operations=placed,
            minimal=not self.spent,
            any_start=part.any_start,
            start=start,
            stuck=int(part.row[stuck]),
            register=register,
        )


def _placed(
    rows: Sequence[Operation],
    part: Part,
    operations: Operations,
    register: int,
    order: Sequence[int],
) -> tuple[tuple[Placed, ...], int]:
    """The operations of a part with their places in an order, and what the register holds at
    its end."""
    place, holds = dict[int, int](), dict[int, int]()
    for at in order:
        register = register if rows[at].f == READ else rows[at].value
        place[at], holds[at] = len(place), register
    placed = [
        Placed(
            row=int(part.row[at]),
            operation=one,
            pending=one.type != rows[at].type,
            place=place.get(at),
            register=holds.get(at),
        )
        for at, one in enumerate(operations.take(part.row))
    ]
    return tuple(sorted(placed, key=lambda each: (each.operation.invoke_ns, each.row))), register
