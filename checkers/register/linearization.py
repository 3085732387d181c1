"""The search for a linearization of one key, where it is not known which write a read returned.

Wing and Gong ("Testing and verifying concurrent objects", Journal of Parallel and Distributed
Computing 17, 1993) search the orders of a history; Lowe ("Testing for linearizability",
Concurrency and Computation 29 (4), 2017) lets operations take effect just in time, only when one
has to because it completes, and keeps every configuration that was seen, that is, which operations
took effect and what state they led to. Knossos (jepsen-io/knossos, `linear.clj` and `wgl.clj`) and
Porcupine (anishathalye/porcupine, `checker.go`) do this for any model. This one knows that the
model is a register, which spares it most of the branches:

    A read takes effect as soon as it is open and the register holds its value: it changes nothing,
    and of any legal order that has it later, the one with the read moved here is legal too.

    A mute write (see `timeline`) takes effect directly before the next write that is not a
    compare-and-set: nothing sees it there, and what would have stood directly behind it, a write or
    the end, stands as well behind what was before it. Else it does only when it has to.

    The value of a mute write matters to nothing, so states that hold one are the same state.

    An `info` write takes effect only where something open consumes its value (or a chain of `info`
    compare-and-sets leads there): otherwise a write follows it directly, and without it the order
    is legal too. Of `info` writes that do the same the one invoked first is used first; `frontier`
    decides which configuration is examined next.

The budget counts configurations beyond one per operation, and not seconds: the same history has the
same answer everywhere. A search that gives up says `unknown`.

Which configuration a search examines next, and which it need not examine at all.

A configuration that has used fewer `info` writes than another, and is its equal else, does as well:
what it has not used it can use later. So of equals only those are kept that used no more than any
other. And since most of those writes never took effect, a search that spends them early wanders
long in what cannot succeed: so the next configuration is the one that came furthest, each used
`info` write counted as `COST` operations back; of those the one found last.

Tried on 40 keys of 1,000 operations with five values, 30 % compare-and-sets and some unanswered
writes, this saw 48,000 configurations; depth first alone 436,000, and gave up on two keys; breadth
first 539,000. On 20 without compare-and-sets it was 36,000, 32,000 and 225,000.

What the search of one key may do at each completion: which operations are open, and which writes
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

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from typing import Final, Generic, NamedTuple, TypeVar

from checkers.register.operations import (
    CAS,
    NEVER,
    READ,
    WRITE,
    Operation,
)
from harness.protocols import INVALID, UNKNOWN, VALID
from harness.protocols.runs import (
    NULL,
    OK,
)

COST: Final = 20
"""How many operations a used `info` write is worth."""

Where = TypeVar("Where", bound=Hashable)
Trail = TypeVar("Trail")


@dataclass
class Frontier(Generic[Where, Trail]):
    """Configurations to look at. `states`: how many were found."""

    states: int = 0
    _heap: list[tuple[int, int, int, Where, Trail]] = field(default_factory=list)
    _fewest: dict[Where, list[int]] = field(default_factory=dict)

    def add(self, where: Where, infos: int, trail: Trail, *, progress: int) -> None:
        """A configuration was found, with the `info` writes that it used, as bits."""
        seen = self._fewest.setdefault(where, [])
        if any(used & infos == used for used in seen):
            return
        seen.append(infos)
        self.states += 1
        cost = infos.bit_count() * COST - progress
        heappush(self._heap, (cost, -self.states, infos, where, trail))

    def next(self) -> tuple[Where, int, Trail] | None:
        """The configuration to look at next; None when all were."""
        while self._heap:
            _, _, infos, where, trail = heappop(self._heap)
            if not any(used != infos and used & infos == used for used in self._fewest[where]):
                return where, infos, trail
        return None


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


MAX_STATES: Final = 200_000
"""How many configurations a search may see beyond one per operation."""


@dataclass(frozen=True)
class Outcome:
    """What a search found, and the operation that could not be placed after the longest legal order
    that it found, unless all were."""

    verdict: str
    states: int
    stuck: int | None
    placed: Callable[[], tuple[int, ...]]

    @cached_property
    def order(self) -> tuple[int, ...]:
        """That order, as places of operations."""
        return self.placed()


class _Configuration(NamedTuple):
    """Where a search stands: at which completion, what is open and took effect, what the register
    holds (None: what nothing will ask for)."""

    moment: int
    effective: int
    state: int | None


class _Step(NamedTuple):
    """A write that took effect at a moment, and the steps before it."""

    at: int
    moment: int
    before: _Step | None


def linearization(
    operations: Sequence[Operation], *, initial: int = NULL, max_states: int = MAX_STATES
) -> Outcome:
    """Search for a linearization of a key's operations: `ok` ones and `info` writes."""
    line, verdict = timeline(operations), INVALID
    frontier = Frontier[_Configuration, _Step | None]()
    start = _settled(line, _Configuration(0, 0, initial))
    frontier.add(start, 0, None, progress=start.moment)
    best: tuple[int, _Step | None] = (start.moment, None)
    while (found := frontier.next()) is not None:
        here, infos, trail = found
        if here.moment > best[0]:
            best = here.moment, trail
        if here.moment == len(line.moments):
            verdict = VALID
            break
        if frontier.states > max_states + len(operations):
            verdict = UNKNOWN
            break
        for at in reversed(_choices(line, here, infos)):
            after = _settled(line, _after(line, here, at))
            used = infos if operations[at].type == OK else infos | line.bit[at]
            frontier.add(after, used, _Step(at, here.moment, trail), progress=after.moment)
    stuck = None if verdict == VALID else line.moments[best[0]].completes
    return Outcome(verdict, frontier.states, stuck, lambda: _order(line, initial, *best))


