"""The scripts of transactions, as pure generators."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import Any

import pytest

from harness import registry
from harness.errors import PlanError
from harness.models import TRANSACTION
from harness.models.micro_ops import (
    ABORT,
    ASSIGNED,
    COMMIT,
    CONSUME,
    CRASH,
    END,
    FENCE,
    OFFSETS,
    SEND,
    UNCOMMITTED,
    WHOLE,
    micro_ops,
)
from harness.protocols import FAIL, INFO, NULL, OK, Invoke, Workload, completion
from workloads.transactions import Transactions


def asked(op: Invoke) -> list[Any]:
    expected = op[4]
    assert isinstance(expected, tuple)
    return list(micro_ops(expected))


def test_it_is_a_workload_with_a_final_script() -> None:
    assert isinstance(Transactions(), Workload)
    assert Transactions().has_final()
    assert Transactions.model == TRANSACTION.name


@pytest.mark.parametrize(
    ("isolation", "all_of"),
    [("both", [1, 3]), ("read_committed", []), ("read_uncommitted", [0, 1, 2, 3])],
)
def test_which_readers_get_what_has_not_committed(isolation: Any, all_of: list[int]) -> None:
    workload = Transactions(readers_count=4, isolation=isolation)
    polls = [list(islice(workload.script(4 + reader, 8, 6, 9), 3)) for reader in range(4)]
    kinds = [[each.kind for each in asked(ops[2])] if ops[2][4] != NULL else [] for ops in polls]
    assert kinds == [[UNCOMMITTED] if reader in all_of else [] for reader in range(4)]
    assert all(op[0] == "poll" for ops in polls for op in ops)


def test_values_are_unique_and_transactions_have_their_shape() -> None:
    values, aborts, number = [], 0, 0
    for process in range(3):
        workload = Transactions(readers_count=1, sends_count=5, keys_count=2, abort_share=0.25)
        for op in islice(workload.script(process, 4, 6, 9), 400):
            micro = asked(op)
            sends = [each for each in micro if each.kind == SEND]
            assert op[:2] == ("txn", sends[0].value)
            assert 1 <= len(sends) <= 5
            assert len({each.key for each in sends}) == min(2, len(sends))
            assert all(0 <= each.key < 6 and each.value % 4 == process for each in sends)
            values += [each.value for each in sends]
            aborts += micro[-1].kind == ABORT
            assert micro[-1].kind in (ABORT, COMMIT)
            number += 1
    assert len(set(values)) == len(values)
    assert aborts / number == pytest.approx(0.25, abs=0.04)


def shapes(workload: Transactions, process: int, number: int = 600) -> list[list[Any]]:
    """The steps of a process' transactions, of one that never learns that it was not ok."""
    script, answer, found = workload.script(process, 8, 3, 4), completion(OK), []
    op = next(script)
    for _ in range(number):
        if op[0] == "txn":
            found.append(asked(op))
        op = script.send(answer)
    return found


def test_transactions_crash_and_are_taken_over_at_every_place() -> None:
    workload = Transactions(crash_share=0.3, fence_share=0.3, abort_share=0.1, sends_count=3)
    made = shapes(workload, 0)
    kinds = [[each.kind for each in steps] for steps in made]
    crashed = [each for each in kinds if each[-1] == CRASH]
    fenced = [each for each in kinds if FENCE in each]
    assert len(crashed) / len(kinds) == pytest.approx(0.3, abs=0.06)
    assert len(fenced) / len(kinds) == pytest.approx(0.3, abs=0.06)
    assert {tuple(each) for each in crashed} >= {
        *((CRASH,), (SEND, CRASH), (SEND, COMMIT, CRASH), (SEND, SEND, SEND, COMMIT, CRASH))
    }
    assert {(each.index(FENCE), len(each)) for each in fenced} >= {(0, 3), (1, 3), (3, 5)}
    assert not any(CRASH in each for each in fenced)


