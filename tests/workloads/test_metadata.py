"""The scripts of metadata, as pure generators."""

from __future__ import annotations

from collections import defaultdict

import pytest

from harness import registry
from harness.errors import PlanError
from harness.protocols import INFO, OK, Invoke, completion
from workloads.metadata import Metadata


def done(workload: Metadata, process: int, processes: int, count: int = 2_000) -> list[Invoke]:
    """What one process does while half of its operations are unknown."""
    script = workload.script(process, processes, 1, 1)
    ops = [next(script)]
    for turn in range(count):
        ops.append(script.send(completion(OK if turn % 2 else INFO)))
    return ops


def test_a_topic_is_changed_by_one_process_alone_and_nodes_by_all() -> None:
    writers = defaultdict(set)
    for process in range(3):
        for f, _, _, key, _ in done(Metadata(), process, 3):
            if f != "read":
                writers[key].add(process)
    assert writers.keys() == set(Metadata().keys)
    assert all(len(of) == (3 if key.startswith("node") else 1) for key, of in writers.items())


def test_partitions_only_grow_one_after_the_other_and_to_a_limit() -> None:
    workload = Metadata(partitions_count=4)
    sizes = [op[1] for op in done(workload, 0, 1) if op[3] == "partitions-1" and op[0] == "write"]
    assert sizes == [1, 2, 3, 4]


def test_at_the_end_everything_is_read() -> None:
    assert [op[3] for op in Metadata().final(0, 3, 1, 1)] == [*Metadata().keys]


@pytest.mark.parametrize("wrong", [{"topics_count": 0}, {"grow_share": 0.6, "nodes_share": 0.5}])
def test_options_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(PlanError, match=r"topics_count|grow_share"):
        registry.make("workloads", "metadata", wrong, key="workload.options.name")
