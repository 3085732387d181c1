"""Which write each value that was read comes from, where only one can be.

An operation *consumes* a value when it reads it, or is a compare-and-set that expects it. A write
is a *candidate* for a value when it stores it and something that may come after it consumes it; the
initial value of a register is a candidate too.

Some operations say nothing and are left out: `fail`, `info` reads, and `info` writes that are
*useless*: nothing consumes their value (in real time: nothing that completes at or after their
invocation) but useless compare-and-sets. That is exact. Without them a history is not harder to
order, since they may never have happened. Conversely, let S be a legal order of all, and u a
useless write in S. Until the next write, nothing but useless compare-and-sets can consume the value
of u: so u and what consumes it stand directly before a write (not a compare-and-set that is kept:
it would make u useful) or at the end, and leaving them out of S changes no value that anything else
sees. A compare-and-set that stores what it expects changes nothing: an `ok` one is a read, an
`info` one nothing.

Where every consumed value of a key has one candidate, the *sources* of the key are known, and order
is decided in polynomial time (`zones`, `process_order`); where some `ok` operation consumes a value
that has none, no order is legal. Gibbons and Korach, "Testing shared memories", SIAM Journal on
Computing 26 (4), 1997: with the read-mapping known, linearizability of reads and writes takes
O(n log n) steps; without it, it is NP-complete.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from checkers.register.operations import (
    CAS,
    FAIL,
    INFO,
    NEVER,
    NULL,
    OK,
    READ,
    WRITE,
    Bools,
    Ints,
    Operations,
)

NOTHING: Final = -1
"""The number of the value that an operation does not store, or does not consume."""


@dataclass(frozen=True)
class Sources:
    """The operations that say something. `row`: their places among all; `keys`: the distinct keys;
    `at`: each operation's key as a place in `keys`; `written`, `consumed`: the number of the value
    that it stores or consumes, numbers being distinct across keys; `initial`: of each key, the
    number of its initial value; `candidate`: whether an operation is one for what it stores;
    `numbers`: how many values are numbered."""

    operations: Operations
    row: Ints
    keys: Ints
    at: Ints
    written: Ints
    consumed: Ints
    initial: Ints
    candidate: Bools
    numbers: int

    @cached_property
    def candidates(self) -> Ints:
        """How many candidates each value has."""
        stored = np.bincount(self.written[self.candidate], minlength=self.numbers)
        counted: Ints = stored + np.bincount(self.initial, minlength=self.numbers)
        return counted

    @cached_property
    def source(self) -> Ints:
        """The candidate of each value that has one alone: an operation, or the number of operations
        plus the place of a key for its initial value."""
        places = np.full(self.numbers, NOTHING, np.int64)
        places[self.initial] = len(self.at) + np.arange(len(self.keys))
        places[self.written[self.candidate]] = np.flatnonzero(self.candidate)
        return places

    @cached_property
    def unwritten(self) -> Bools:
        """Whether each key has an `ok` operation that consumes what nothing can have stored."""
        wrong = (self.consumed != NOTHING) & (self.operations.type == OK)
        return self._any(wrong & (self.candidates[self.consumed] == 0))

    @cached_property
    def ambiguous(self) -> Bools:
        """Whether each key has a consumed value with several candidates."""
        consumes = self.consumed != NOTHING
        return self._any(consumes & (self.candidates[self.consumed] > 1))

    def _any(self, chosen: Bools) -> Bools:
        found = np.zeros(len(self.keys), np.bool_)
        found[self.at[chosen]] = True
        return found


def sources(operations: Operations, *, initial: int = NULL, in_real_time: bool = True) -> Sources:
    """What the operations observed. `in_real_time`: whether what completes before a write is
    invoked cannot have consumed it; else only the orders of processes count."""
    keys, key_at = np.unique(operations.key, return_inverse=True)
    row, f = constraining(operations)
    some = operations.take(row).changed(f=f)
    number = numbered(some, key_at[row], len(keys), initial)
    useful, candidate = _useful(some, number, in_real_time=in_real_time)
    kept = np.flatnonzero(useful)
    return Sources(
        operations=some.take(kept),
        row=row[kept],
        keys=keys,
        at=key_at[row[kept]],
        written=number.written[kept],
        consumed=number.consumed[kept],
        initial=number.initial,
        candidate=candidate[kept],
        numbers=number.numbers,
    )


def constraining(operations: Operations) -> tuple[Ints, Ints]:
    """The places of operations that may constrain the order, and their functions: a compare-and-set
    of a value to itself is a read."""
    idle = (operations.f == CAS) & (operations.expected == operations.value)
    f = np.where(idle, READ, operations.f)
    silent = (operations.type == FAIL) | ((operations.type == INFO) & (f == READ))
    row = np.flatnonzero(~silent)
    return row, f[row]


class Numbered(NamedTuple):
    """The numbers of the values that operations store and consume, and of each key's initial one;
    how many there are."""

    written: Ints
    consumed: Ints
    initial: Ints
    numbers: int


def numbered(operations: Operations, at: Ints, keys: int, initial: int) -> Numbered:
    """Number the values of operations, whose keys are at these places."""
    stores, consumes = operations.f != READ, operations.f != WRITE
    taken = np.where(operations.f == CAS, operations.expected, operations.value)
    values = np.concatenate([operations.value[stores], taken[consumes], np.full(keys, initial)])
    of = np.concatenate([at[stores], at[consumes], np.arange(keys)])
    distinct, value = np.unique(values, return_inverse=True)
    pairs, number = np.unique(of * len(distinct) + value, return_inverse=True)
    written, consumed = np.full(len(at), NOTHING), np.full(len(at), NOTHING)
    first, second = int(stores.sum()), len(values) - keys
    written[stores], consumed[consumes] = number[:first], number[first:second]
    return Numbered(written, consumed, number[second:], len(pairs))


def _useful(operations: Operations, number: Numbered, *, in_real_time: bool) -> tuple[Bools, Bools]:
    """Whether each operation is not useless, and whether it is a candidate for what it stores."""
    written, consumed = number.written, number.consumed
    useful, stores, takes = operations.type == OK, written != NOTHING, consumed != NOTHING
    done_ns = operations.complete_ns if in_real_time else np.full(len(written), NEVER)
    last_ns = np.full(number.numbers + 1, NULL)  # NOTHING finds the last, which stays
    sure = useful & takes
    np.maximum.at(last_ns, consumed[sure], done_ns[sure])
    while True:
        candidate = stores & (operations.invoke_ns <= last_ns[written])
        more = candidate & ~useful
        if not more.any():
            return useful, candidate
        useful |= more
        last_ns[consumed[more & takes]] = NEVER
