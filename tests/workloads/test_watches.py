"""The script of the watches workload."""

from __future__ import annotations

from collections import Counter

import pytest

from harness import registry
from harness.errors import PlanError
from harness.protocols import OK, completion
from workloads.coordination import Watches


def operations_of(
    workload: Watches, process: int, seed: int = 1, count: int = 300
) -> list[tuple[object, ...]]:
    script = workload.script(process, 3, 1, seed)
    return [next(script), *(script.send(completion(OK)) for _ in range(count - 1))]


def test_it_writes_and_watches_all_keys_in_its_shares() -> None:
    done = operations_of(Watches(keys_count=2, write_share=0.25), 1)
    by_function = Counter(op[0] for op in done)
    assert 50 < by_function["write"] < 100
    assert by_function["write"] + by_function["watch"] == 300
    assert {op[3] for op in done} == {"k0", "k1"}
    assert [op[1] for op in done if op[0] == "write"][:3] == [1, 4, 7]


def test_the_seed_and_the_process_decide() -> None:
    workload = Watches()
    assert operations_of(workload, 0) == operations_of(workload, 0)
    assert operations_of(workload, 0) != operations_of(workload, 0, seed=2)


@pytest.mark.parametrize("options", [{"keys_count": 0}, {"write_share": 0.0}, {"write_share": 1.0}])
def test_wrong_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(PlanError, match="; use "):
        registry.make("workloads", "watches", options, key="workload.options.name")
