"""Whether each key is linearizable, or sequentially consistent: by columns where it can be, by a
search where it must.

A value that nothing can have stored makes a key invalid; known sources are decided in polynomial
time, all keys at once; only keys in which some value may come from several writes are searched.

The search for a sequentially consistent order of one key, where it is not known which write a
read returned: an interleaving of what the processes did, whatever the time.

It stands before the next operation of every process, lets one after the other take effect, and
keeps every configuration that was seen, as `linearization` does. So do its four savings: a read
takes effect as soon as it is next and the register holds its value; a write whose value nothing
consumes takes effect before the next write of another process that is not a compare-and-set; its
value is not a separate state; and an `info` write takes effect only where something that is next
consumes its value. That may be at any time after what its process did before it, or never.

A linearization, which is found sooner where there is one, is such an order too, unless operations
of one process touch. So that is searched first, with its own budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

import numpy as np

from checkers.register.linearization import (
    INVALID,
    MAX_STATES,
    UNKNOWN,
    VALID,
    Frontier,
    Outcome,
    linearization,
)
from checkers.register.operations import (
    CAS,
    NULL,
    OK,
    READ,
    WRITE,
    Bools,
    Ints,
    Operation,
    Operations,
    Sources,
    by_key,
    sources,
)
from checkers.register.zones import not_linearizable, not_sequential, preceding


class _Configuration(NamedTuple):
    """How far each process is, and what the register holds (None: what nothing will ask for)."""

    done: tuple[int, ...]
    state: int | None


class _Step(NamedTuple):
    """The operations that took effect together, and the steps before them."""

    placed: tuple[int, ...]
    before: _Step | None


@dataclass(frozen=True)
class _Processes:
    """A key's `ok` operations by process, in order; `gate`: of each `info` write, its process (-1:
    no matter) and how much of it comes before; `twin`: the bit of the one before it in its process
    that does the same, and is used first."""

    operations: Sequence[Operation]
    lines: Sequence[Sequence[int]]
    gate: Mapping[int, tuple[int, int]]
    twin: Mapping[int, int]

    @cached_property
    def mute(self) -> list[bool]:
        """Whether each operation is a write whose value nothing consumes."""
        consumed = {
            one.expected if one.f == CAS else one.value for one in self.operations if one.f != WRITE
        }
        return [one.f != READ and one.value not in consumed for one in self.operations]

    def keeps(self, order: Sequence[int]) -> bool:
        """Whether an order keeps the order of each process, and has `info` writes after their
        gates."""
        place = {at: number for number, at in enumerate(order)}
        gates = [
            (self.lines[line][before - 1], at)
            for at, (line, before) in self.gate.items()
            if at in place and before
        ]
        pairs = [pair for line in self.lines for pair in pairwise(line)]
        return all(place[first] < place[second] for first, second in pairs + gates)

    def next(self, done: tuple[int, ...]) -> list[tuple[int, int]]:
        """The processes that are not at their end, and what each does next."""
        ended = zip(self.lines, done, strict=True)
        return [(line, at[place]) for line, (at, place) in enumerate(ended) if place < len(at)]


def interleaving(
    operations: Sequence[Operation], *, initial: int = NULL, max_states: int = MAX_STATES
) -> Outcome:
    """Search for a legal order of a key's operations that keeps the order of each process."""
    processes, verdict = _processes(operations), INVALID
    timed = linearization(operations, initial=initial, max_states=max_states)
    if timed.verdict == VALID and processes.keeps(timed.order):
        return timed
    frontier = Frontier[_Configuration, _Step]()
    start, reads = _settled(processes, _Configuration((0,) * len(processes.lines), initial))
    frontier.add(start, 0, _Step(reads, None), progress=sum(start.done))
    best = start, _Step(reads, None)
    while (found := frontier.next()) is not None:
        here, infos, trail = found
        if sum(here.done) > sum(best[0].done):
            best = here, trail
        if not processes.next(here.done):
            verdict = VALID
            break
        if frontier.states > max_states + len(operations):
            verdict = UNKNOWN
            break
        for choice in reversed(list(_choices(processes, here, infos))):
            after, reads = _settled(processes, choice.leads)
            step = _Step(choice.placed + reads, trail)
            frontier.add(after, infos | choice.infos, step, progress=sum(after.done))
    left = [at for _, at in processes.next(best[0].done)]
    stuck = min(left, key=lambda at: operations[at].complete_ns, default=None)
    states = timed.states + frontier.states
    return Outcome(verdict, states, stuck, lambda: _order(best[1]))


