"""Minimal parts that have no legal order, and that the rules for leaving things out are sound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import numpy as np
import pytest

from checkers.register import counterexample
from checkers.register.answers import LINEARIZABLE, SEQUENTIAL, answers
from checkers.register.counterexample import (
    MAX_PARTS,
    CounterExample,
    Part,
    _Judge,
    consumed,
    consumers_of,
    counter_example,
    prefix,
    window,
    without,
)
from checkers.register.linearization import INVALID
from checkers.register.operations import (
    NEVER,
    READ,
    Operation,
    Operations,
)
from harness.protocols.runs import (
    FAIL,
    INFO,
    OK,
)
from tests.checkers.register import oracle
from tests.checkers.register.histories import EXAMPLES, History, c, drawn, info, r, w

STARTS = range(10)
SEARCHED = max(EXAMPLES // 4, 100)


def example(*operations: Operation, consistency: str = LINEARIZABLE) -> CounterExample:
    found = counter_example(Operations.of(operations), 0, consistency=consistency, initial=0)
    assert found is not None
    return found


def rows(found: CounterExample) -> list[int]:
    return [one.row for one in found.operations]


def test_an_old_value_takes_its_write_a_newer_one_and_the_read():
    noise = [w(at, 10 * at, 10 * at + 5) for at in range(3, 40)]
    reads = [r(at, 10 * at + 6, 10 * at + 7) for at in range(3, 40)]
    found = example(*noise, *reads, r(20, 399, 400, process=5))
    old, newer, stuck = found.operations
    assert (old.operation.value, stuck.operation.value) == (20, 20)
    assert newer.operation.invoke_ns > old.operation.complete_ns
    assert (found.stuck, found.start, found.any_start) == (74, 0, False)
    assert found.minimal
    assert found.register == newer.operation.value
    assert [(one.place, one.register) for one in found.operations] == [
        *((0, 20), (1, newer.operation.value)),
        (None, None),
    ]


def test_a_value_that_nobody_wrote_takes_only_its_read():
    found = example(w(1, 1, 2), r(1, 3, 4), r(9, 3, 4), w(2, 5, 6))
    assert (rows(found), found.stuck, found.register) == ([2], 2, 0)


def test_what_is_pending_at_the_end_of_the_prefix_is_marked():
    found = example(w(1, 1, 9), r(1, 2, 3), w(2, 4, 12), r(2, 5, 6), r(1, 7, 8), r(2, 20, 21))
    assert rows(found) == [0, 1, 2, 3, 4]
    assert [one.pending for one in found.operations] == [True, False, True, False, False]


def test_values_that_repeat_are_shown_in_a_window_that_starts_anyhow():
    back_and_forth = [w(at % 2, 10 * at, 10 * at + 5) for at in range(50)]
    reads = [r(at % 2, 10 * at + 6, 10 * at + 7) for at in range(50)]
    found = example(*back_and_forth, *reads, r(1, 208, 209, process=3))
    assert found.any_start
    assert rows(found) == [70, 100]
    assert (found.start, found.register, found.stuck) == (0, 0, 100)


def test_the_initial_value_written_again_is_one_that_repeats():
    noise = [w(at, 10 * at, 10 * at + 5) for at in range(3, 40)]
    reads = [r(at, 10 * at + 6, 10 * at + 7) for at in range(3, 40)]
    stale = Operations.of([*noise, *reads, r(20, 399, 400, process=5)])
    for initial, any_start in ((3, True), (0, False)):
        found = counter_example(stale, 0, initial=initial)
        assert found is not None
        assert found.any_start is any_start


def test_a_window_keeps_what_may_have_happened_at_any_time():
    rest = [w(at % 2, 10 * at, 10 * at + 5, process=1) for at in range(1, 50)]
    reads = [r(at % 2, 10 * at + 6, 10 * at + 7, process=1) for at in range(1, 50)]
    late = [info(w(2, 1, 5)), r(2, 208, 209, process=2), r(1, 212, 213, process=2)]
    found = example(*rest, *reads, *late, r(2, 216, 217, process=2))
    assert found.any_start
    kinds = {one.operation.value for one in found.operations}
    assert 98 in rows(found)
    assert 2 in kinds


def test_an_anomaly_that_rests_on_the_initial_value_has_no_window():
    found = example(r(1, 1, 2), w(1, 3, 4), w(1, 5, 6))
    assert (rows(found), found.any_start) == ([0], False)


def test_processes_that_go_back_are_shown_without_time():
    found = example(
        *(w(1, 1, 2), w(2, 3, 4), w(3, 5, 6)),
        *(r(3, 7, 8, process=1), r(1, 9, 10, process=1), r(1, 11, 12, process=1)),
        consistency=SEQUENTIAL,
    )
    assert (found.consistency, found.any_start) == (SEQUENTIAL, False)
    assert len(rows(found)) == 4


def test_no_key_that_is_right_has_one():
    assert counter_example(Operations.of([w(1, 1, 2), r(1, 3, 4)]), 0, initial=0) is None
    assert counter_example(Operations.of([w(1, 1, 2)]), 5, initial=0) is None


def chain(swaps: int) -> list[Operation]:
    """Compare-and-sets that each expect what the one before stored, and a stale read: nothing can
    be left out."""
    links = [c(at, at + 1, 10 * at, 10 * at + 5) for at in range(swaps)]
    return [*links, r(swaps - 1, 10 * swaps, 10 * swaps + 5)]


def test_the_search_for_a_smaller_one_has_a_budget(monkeypatch):
    calls = []
    wrong = _Judge.wrong

    def counted(judge: _Judge, part: Part) -> bool:
        calls.append(len(part.operations))
        return wrong(judge, part)

    monkeypatch.setattr(_Judge, "wrong", counted)
    found = example(*chain(2_000))
    assert len(calls) <= MAX_PARTS
    assert (len(found.operations), found.stuck, found.minimal) == (2_001, 2_000, False)


def test_what_was_left_out_within_the_budget_stays_so(monkeypatch):
    noise = [w(at, 10 * at, 10 * at + 5, process=3) for at in range(3, 40)]
    stale = [*noise, r(20, 399, 400, process=5)]
    sizes = []
    for parts in (1, 8, 16, 400):
        monkeypatch.setattr(counterexample, "MAX_PARTS", parts)
        found = example(*stale)
        assert not ordered(found, shown(found))
        sizes.append(len(found.operations))
        assert found.minimal == (parts == 400)
    assert (sizes[0], sizes[-1]) == (38, 3)
    assert sizes == sorted(sizes, reverse=True)


def test_the_searches_for_a_smaller_one_have_a_budget_together():
    back_and_forth = [w(at % 2, 10 * at, 10 * at + 5) for at in range(50)]
    reads = [r(at % 2, 10 * at + 6, 10 * at + 7) for at in range(50)]
    history = Operations.of([*back_and_forth, *reads, r(1, 208, 209, process=3)])
    found = counter_example(history, 0, initial=0, max_states=1)
    assert found is not None
    assert not found.minimal
    assert not ordered(found, shown(found))


def test_what_cannot_be_decided_has_none():
    wrong = [*(w(at % 2, 1, 99, process=at) for at in range(12)), r(1, 100, 101), r(0, 102, 103)]
    assert counter_example(Operations.of(wrong), 0, initial=0, max_states=0) is None


def random_histories(seed: int, size: int) -> Iterator[History]:
    random = Random(f"register/parts/{seed}")
    for _ in range(SEARCHED):
        history = drawn(random, random.randint(2, size), values=random.choice([2, 3, 9]))
        yield tuple(one for one in history if one.type != FAIL)


def shown(found: CounterExample) -> list[Operation]:
    """What a counter-example claims has no order: what is pending may not have happened."""
    return [
        one.operation._replace(type=INFO, complete_ns=NEVER) if one.pending else one.operation
        for one in found.operations
    ]


def ordered(found: CounterExample, operations: list[Operation]) -> bool:
    """Whether operations of a counter-example have an order from what the register may hold."""
    starts = STARTS if found.any_start else [0]
    judge = oracle.linearizable if found.consistency == LINEARIZABLE else oracle.sequential
    return any(judge(operations, start) for start in starts)


@pytest.mark.parametrize("consistency", [LINEARIZABLE, SEQUENTIAL])
def test_random_counter_examples_have_no_order_and_nothing_to_spare(consistency):
    count = 0
    for history in random_histories(1, 8):
        operations = Operations.of(history)
        if answers(operations, consistency=consistency, initial=0).verdicts != (INVALID,):
            continue
        found = counter_example(operations, 0, consistency=consistency, initial=0)
        assert found is not None
        part = shown(found)
        assert not ordered(found, part)
        in_real_time = consistency == LINEARIZABLE
        for at in range(len(part)):
            assert ordered(found, left_of(part, [at], in_real_time=in_real_time))
        order = sorted(
            (one for one in found.operations if one.place is not None),
            key=lambda one: one.place or 0,
        )
        legal = [one.operation for one in order]
        assert oracle.is_legal(legal, range(len(legal)), found.start, in_real_time=in_real_time)
        assert found.stuck in rows(found)
        count += 1
    assert count > SEARCHED // 10


def left_of(
    rows: Sequence[Operation], out: list[int], *, in_real_time: bool = True
) -> list[Operation]:
    """What is left of some rows without others."""
    part = dict(enumerate(rows))
    left = without(part, out, consumers_of(rows), in_real_time=in_real_time)
    return list(left.values())


def test_no_part_of_a_linearizable_history_is_wrong():
    """Each rule by itself, on histories that have a linearization."""
    random = Random("register/sound")
    for history in random_histories(2, 7):
        if not oracle.linearizable(history, 0):
            continue
        said = [one for one in history if one.type == OK or one.f != READ]
        part = Part(Operations.of(said), np.arange(len(said)))
        instant = random.randint(0, 15)
        assert oracle.linearizable(list(prefix(part, instant).operations), 0)
        later = list(window(part, instant).operations)
        assert any(oracle.linearizable(later, start) for start in STARTS)
        out = random.sample(range(len(said)), random.randint(0, len(said)))
        assert oracle.linearizable(left_of(said, out), 0)


def test_no_closed_part_of_a_sequential_history_is_wrong():
    random = Random("register/closed")
    for history in random_histories(3, 7):
        if oracle.sequential(history, 0):
            out = random.sample(range(len(history)), random.randint(0, len(history)))
            assert oracle.sequential(left_of(history, out, in_real_time=False), 0)


def test_what_consumes_a_value_goes_with_its_write():
    operations = [w(1, 1, 2), r(1, 3, 4), c(1, 2, 5, 6), r(2, 7, 8), w(1, 20, 21), r(3, 9, 10)]
    write, read, swap, second, late, stray = operations
    assert left_of(operations, [0]) == [late, stray]
    assert left_of(operations, [1]) == [write, swap, second, late, stray]
    assert left_of(operations, [4]) == [write, read, swap, second, stray]
    assert left_of(operations, [4], in_real_time=False) == [write, stray]
    assert [consumed(one) for one in operations] == [None, 1, 1, 2, None, 3]
