"""What the search of one key may do at each completion: which operations are open, and which writes
are mute.

The search of `linearization` stands still at completions only, since an operation need not take
effect before something has to. Between two, a history changes nothing but which operations are
open. Each open `ok` operation has a bit; bits are used again once their operation completed, so
that a set of operations that took effect early is a small number. `info` writes stay open, and have
their own bits.

A write is *mute* when nothing consumes its value that completes at or after its invocation: no
matter what it stores, nothing that comes after it will ask.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from checkers.register.operations import CAS, NEVER, NULL, OK, READ, WRITE, Operation


@dataclass(frozen=True)
class Moment:
    """What is open when an operation completes, that operation included: `reads` and `writes` (and
    compare-and-sets) that are `ok`, the earliest completion first; the reads of each value that has
    any, as bits; the mute writes (not compare-and-sets) as bits; how many `info` writes were
    invoked."""

    completes: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    reads_of: Mapping[int, int]
    mute: int
    infos: int


@dataclass(frozen=True)
class Timeline:
    """A key's history for the search. `bit` and `mute`: of each operation; `number`: of each `info`
    write, how many were invoked before it; `alike`: `info` writes by what they store, those that
    do the same in lists, in order of invocation."""

    operations: Sequence[Operation]
    bit: Sequence[int]
    mute: Sequence[bool]
    moments: Sequence[Moment]
    number: Mapping[int, int]
    alike: Mapping[int, Sequence[Sequence[int]]]


def timeline(operations: Sequence[Operation]) -> Timeline:
    """The moments of a key's operations, all of them `ok` or `info` writes."""
    order = sorted(range(len(operations)), key=lambda at: operations[at].invoke_ns)
    infos = [at for at in order if operations[at].type != OK]
    events = _events(operations)
    bit = _bits(events, len(operations))
    for place, at in enumerate(infos):
        bit[at] = 1 << place
    mute = _mute(operations)
    groups: dict[tuple[int, int, int], list[int]] = {}
    for at in infos:
        groups.setdefault(operations[at][:3], []).append(at)
    alike: dict[int, list[list[int]]] = {}
    for (_, value, _), group in groups.items():
        alike.setdefault(value, []).append(group)
    return Timeline(
        operations,
        bit,
        mute,
        _moments(operations, events, infos, bit, mute),
        {at: place for place, at in enumerate(infos)},
        alike,
    )


def _events(operations: Sequence[Operation]) -> list[tuple[bool, int]]:
    """Completions (true) and invocations of `ok` operations in order; where they touch, what is
    invoked is concurrent with what completes, so invocations come first."""
    events = []
    for at, one in enumerate(operations):
        if one.type == OK:
            events += [(one.invoke_ns, False, at), (one.complete_ns, True, at)]
    return [(completes, at) for _, completes, at in sorted(events)]


def _bits(events: Iterable[tuple[bool, int]], size: int) -> list[int]:
    """A bit for each `ok` operation which no other has that is open with it."""
    slot: dict[int, int] = {}
    free: list[int] = []
    width = 0
    for completes, at in events:
        if completes:
            free.append(slot[at])
        elif free:
            slot[at] = free.pop()
        else:
            slot[at], width = width, width + 1
    return [1 << slot[at] if at in slot else 0 for at in range(size)]


def _mute(operations: Iterable[Operation]) -> list[bool]:
    """Whether each operation is a mute write, or compare-and-set."""
    last_ns: dict[int, int] = {}
    for one in operations:
        if one.f != WRITE:
            consumed = one.expected if one.f == CAS else one.value
            done_ns = one.complete_ns if one.type == OK else NEVER
            last_ns[consumed] = max(last_ns.get(consumed, NULL), done_ns)
    return [one.f != READ and one.invoke_ns > last_ns.get(one.value, NULL) for one in operations]


def _moments(
    operations: Sequence[Operation],
    events: Iterable[tuple[bool, int]],
    infos: Sequence[int],
    bit: Sequence[int],
    mute: Sequence[bool],
) -> list[Moment]:
    moments: list[Moment] = []
    reads: list[int] = []
    writes: list[int] = []
    reads_of: dict[int, int] = {}
    quiet = invoked = 0
    for completes, at in events:
        one = operations[at]
        present = reads if one.f == READ else writes
        if not completes:
            insort(present, at, key=lambda each: operations[each].complete_ns)
        else:
            while invoked < len(infos) and operations[infos[invoked]].invoke_ns <= one.complete_ns:
                invoked += 1
            moments.append(Moment(at, tuple(reads), tuple(writes), reads_of, quiet, invoked))
            present.remove(at)
        if one.f == READ:
            changed = reads_of | {one.value: reads_of.get(one.value, 0) ^ bit[at]}
            reads_of = {value: bits for value, bits in changed.items() if bits}
        elif one.f == WRITE and mute[at]:
            quiet ^= bit[at]
    return moments
