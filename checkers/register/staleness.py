"""How old the values were that reads returned.

The *version* that a read returned is the write of its value, where only one `ok` or `info` write
can have stored it (the initial value of the key counts as one that took effect before everything);
else the age is not known: such reads are `undated`, or `unwritten` where no write stored the value.

A version is *known* from the first completion of its `ok` write or of anything that consumed its
value: by then it has taken effect. A write is *newer* when it was invoked after that. A read is
*stale* when a newer `ok` write completed before the read was invoked: at that instant its value was
overwritten, whatever the order of concurrent operations. Its age is

    in versions   how many newer `ok` writes completed before it was invoked
    in time       from the first of those completions to the invocation of the read

Only what real time proves is counted, so both are lower bounds of the true age, and a key with a
stale read is not linearizable. None of it depends on whether the key is. A write that a
compare-and-set replaced by an equal value was not overwritten: such ones are left out.

How many numbers in a stretch of an array are below a bound, for many stretches at once.

A wavelet matrix (Claude, Navarro, Ordóñez, "The wavelet matrix", Information Systems 47, 2015): the
numbers are split by their bits from the highest down, and each question walks down with them. One
pass over columns a bit, O((n + q) log n) in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from checkers.register.operations import (
    NEVER,
    NOTHING,
    NULL,
    OK,
    READ,
    Bools,
    Ints,
    Numbered,
    Operations,
    constraining,
    numbered,
)


def counts_below(numbers: Ints, begin: Ints, end: Ints, bound: Ints) -> Ints:
    """For each question, how many of numbers[begin:end] are below its bound; none is negative."""
    left, counted = numbers, np.zeros(len(begin), np.int64)
    highest = max(int(numbers.max(initial=0)), int(bound.max(initial=0)))
    for bit in reversed(range(highest.bit_length())):
        ones = (left >> bit) & 1 != 0
        zeros = np.concatenate([[0], np.cumsum(~ones)])
        wants_one = (bound >> bit) & 1 != 0
        zeros_begin, zeros_end = zeros[begin], zeros[end]
        counted += np.where(wants_one, zeros_end - zeros_begin, 0)
        begin = np.where(wants_one, zeros[-1] + begin - zeros_begin, zeros_begin)
        end = np.where(wants_one, zeros[-1] + end - zeros_end, zeros_end)
        left = np.concatenate([left[~ones], left[ones]])
    return counted


BEFORE_ALL: Final = 0
"""The number of the instant at which initial values are known."""


@dataclass(frozen=True, kw_only=True)
class Staleness:
    """The outcome of the `ok` reads: how many there were, and how many of no known age; of the
    stale ones, their places among all operations, and their ages. The lists are as long as there
    are stale reads. Sums of two are exact, but for the places, which stay those in their shards."""

    reads: int = 0
    undated: int = 0
    unwritten: int = 0
    row: Ints
    versions: Ints
    age_ns: Ints

    @classmethod
    def none(cls) -> Staleness:
        """Nothing was read."""
        nothing = np.empty(0, np.int64)
        return cls(row=nothing, versions=nothing, age_ns=nothing)

    @property
    def stale(self) -> int:
        """How many reads were stale."""
        return len(self.row)

    @property
    def most_versions(self) -> int | None:
        """The age of the oldest in versions; None where nothing is stale."""
        return quantile(self.versions, 1)

    @property
    def longest_ns(self) -> int | None:
        """The age of the oldest in time; None where nothing is stale."""
        return quantile(self.age_ns, 1)

    def __add__(self, other: Staleness) -> Staleness:
        return Staleness(
            reads=self.reads + other.reads,
            undated=self.undated + other.undated,
            unwritten=self.unwritten + other.unwritten,
            row=np.concatenate([self.row, other.row]),
            versions=np.concatenate([self.versions, other.versions]),
            age_ns=np.concatenate([self.age_ns, other.age_ns]),
        )


def quantile(ages: Ints, share: float) -> int | None:
    """The quantile of ages as Jepsen counts it: the sorted one at floor(share * n), the last at
    most; None of nothing."""
    if not len(ages):
        return None
    return int(np.sort(ages)[min(int(len(ages) * share), len(ages) - 1)])


def staleness(operations: Operations, *, initial: int = NULL) -> Staleness:
    """The ages of all `ok` reads."""
    keys, at = np.unique(operations.key, return_inverse=True)
    row, f = constraining(operations)
    some, key = operations.take(row).changed(f=f), at[row]
    number = numbered(some, key, len(keys), initial)
    ok, instants = some.type == OK, _Instants.of(some)
    stores = number.written != NOTHING
    writers = np.bincount(number.written[stores], minlength=number.numbers)
    writers += np.bincount(number.initial, minlength=number.numbers)
    reads = np.flatnonzero(ok & (operations.f[row] == READ))
    of = writers[number.consumed[reads]]
    dated = reads[of == 1]
    known = _known(some, number, instants)[number.consumed[dated]]
    newer = _Newer.of(key[ok & stores], instants.some(ok & stores))
    begin, end = newer.span(key[dated], known)
    first = newer.first(key[dated], begin)
    stale = first < instants.invoke[dated]
    overwritten_ns = instants.ns[first[stale]]
    return Staleness(
        reads=len(reads),
        undated=int((of > 1).sum()),
        unwritten=int((of == 0).sum()),
        row=row[dated[stale]],
        versions=counts_below(
            newer.complete, begin[stale], end[stale], instants.invoke[dated[stale]]
        ),
        age_ns=some.invoke_ns[dated[stale]] - overwritten_ns,
    )


@dataclass(frozen=True)
class _Instants:
    """Instants as small numbers in their order, which index `ns`; completions that never came, or
    say nothing, are after all."""

    invoke: Ints
    complete: Ints
    ns: Ints

    @classmethod
    def of(cls, operations: Operations) -> _Instants:
        size = len(operations)
        complete_ns = np.where(operations.type == OK, operations.complete_ns, NEVER)
        both = np.concatenate([[NULL], operations.invoke_ns, complete_ns])
        ns, rank = np.unique(both, return_inverse=True)
        return cls(rank[1 : size + 1], rank[size + 1 :], ns)

    def some(self, chosen: Bools) -> _Instants:
        """Those of some operations."""
        return _Instants(self.invoke[chosen], self.complete[chosen], self.ns)


def _known(operations: Operations, number: Numbered, instants: _Instants) -> Ints:
    """Of each value, when it is known."""
    known = np.full(number.numbers, len(instants.ns))
    for values in (number.written, number.consumed):
        chosen = (values != NOTHING) & (operations.type == OK)
        np.minimum.at(known, values[chosen], instants.complete[chosen])
    known[number.initial] = BEFORE_ALL
    return known


@dataclass(frozen=True)
class _Newer:
    """The `ok` writes by key and invocation. `packed`: both in one number, of `base` to a key;
    `complete`: when each completed; `soonest`: the first completion of it and those after it, key
    and instant in one number."""

    packed: Ints
    complete: Ints
    soonest: Ints
    base: int

    @classmethod
    def of(cls, key: Ints, instants: _Instants) -> _Newer:
        base = len(instants.ns) + 1
        packed = key * base + instants.invoke
        order = np.argsort(packed, kind="stable")
        complete = instants.complete[order]
        ends = np.concatenate([key[order] * base + complete, [NEVER]])
        return cls(packed[order], complete, np.minimum.accumulate(ends[::-1])[::-1], base)

    def span(self, key: Ints, known: Ints) -> tuple[Ints, Ints]:
        """Where the writes of a key begin and end that were invoked after an instant."""
        begin = np.searchsorted(self.packed, key * self.base + known, side="right")
        return begin, np.searchsorted(self.packed, (key + 1) * self.base, side="left")

    def first(self, key: Ints, begin: Ints) -> Ints:
        """The first completion from there on in that key; after all if there is none."""
        soonest: Ints = np.minimum(self.soonest[begin] - key * self.base, self.base - 1)
        return soonest