@pytest.mark.parametrize(
    ("offsets", "shape"),
    [
        ("transaction", (CONSUME, SEND, SEND, OFFSETS, COMMIT)),
        ("before", (CONSUME, OFFSETS, SEND, SEND, COMMIT)),
        ("after", (CONSUME, SEND, SEND, COMMIT, OFFSETS)),
    ],
)
def test_processors_consume_the_first_topic_and_send_to_others(
    offsets: Any, shape: tuple[int, ...]
) -> None:
    workload = Transactions(
        processors_count=2,
        topics_count=3,
        inputs_count=2,
        offsets=offsets,
        abort_share=0.2,
        crash_share=0.2,
    )
    made = shapes(workload, 5)
    kinds = {tuple(each.kind for each in steps) for steps in made}
    assert shape in kinds
    assert all(each[0] == CONSUME for each in kinds)
    assert {each[-1] for each in kinds} == {shape[-1], ABORT, CRASH}
    sends = [each for steps in made for each in steps if each.kind == SEND]
    assert {each.key for each in sends} == {3, 4, 5, 6, 7, 8}
    assert len({each.value for each in sends}) == len(sends)
    inputs = [each for steps in shapes(workload, 0) for each in steps if each.kind == SEND]
    assert {each.key for each in inputs} == {0, 1, 2}
    assert not {each.value for each in inputs} & {each.value for each in sends}


def test_a_processor_subscribes_again_when_it_is_replaced() -> None:
    script = Transactions(processors_count=1, topics_count=2).script(2, 5, 2, 1)
    first = next(script)
    assert first[0] == "subscribe"
    assert [(each.kind, each.key) for each in asked(first)] == [(ASSIGNED, 0), (ASSIGNED, 1)]
    assert script.send(completion(OK))[0] == "txn"
    assert script.send(completion(FAIL))[0] == "txn"
    assert script.send(completion(INFO)) == first


def test_the_last_processes_poll_and_one_at_least_sends() -> None:
    for count, readers in {0: set(), 2: {2, 3}, 9: {1, 2, 3}}.items():
        made = [next(Transactions(readers_count=count).script(p, 4, 2, 1)) for p in range(4)]
        assert {p for p, op in enumerate(made) if op[0] == "poll"} == readers


@pytest.mark.parametrize(("processes", "partitions"), [(1, 5), (3, 3), (4, 10), (7, 5), (20, 3)])
def test_the_final_reads_share_out_all_logs(processes: int, partitions: int) -> None:
    read = set()
    for process in range(processes):
        op = next(Transactions().final(process, processes, partitions, 1))
        assert op[0] == "poll"
        assert {each.kind for each in asked(op)} == {END}
        read |= {each.key for each in asked(op)}
    assert read == set(range(partitions))


def test_two_readers_read_and_each_is_tried_again_a_few_times() -> None:
    script = Transactions().final(0, 1, 1, 1)
    first = next(script)
    assert script.send(completion(FAIL)) == first
    second = script.send(completion(OK, result=()))
    assert second[0] == "read-log"
    assert {each.kind for each in asked(second)} == {WHOLE}
    assert script.send(completion(FAIL)) == second
    with pytest.raises(StopIteration):
        script.send(completion(OK, result=()))
    tries = Transactions().final(0, 1, 1, 1)
    begun = [next(tries)]
    with suppress(StopIteration):
        while len(begun) < 20:
            begun.append(tries.send(completion(FAIL)))
    assert 2 < len(begun) < 20


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"abort_share": 1}, "options.abort_share: 1 is not allowed here; use less than 1"),
        ({"sends_count": 0}, "options.sends_count: 0 is not allowed here; use 1 or more"),
        ({"pause_ms": -1}, "use 0 or more"),
        ({"processors_count": 1}, "no other topic than the one they consume; use topics_count = 2"),
        ({"offsets": "after"}, 'offsets is "after", and there are no processors'),
        ({"offsets": "later"}, "offsets"),
        ({"topics_count": 9}, "use 4 or less"),
        ({"abort_share": 0.5, "crash_share": 0.5}, "leave no complete transaction"),
        ({"fence_share": -0.1}, "use 0 or more"),
        ({"isolation": "dirty"}, "isolation"),
        ({"readers": 1}, "readers_count"),
    ],
)
def test_bad_options_are_refused(option: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        registry.make("workloads", "transactions", option, key="workload.options.name")
