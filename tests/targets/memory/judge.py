"""What is wrong with a run, by direct means: a check for logs, and one for registers that tries
every order (Wing and Gong), an operation at a time as its end forces it.

Register values are unique, so an operation of unknown end whose value nobody has seen is left out:
it can be ordered last. Compare-and-sets that found another value are left out too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tests.targets.memory.world import Op, Run


def wrong_in_log(run: Run) -> list[str]:
    """Acknowledged values that are gone, values that are twice there or nobody's, replicas that
    differ. Writes to registers stand in the log too. An unsettled run is not judged."""
    if not run.settled:
        return []
    found = []
    logs = list(run.held.values())
    if any(log != logs[0] for log in logs):
        found.append("replicas differ")
    there = Counter(value for _, _, value in logs[0])
    outcomes = {
        op.command.value: (op.command.f, op.outcome.type if op.outcome else "info")
        for op in run.ops
        if op.command.f != "read"
    }
    lost = [value for value, (_, end) in outcomes.items() if end == "ok" and value not in there]
    refused = [
        value  # a compare-and-set that found another value stands in the log, without effect
        for value, (f, end) in outcomes.items()
        if end == "fail" and f != "cas" and value in there
    ]
    twice = [value for value, times in there.items() if times > 1]
    found += [f"{len(lost)} acknowledged values are lost"] if lost else []
    found += [f"{len(refused)} failed values are there"] if refused else []
    found += [f"{len(twice)} values are there more than once"] if twice else []
    found += ["values that nobody has written"] if set(there) - set(outcomes) else []
    return found


def wrong_in_registers(run: Run) -> list[str]:
    """The keys whose operations have no order that explains what was read."""
    keys = sorted({op.command.key for op in run.ops if op.command.key is not None})
    return [
        f"{key} is not linearizable"
        for key in keys
        if not linearizable([op for op in run.ops if op.command.key == key])
    ]


def linearizable(ops: list[Op]) -> bool:
    """Whether some order of the operations, each between its beginning and its end, explains
    everything that was read."""
    seen = set(_seen(ops))
    ops = [op for op in ops if _matters(op, seen)]
    events = sorted(
        (time_ns, kind, place)
        for place, op in enumerate(ops)
        for time_ns, kind in ((op.begun_ns, 0), (op.ended_ns, 1))
        if time_ns is not None
    )
    open_: set[int] = set()
    states: set[tuple[int | None, frozenset[int]]] = {(None, frozenset())}
    for _, kind, place in events:
        if kind == 0:
            open_.add(place)
            continue
        states = {(value, done - {place}) for value, done in _with(place, states, open_, ops)}
        open_.remove(place)
        if not states:
            return False
    return True


State = tuple[int | None, frozenset[int]]


def _with(place: int, states: set[State], open_: set[int], ops: list[Op]) -> Iterator[State]:
    """All states in which an operation has happened, with whatever must happen before it."""
    known, todo = set(states), list(states)
    while todo:
        value, done = todo.pop()
        if place in done:
            yield value, done
            continue
        for other in open_ - done:
            after = _after(ops[other], value)
            if after is not None:
                state = (after[0], done | {other})
                if state not in known:
                    known.add(state)
                    todo.append(state)


def _after(op: Op, value: int | None) -> tuple[int | None] | None:
    """The value after an operation; None: it cannot happen now."""
    f, _, new, expected, _ = op.command
    if f == "write":
        return (new,)
    if f == "read":
        assert op.outcome is not None
        return (value,) if op.outcome.result == value else None
    return (new,) if value == expected else None


def _seen(ops: Iterable[Op]) -> Iterator[int | None]:
    for op in ops:
        if op.command.f == "cas":
            yield op.command.expected
        elif op.command.f == "read" and op.outcome is not None and op.outcome.type == "ok":
            yield op.outcome.result


def _matters(op: Op, seen: set[int | None]) -> bool:
    ended = op.outcome.type if op.outcome is not None else "info"
    if ended == "ok":
        return True
    return ended == "info" and op.command.f != "read" and op.command.value in seen
