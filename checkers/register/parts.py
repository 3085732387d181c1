"""Parts of a key's history that are sound: if one has no legal order, the history has none.

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
from dataclasses import dataclass

import numpy as np

from checkers.register.operations import (
    CAS,
    INFO,
    OK,
    READ,
    WRITE,
    Bools,
    Ints,
    Operation,
    Operations,
)


@dataclass(frozen=True)
class Part:
    """Some operations of a key and their rows; `any_start`: the register may hold anything at
    first."""

    operations: Operations
    row: Ints
    any_start: bool = False

    def take(self, chosen: Ints | Bools) -> Part:
        """Some of them."""
        return Part(self.operations.take(chosen), self.row[chosen], self.any_start)


def prefix(part: Part, end_ns: int) -> Part:
    """What was invoked by an instant."""
    late = (part.operations.type == OK) & (part.operations.complete_ns > end_ns)
    return _pending(part, late).take(_kept(part, late, part.operations.invoke_ns <= end_ns))


def window(part: Part, begin_ns: int) -> Part:
    """What may have taken effect at an instant or later."""
    operations = part.operations
    early = operations.invoke_ns < begin_ns
    over = early & (operations.type == OK) & (operations.complete_ns < begin_ns)
    cut = _pending(part, early).take(_kept(part, early, ~over))
    return Part(cut.operations, cut.row, any_start=True)


def _pending(part: Part, pending: Bools) -> Part:
    kind = np.where(pending, INFO, part.operations.type)
    return Part(part.operations.changed(type=kind), part.row, part.any_start)


def _kept(part: Part, pending: Bools, there: Bools) -> Bools:
    kept: Bools = there & ~(pending & (part.operations.f == READ))
    return kept


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
