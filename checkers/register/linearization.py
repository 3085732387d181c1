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
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from checkers.register.frontier import Frontier
from checkers.register.operations import CAS, NULL, OK, READ, WRITE, Operation
from checkers.register.timeline import Moment, Timeline, timeline

VALID, INVALID, UNKNOWN = "valid", "invalid", "unknown"

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
