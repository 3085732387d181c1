"""The scripts of a set, as pure generators."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from harness import registry
from harness.errors import PlanError
from harness.models import SET
from harness.protocols import FAIL, INFO, OK, Workload, completion, invoke
from workloads.set import Set


def test_it_is_a_workload_with_a_final_script() -> None:
    assert isinstance(Set(), Workload)
    assert Set().has_final()
    assert Set.model == SET.name


def test_elements_are_unique_over_all_processes_and_reads_have_their_share() -> None:
    added, reads = [], 0
    for process in range(5):
        script = Set(read_share=0.25).script(process, 5, 3, seed=4)
        ops = [next(script), *(script.send(completion((OK, INFO)[n % 2])) for n in range(799))]
        added += [value for f, value, *_ in ops if f == "add"]
        reads += sum(op == invoke("read") for op in ops)
    assert len(set(added)) == len(added)
    assert len(added) + reads == 4_000
    assert reads / 4_000 == pytest.approx(0.25, abs=0.03)


def test_without_a_share_of_reads_there_are_only_adds() -> None:
    script = Set(read_share=0).script(1, 4, 1, seed=1)
    ops = [next(script), *(script.send(completion(OK)) for _ in range(3))]
    assert ops == [invoke("add", value) for value in (1, 5, 9, 13)]


def test_the_final_script_reads_until_a_read_is_ok() -> None:
    script = Set().final(3, 4, 1, seed=1)
    assert next(script) == invoke("read")
    for refused in (FAIL, INFO):
        assert script.send(completion(refused)) == invoke("read")
    with pytest.raises(StopIteration):
        script.send(completion(OK, result=None))


def test_the_final_script_does_not_try_for_ever() -> None:
    script = Set().final(0, 1, 1, seed=1)
    next(script)
    tries = 1
    with contextlib.suppress(StopIteration):
        while tries < 100:
            script.send(completion(FAIL))
            tries += 1
    assert 1 < tries < 100


@pytest.mark.parametrize("share", [1, -0.1, float("nan")])
def test_a_share_that_leaves_nothing_to_add_is_refused(share: Any) -> None:
    with pytest.raises(PlanError, match=r"read_share: .+ is not allowed here; use "):
        registry.make("workloads", "set", {"read_share": share}, key="workload.options.name")
