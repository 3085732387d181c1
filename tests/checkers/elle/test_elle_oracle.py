"""Random histories of a few transactions, against all orders in which they could have run."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.elle.dependencies import ruled_out
from tests.checkers.elle.txns import Step, Txn, found_in
from tests.fixtures.budget import examples

State = dict[int, tuple[int, ...]]
EXAMPLES = examples(40)


def after(state: State, txn: Txn, lists: bool) -> State | None:
    """The state that follows; `None` where the transaction cannot have run in this one."""
    state = dict(state)
    for f, key, value in txn.steps:
        held = state.get(key, ())
        if f == "r":
            seen = held if lists else (held[-1] if held else None)
            if txn.end == "ok" and seen != value:
                return None
        else:
            assert isinstance(value, int)
            state[key] = (*held, value)
    return state


def before(one: Txn, other: Txn, order: str) -> bool:
    """Whether one has to come before another."""
    if order == "none" or one.end != "ok" or one.ended > other.begun:
        return False
    return order == "realtime" or one.process == other.process


def possible(txns: Sequence[Txn]) -> Iterator[list[Txn]]:
    """What may have committed."""
    sure = [txn for txn in txns if txn.end == "ok"]
    open_ = [txn for txn in txns if txn.end == "info"]
    for size in range(len(open_) + 1):
        for some in itertools.combinations(open_, size):
            yield [*sure, *some]


def is_serializable(txns: Sequence[Txn], order: str, lists: bool) -> bool:
    def fits(state: State, rest: list[Txn]) -> bool:
        if not rest:
            return True
        for each in rest:
            if any(before(other, each, order) for other in rest if other is not each):
                continue
            then = after(state, each, lists)
            if then is not None and fits(then, [other for other in rest if other is not each]):
                return True
        return False

    return any(fits({}, some) for some in possible(txns))


def is_snapshot_isolated(txns: Sequence[Txn], order: str, lists: bool) -> bool:
    """Each reads a snapshot, and of two that run at the same time one key is written by one."""

    def writes(txn: Txn) -> State:
        found: State = {}
        for f, key, value in txn.steps:
            if f != "r":
                assert isinstance(value, int)
                found[key] = (*found.get(key, ()), value)
        return found

    def fits(state: State, waiting: list[Txn], running: list[tuple[Txn, set[int]]]) -> bool:
        """`running`: with the keys that were written since they took their snapshots."""
        if not waiting and not running:
            return True
        live = [*waiting, *(txn for txn, _ in running)]
        for each in waiting:
            if any(before(other, each, order) for other in live if other is not each):
                continue
            if after(state, each, lists) is not None and fits(
                state, [o for o in waiting if o is not each], [*running, (each, set())]
            ):
                return True
        for place, (each, since) in enumerate(running):
            own = writes(each)
            if since & own.keys():
                continue
            then = {**state, **{key: (*state.get(key, ()), *new) for key, new in own.items()}}
            others = [
                (txn, keys | own.keys()) for n, (txn, keys) in enumerate(running) if n != place
            ]
            if fits(then, waiting, others):
                return True
        return False

    return any(fits({}, some, []) for some in possible(txns))


def history(
    draw: random.Random, lists: bool, number: int, honest: float, wrong: float
) -> list[Txn]:
    """Transactions of two keys over a store that, now and then, returns an older version, loses a
    write, or keeps a failed one; then one that reads all."""
    states: list[State] = [{}]
    done, value = list[Txn](), 0
    points = sorted(draw.sample(range(100), number))
    for place, point in enumerate(points):
        end = "ok" if draw.random() < honest else draw.choice(["info", "fail"])
        executes = end == "ok" or (end == "info" and draw.random() < 0.5)
        executes ^= draw.random() < wrong / 3
        state = dict(states[-1])
        stale = draw.choice(states) if draw.random() < wrong else None
        steps = list[Step]()
        for _ in range(draw.randint(1, 3)):
            key = draw.randrange(2)
            if draw.random() < 0.5:
                seen = (state if stale is None else {**state, **stale}).get(key, ())
                steps.append(("r", key, seen if lists else (seen[-1] if seen else None)))
            else:
                value += 1
                held = state.get(key, ())
                swap = held and draw.random() < wrong / 3
                state[key] = (*held[:-1], value, held[-1]) if swap else (*held, value)
                steps.append(("a" if lists else "w", key, value))
        if executes:
            states.append(state)
        begun, ended = point - draw.randint(0, 30), point + draw.randint(0, 30)
        done.append(Txn(tuple(steps), begun, ended, place, end))
    last = [states[-1].get(key, ()) for key in range(2)]
    reads: tuple[Step, ...] = tuple(
        ("r", key, held if lists else (held[-1] if held else None)) for key, held in enumerate(last)
    )
    done.append(Txn(reads, 200, 201, 50))
    for n in range(1, len(done)):  # some are of one process
        same = [each for each in done[:n] if each.end == "ok" and each.ended < done[n].begun]
        if same and draw.random() < 0.3:
            one = draw.choice(same)
            if not any(e.process == one.process and e is not one for e in done):
                done[n] = Txn(*vars(done[n]).values())  # a copy
                object.__setattr__(done[n], "process", one.process)
    return done


CHECKS = {
    "strict-serializable": (is_serializable, "realtime"),
    "strong-session-serializable": (is_serializable, "process"),
    "serializable": (is_serializable, "none"),
    "strong-snapshot-isolation": (is_snapshot_isolated, "realtime"),
    "strong-session-snapshot-isolation": (is_snapshot_isolated, "process"),
    "snapshot-isolation": (is_snapshot_isolated, "none"),
}


def disagreements(seed: int, lists: bool) -> list[str]:
    draw = random.Random(seed)
    txns = history(
        draw, lists, draw.randint(2, 5), draw.choice([1, 0.8]), draw.choice([0, 0.3, 0.6])
    )
    found, _ = found_in(txns, lists=lists)
    out = ruled_out(found)
    last = {value for _, _, read in txns[-1].steps if isinstance(read, tuple) for value in read}
    shown = last >= {v for t in txns if t.end == "ok" for f, _, v in t.steps if f != "r"}
    wrong = []
    for model, (holds, order) in CHECKS.items():
        if holds(txns, order, lists):
            if model in out:
                wrong.append(f"{model} holds: {found} in {txns}")
        elif lists and shown and model not in out:
            wrong.append(f"{model} does not hold, and nothing was found: {found} in {txns}")
    return wrong


@pytest.mark.parametrize("lists", [True, False])
@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_of_lists_exactly_what_no_order_explains_is_ruled_out_and_of_registers_nothing_else(
    lists: bool, seed: int
) -> None:
    assert disagreements(seed, lists) == []