def _settled(line: Timeline, here: _Configuration) -> _Configuration:
    """Let reads of what the register holds take effect, and pass completions, until one needs what
    did not take effect yet."""
    place, effective, state = here
    moments, bit = line.moments, line.bit
    while place < len(moments):
        moment = moments[place]
        if state is not None:
            effective |= moment.reads_of.get(state, 0)
        done = bit[moment.completes]
        if not effective & done:
            break
        effective ^= done
        place += 1
    return _Configuration(place, effective, state)


def _after(line: Timeline, here: _Configuration, at: int) -> _Configuration:
    """The configuration once a write took effect, mute ones before it."""
    one, effective = line.operations[at], here.effective
    if one.type == OK:
        effective |= line.bit[at]
    if one.f == WRITE:
        effective |= line.moments[here.moment].mute
    return _Configuration(here.moment, effective, None if line.mute[at] else one.value)


def _choices(line: Timeline, here: _Configuration, infos: int) -> list[int]:
    """The writes that may take effect next, the most promising first."""
    moment, operations = line.moments[here.moment], line.operations
    waiting = [at for at in moment.writes if not here.effective & line.bit[at]]
    needs = operations[moment.completes]
    if needs.f == READ and not (
        any(operations[at].value == needs.value for at in waiting)
        or any(True for _ in _unused(line, moment, infos, needs.value))
    ):
        return []
    chosen = [
        at
        for at in waiting
        if operations[at].f == CAS or not line.mute[at] or at == moment.completes
    ]
    if moment.infos:
        chosen += _wanted(line, here, infos, waiting)
    legal = [
        at for at in chosen if operations[at].f != CAS or operations[at].expected == here.state
    ]
    if needs.f == READ:
        legal.sort(key=lambda at: operations[at].value != needs.value)
    return legal


def _unused(line: Timeline, moment: Moment, infos: int, value: int) -> Iterator[int]:
    """The `info` writes of a value that may take effect now, one of those that do the same."""
    for group in line.alike.get(value, ()):
        first = bisect_left(group, True, key=lambda at: not infos & line.bit[at])
        if first < len(group) and line.number[group[first]] < moment.infos:
            yield group[first]


def _wanted(
    line: Timeline, here: _Configuration, infos: int, waiting: Sequence[int]
) -> Iterator[int]:
    """The `info` writes that may take effect now and whose value something open consumes."""
    moment, operations = line.moments[here.moment], line.operations
    values = {value: None for value, bits in moment.reads_of.items() if bits & ~here.effective}
    values |= {operations[at].expected: None for at in waiting if operations[at].f == CAS}
    found = list(values)
    for value in found:  # grows while it is gone through
        for at in _unused(line, moment, infos, value):
            yield at
            expected = operations[at].expected
            if operations[at].f == CAS and expected not in values:
                values[expected] = None
                found.append(expected)


def _order(line: Timeline, initial: int, last: int, trail: _Step | None) -> tuple[int, ...]:
    """The legal order that steps stand for, with the reads and mute writes that go with them."""
    steps: list[_Step] = []
    while trail is not None:
        steps.append(trail)
        trail = trail.before
    operations, state = line.operations, initial
    placed: dict[int, None] = {}
    for place, moment in enumerate(line.moments[: last + 1]):
        placed |= _reads(line, moment, state)
        while steps and steps[-1].moment == place:
            at = steps.pop().at
            if operations[at].f == WRITE:
                mute = (one for one in moment.writes if moment.mute & line.bit[one] and one != at)
                placed |= dict.fromkeys(mute)
            placed[at] = None
            state = operations[at].value
            placed |= _reads(line, moment, state)
    return tuple(placed)


def _reads(line: Timeline, moment: Moment, state: int) -> dict[int, None]:
    return dict.fromkeys(at for at in moment.reads if line.operations[at].value == state)
