"""Where replicas are put: who leads at first is the plan's word."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import PlanError
from harness.plan import parse_plan
from harness.protocols import ImageRef
from targets.kafka import zookeeper
from targets.kafka.configuration import assignment, of_commits


@pytest.mark.parametrize(
    ("brokers", "topic", "placed"),
    [
        (3, {"leaders": "one"}, {0: [1, 2, 3], 1: [1, 2, 3]}),
        (3, {"leaders": "spread"}, {0: [1, 2, 3], 1: [2, 3, 1]}),
        (3, {"leaders": "spread", "replication_factor": 2}, {0: [1, 2], 1: [2, 3]}),
        (1, {"leaders": "spread", "replication_factor": 1}, {0: [1], 1: [1]}),
        (3, {"first_leader": 2}, {0: [2, 3, 1], 1: [3, 1, 2]}),
        (3, {"first_leader": 3, "leaders": "one"}, {0: [3, 1, 2], 1: [3, 1, 2]}),
        (3, {}, {0: [1, 2, 3], 1: [2, 3, 1]}),
    ],
)
def test_the_first_replica_leads(
    brokers: int, topic: dict[str, Any], placed: dict[int, list[int]]
) -> None:
    target, topic = {"brokers": brokers}, {"partitions": 2, **topic}
    plan: Any = parse_plan({"schema": 1, "name": "x", "target": target, "topic": topic})
    assert assignment(plan) == placed


def coordinated(by: int, **target: Any) -> Any:
    """A plan whose groups a broker is to coordinate at first."""
    of = {"version": "4.3.1", "brokers": 3, "coordinator": by, **target}
    return parse_plan({"schema": 1, "name": "x", "target": of})


def test_the_coordinator_leads_every_partition_of_the_commits() -> None:
    commits = of_commits(coordinated(2), 3)
    assert commits.topic.name == "__consumer_offsets"
    assert assignment(commits) == {partition: [2, 3, 1] for partition in range(3)}
    own = {"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 2}
    assert assignment(of_commits(coordinated(3, settings=own), 3)) == {0: [3, 1]}


def test_a_coordinator_is_a_broker_and_chosen_with_kraft_only() -> None:
    with pytest.raises(PlanError, match="there is no broker 4"):
        coordinated(4)
    old = coordinated(2, version="2.8.2", metadata="zookeeper")
    with pytest.raises(PlanError, match="with KRaft only"):
        zookeeper.ingredients(old, ImageRef(reference="x", id="x", version="2.8.2"), print)