def _processes(operations: Sequence[Operation]) -> _Processes:
    before = preceding(Operations.of(operations)).tolist()
    order = sorted(
        range(len(operations)),
        key=lambda at: (operations[at].invoke_ns, operations[at].complete_ns, at),
    )
    lines: dict[int, tuple[int, list[int]]] = {}
    place = {-1: (-1, 0)}
    for at in order:
        one = operations[at]
        if one.type == OK:
            number, line = lines.setdefault(one.process, (len(lines), []))
            line.append(at)
            place[at] = (number, len(line))
    infos = [at for at in order if operations[at].type != OK]
    twin: dict[int, int] = {}
    like: dict[tuple[int, ...], int] = {}
    for at in infos:
        one = operations[at]
        what = (*one[:3], one.process)
        twin[at] = like.get(what, 0)
        like[what] = 1 << at
    gate = {at: place[before[at]] for at in infos}
    return _Processes(operations, [line for _, line in lines.values()], gate, twin)


def _settled(processes: _Processes, here: _Configuration) -> tuple[_Configuration, tuple[int, ...]]:
    """Let what is next and reads what the register holds take effect."""
    done, placed = list(here.done), []
    for line, order in enumerate(processes.lines):
        while done[line] < len(order):
            one = processes.operations[order[done[line]]]
            if one.f != READ or one.value != here.state:
                break
            placed.append(order[done[line]])
            done[line] += 1
    return here._replace(done=tuple(done)), tuple(placed)


class _Choice(NamedTuple):
    """What may take effect next, all that takes effect with it, the `info` write that it uses, as
    a bit, and what it leads to."""

    leads: _Configuration
    placed: tuple[int, ...]
    infos: int = 0


def _choices(processes: _Processes, here: _Configuration, infos: int) -> Iterator[_Choice]:
    """What may take effect next; the earliest completion first."""
    operations, mute = processes.operations, processes.mute
    ahead = processes.next(here.done)
    quiet = False
    for line, at in sorted(ahead, key=lambda each: operations[each[1]].complete_ns):
        one = operations[at]
        if one.f == READ or (one.f == CAS and one.expected != here.state):
            continue
        if one.f == WRITE and mute[at]:
            quiet = True
            continue
        yield _written(processes, here, at, line)
    for at in _wanted(processes, here, infos, [at for _, at in ahead]):
        yield _written(processes, here, at, None)
    if quiet:
        done, placed = _quietened(processes, here.done, None)
        yield _Choice(_Configuration(done, None), placed)


def _written(processes: _Processes, here: _Configuration, at: int, line: int | None) -> _Choice:
    """What a write leads to, next in a process or an `info` one."""
    one, done = processes.operations[at], here.done
    placed: tuple[int, ...] = ()
    if one.f == WRITE:
        done, placed = _quietened(processes, done, line)
    if line is not None:
        done = (*done[:line], done[line] + 1, *done[line + 1 :])
    after = _Configuration(done, None if processes.mute[at] else one.value)
    return _Choice(after, (*placed, at), 1 << at if line is None else 0)


