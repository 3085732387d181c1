"""What is asked of the controller by znodes, and how it is seen what came of it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from harness.errors import HarnessFailure
from harness.faults.own_traffic import NoAnswer
from harness.plan import parse_plan
from harness.protocols import NodeView, PartitionView
from targets.kafka import zookeeper
from targets.kafka.zookeeper import ZooKeeperLeadership
from targets.zookeeper import asking
from tests.fixtures.dry_run import DryRunNode

PLAN = parse_plan({"schema": 1, "name": "x", "target": {"version": "2.8.2", "brokers": 3}})
REASSIGN, ELECT = "/admin/reassign_partitions", "/admin/preferred_replica_election"
ROLES = {"b1": "broker", "z1": "zookeeper", "z2": "zookeeper"}
TOPIC = ZooKeeperLeadership(
    {name: DryRunNode(name, frozenset({role}), name) for name, role in ROLES.items()}, PLAN
)


class Cluster:
    """Two servers, the first of which is deaf, and a controller that looks at each request once."""

    def __init__(self) -> None:
        self.replicas, self.leader = ("b1", "b2", "b3"), "b1"
        self.asked: list[tuple[str, Any]] = []
        self.looks_left = 1
        self.obeys = True

    def create(self, address: str, path: str, data: bytes, *, timeout_s: float) -> None:
        if address == "z1":
            raise NoAnswer("z1 is deaf")
        request = orjson.loads(data)
        self.asked.append((path, request))
        if not self.obeys:
            return
        if path == REASSIGN:
            self.replicas = tuple(f"b{n}" for n in request["partitions"][0]["replicas"])
        else:
            self.leader = self.replicas[0]

    def get(self, address: str, path: str, *, timeout_s: float) -> bytes | None:
        if address == "z1":
            raise NoAnswer("z1 is deaf")
        self.looks_left -= 1
        return b"{}" if self.looks_left >= 0 else None

    def observe_each(
        self, node: DryRunNode, plans: Any, *, timeout_s: float
    ) -> list[NodeView | None]:
        assert "zookeeper" in node.roles, "brokers may lag behind"
        view = PartitionView(
            partition=0, leader=self.leader, leader_epoch=1, members=(), replicas=self.replicas
        )
        reported = NodeView(answered_by=node.name, partitions=(view,), authority=True)
        return [None if node.name == "z1" else reported]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    for name in ("create", "get"):
        monkeypatch.setattr(asking, name, getattr(made, name))
    monkeypatch.setattr(zookeeper, "observe_each", made.observe_each)
    monkeypatch.setattr(zookeeper, "LEADERS_S", 0.5)
    return made


def test_leaders_are_moved_by_two_requests(cluster: Cluster) -> None:
    TOPIC.reorder({0: ["b3", "b1", "b2"]})
    assert TOPIC.placements()[0].replicas == ("b3", "b1", "b2")
    assert TOPIC.elect([0]) == {}
    assert TOPIC.placements()[0].leader == "b3"
    part = {"topic": PLAN.topic.name, "partition": 0}
    assert cluster.asked == [
        (REASSIGN, {"version": 1, "partitions": [{**part, "replicas": [3, 1, 2]}]}),
        (ELECT, {"version": 1, "partitions": [part]}),
    ]


def test_a_request_that_the_controller_drops_is_found_out(cluster: Cluster) -> None:
    cluster.obeys = False
    with pytest.raises(HarnessFailure, match="partition 0: the reassignment was refused"):
        TOPIC.reorder({0: ["b3", "b1", "b2"]})
    cluster.replicas = ("b3", "b1", "b2")
    assert TOPIC.elect([0]) == {0: "PREFERRED_LEADER_NOT_AVAILABLE"}


def test_a_controller_that_does_not_look_is_given_up(cluster: Cluster) -> None:
    cluster.looks_left = 1000
    with pytest.raises(HarnessFailure, match=r"within 0\.5 s: the controller did not process it"):
        TOPIC.elect([0])
    assert len(cluster.asked) == 1, "a request is made once"
