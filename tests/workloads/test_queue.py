"""The scripts of a queue, as pure generators."""

from __future__ import annotations

import pytest

from harness import registry
from harness.errors import PlanError
from harness.protocols import FAIL, INFO, OK, completion, invoke
from workloads.queue import Queue


def test_elements_are_unique_over_all_processes_and_dequeues_have_their_share() -> None:
    added, dequeues = [], 0
    for process in range(5):
        script = Queue(dequeue_share=0.25).script(process, 5, 3, seed=4)
        ops = [next(script), *(script.send(completion((OK, INFO)[n % 2])) for n in range(799))]
        added += [value for f, value, *_ in ops if f == "enqueue"]
        dequeues += sum(op == invoke("dequeue") for op in ops)
    assert len(set(added)) == len(added)
    assert len(added) + dequeues == 4_000
    assert dequeues / 4_000 == pytest.approx(0.25, abs=0.03)


def test_the_final_script_drains_until_a_drain_is_ok_a_few_times() -> None:
    script = Queue().final(3, 4, 1, seed=1)
    assert next(script) == invoke("drain")
    for refused in (FAIL, INFO):
        assert script.send(completion(refused)) == invoke("drain")
    with pytest.raises(StopIteration):
        script.send(completion(OK, result=()))
    script = Queue().final(0, 1, 1, seed=1)
    next(script)
    for _ in range(4):
        script.send(completion(INFO))
    with pytest.raises(StopIteration):
        script.send(completion(INFO))


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_outside_of_0_to_1_is_refused(share: float) -> None:
    with pytest.raises(PlanError, match=r"dequeue_share: .+ is not allowed here"):
        registry.make("workloads", "queue", {"dequeue_share": share}, key="workload.options.name")