def _quietened(
    processes: _Processes, done: tuple[int, ...], but: int | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Let writes whose value nothing consumes take effect where they are next, except those of one
    process."""
    after, placed = list(done), []
    for line, order in enumerate(processes.lines):
        while line != but and after[line] < len(order):
            at = order[after[line]]
            if processes.operations[at].f != WRITE or not processes.mute[at]:
                break
            placed.append(at)
            after[line] += 1
    return tuple(after), tuple(placed)


def _wanted(
    processes: _Processes, here: _Configuration, infos: int, ahead: Sequence[int]
) -> Iterator[int]:
    """The `info` writes that may take effect now and whose value something next consumes."""
    operations = processes.operations
    nexts = (operations[at] for at in ahead)
    values = dict.fromkeys(
        one.expected if one.f == CAS else one.value for one in nexts if one.f != WRITE
    )
    found = list(values)
    for value in found:  # grows while it is gone through
        for at in _unused(processes, here, infos, value):
            expected = operations[at].expected
            if operations[at].f != CAS or expected == here.state:
                yield at
            if operations[at].f == CAS and expected not in values:
                values[expected] = None
                found.append(expected)


def _unused(processes: _Processes, here: _Configuration, infos: int, value: int) -> Iterator[int]:
    """The `info` writes of a value that may take effect now, of a process one of those that do the
    same."""
    for at, (line, before) in processes.gate.items():
        twin = processes.twin[at]
        used = infos >> at & 1 or infos & twin != twin
        passed = line < 0 or here.done[line] >= before
        if processes.operations[at].value == value and passed and not used:
            yield at


def _order(trail: _Step | None) -> tuple[int, ...]:
    """What steps placed, in order."""
    steps = []
    while trail is not None:
        steps.append(trail.placed)
        trail = trail.before
    return tuple(at for placed in reversed(steps) for at in placed)


LINEARIZABLE: Final = "linearizable"
SEQUENTIAL: Final = "sequential"


class Search(Protocol):
    """A search for an order of one key's operations."""

    def __call__(
        self, operations: Sequence[Operation], *, initial: int, max_states: int
    ) -> Outcome: ...


@dataclass(frozen=True)
class Consistency:
    """What is decided for each key: whether real time counts, and the two ways to decide."""

    in_real_time: bool
    broken: Callable[[Sources], Bools]
    search: Search


CONSISTENCIES: Final = {
    LINEARIZABLE: Consistency(True, not_linearizable, linearization),
    SEQUENTIAL: Consistency(False, not_sequential, interleaving),
}


@dataclass(frozen=True)
class Answers:
    """The verdict on each key, and how many configurations were seen for it: 0 where no search was
    needed."""

    keys: Ints
    verdicts: tuple[str, ...]
    states: Ints

    def of(self, verdict: str) -> Ints:
        """The keys with a verdict."""
        return self.keys[[each == verdict for each in self.verdicts]]


def answers(
    operations: Operations,
    *,
    consistency: str = LINEARIZABLE,
    initial: int = NULL,
    max_states: int = MAX_STATES,
) -> Answers:
    """Judge every key. Raises ValueError for an unknown consistency."""
    model = consistency_named(consistency)
    of_keys = sources(operations, initial=initial, in_real_time=model.in_real_time)
    searched = of_keys.ambiguous & ~of_keys.unwritten
    broken = of_keys.unwritten | (model.broken(of_keys) & ~searched)
    verdicts = np.where(broken, INVALID, VALID).tolist()
    states = np.zeros(len(of_keys.keys), np.int64)
    left = of_keys.operations.take(searched[of_keys.at])
    for key, rows in by_key(left):
        place = int(np.searchsorted(of_keys.keys, key))
        found = model.search(list(left.take(rows)), initial=initial, max_states=max_states)
        verdicts[place], states[place] = found.verdict, found.states
    return Answers(of_keys.keys, tuple(verdicts), states)


def consistency_named(name: str) -> Consistency:
    """One of the consistencies. Raises ValueError for an unknown name."""
    if name not in CONSISTENCIES:
        raise ValueError(f"consistency is {name!r}; use one of {', '.join(CONSISTENCIES)}")
    return CONSISTENCIES[name]


__all__ = [
    "INVALID",
    "LINEARIZABLE",
    "SEQUENTIAL",
    "UNKNOWN",
    "VALID",
    "Answers",
    "Consistency",
    "answers",
    "consistency_named",
]
