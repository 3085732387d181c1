"""Who leads, from znodes as real clusters have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from harness.errors import HarnessFailure
from harness.faults.own_traffic import NoAnswer
from harness.plan import parse_plan
from harness.protocols import NodeView, PartitionView
from targets.kafka import zookeeper
from targets.zookeeper import asking
from tests.fixtures.dry_run import DryRunNode

PLAN = parse_plan(
    {
        "schema": 1,
        "name": "x",
        "target": {"version": "2.8.2", "brokers": 3},
        "topic": {"partitions": 2, "replication_factor": 3},
    }
)
TOPIC = f"/brokers/topics/{PLAN.topic.name}"
SERVER = DryRunNode("z1", frozenset({"zookeeper"}), "198.18.0.21")
ZNODES: Mapping[str, bytes] = {
    "/controller": b'{"version":1,"brokerid":3,"timestamp":"1763787775419"}',
    "/controller_epoch": b"4",
    TOPIC: b'{"version":1,"partitions":{"0":[1,2,3],"1":[2,3,1]}}',
    f"{TOPIC}/partitions/0/state": (
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[2,1,3]}'
    ),
    f"{TOPIC}/partitions/1/state": (
        b'{"controller_epoch":4,"leader":3,"version":1,"leader_epoch":7,"isr":[3]}'
    ),
}
IDS = {"/brokers/ids": ["3", "1", "2"]}
WHOLE = {
    0: PartitionView(
        partition=0,
        leader="b1",
        leader_epoch=0,
        members=("b1", "b2", "b3"),
        replicas=("b1", "b2", "b3"),
    ),
    1: PartitionView(
        partition=1, leader="b3", leader_epoch=7, members=("b3",), replicas=("b2", "b3", "b1")
    ),
}


def observed(
    monkeypatch: pytest.MonkeyPatch,
    znodes: Mapping[str, bytes] = ZNODES,
    ids: Mapping[str, list[str]] = IDS,
) -> NodeView | None:
    def get(address: str, path: str, *, timeout_s: float) -> bytes | None:
        assert address == SERVER.address
        return znodes.get(path)

    monkeypatch.setattr(asking, "get", get)
    monkeypatch.setattr(asking, "children", lambda _, path, *, timeout_s: ids.get(path, []))
    return zookeeper.observe_each(SERVER, [PLAN], timeout_s=1)[0]


def partitions(view: NodeView | None) -> dict[int, PartitionView]:
    assert view is not None
    return {p.partition: p for p in view.partitions}


def test_a_server_is_the_authority_on_leaders_and_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = observed(monkeypatch)
    assert partitions(view) == WHOLE
    assert view is not None
    assert (view.answered_by, view.authority) == ("z1", True)
    assert (view.controller, view.controller_epoch) == ("b3", 4)


def test_a_partition_that_is_offline_has_no_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """As 2.8.2 writes it: the leader is -1."""
    state = b'{"controller_epoch":2,"leader":-1,"version":1,"leader_epoch":1,"isr":[1]}'
    reported = partitions(observed(monkeypatch, {**ZNODES, f"{TOPIC}/partitions/0/state": state}))
    assert (reported[0].leader, reported[0].leader_epoch, reported[0].members) == (None, 1, ("b1",))
    assert reported[1] == WHOLE[1]


def test_a_leader_whose_session_is_over_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.8.2.2 leaves it in the znode until another one was chosen."""
    reported = partitions(observed(monkeypatch, ids={"/brokers/ids": ["2", "3"]}))
    assert reported[0].leader is None
    assert reported[0].members == ("b1", "b2", "b3")
    assert reported[1] == WHOLE[1]


def test_a_partition_without_state_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller has not taken it up yet."""
    znodes = {path: data for path, data in ZNODES.items() if "/0/" not in path}
    assert partitions(observed(monkeypatch, znodes)) == {1: WHOLE[1]}


def test_an_empty_server_answers_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert observed(monkeypatch, {}, {}) == NodeView(answered_by="z1", authority=True)


def test_what_is_no_json_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert observed(monkeypatch, {**ZNODES, "/controller": b"{"}) is None


def test_the_first_server_that_answers_is_reported() -> None:
    names = {"b1": "broker", "z1": "zookeeper", "z2": "zookeeper", "z3": "zookeeper"}
    nodes = {name: DryRunNode(name, frozenset({role}), name) for name, role in names.items()}
    asked: list[str] = []

    def tell(address: str) -> None:
        asked.append(address)
        if address in deaf:
            raise NoAnswer(f"{address} is deaf")

    deaf = {"z1"}
    zookeeper.by_first_server(nodes, tell)
    assert asked == ["z1", "z2"]
    deaf = {"z1", "z2", "z3"}
    with pytest.raises(NoAnswer, match="z3 is deaf"):
        zookeeper.by_first_server(nodes, tell)
    with pytest.raises(NoAnswer, match="no ZooKeeper server"):
        zookeeper.by_first_server({"b1": nodes["b1"]}, tell)


def test_the_topics_settings_are_written_before_the_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The controller takes the topic up as soon as it is there."""
    written: list[tuple[str, Any]] = []

    def create(address: str, path: str, data: bytes, *, timeout_s: float) -> None:
        written.append((path, orjson.loads(data)))

    monkeypatch.setattr(asking, "create", create)
    settings = {"min.insync.replicas": 2, "unclean.leader.election.enable": False}
    topic = PLAN.topic.model_copy(update={"settings": settings, "leaders": "one"})
    cluster = type("One", (), {"nodes": {"z1": SERVER}})()
    zookeeper.create_topic(cluster, PLAN.model_copy(update={"topic": topic}), deadline=0)
    name = PLAN.topic.name
    strings = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
    assert written == [
        (f"/config/topics/{name}", {"version": 1, "config": strings}),
        (
            f"/brokers/topics/{name}",
            {"version": 1, "partitions": {"0": [1, 2, 3], "1": [1, 2, 3]}},
        ),
    ]


class Topics:
    """A server that has these topics; each query sees the next of the run's removed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *there: str, stays: str = "") -> None:
        self.nodes = {"z1": SERVER}
        self.there, self.stays = list(there), stays
        self.written: list[tuple[str, bytes | None]] = []
        self.answers = True
        monkeypatch.setattr(asking, "create", self._create)
        monkeypatch.setattr(asking, "delete", self._delete)
        monkeypatch.setattr(asking, "children", self._children)
        monkeypatch.setattr(zookeeper, "_DELETE_S", 0.5)

    def _create(self, address: str, path: str, data: bytes, *, timeout_s: float) -> None:
        if not self.answers:
            self.answers = True
            raise NoAnswer("is starting")
        self.written.append((path, data))

    def _delete(self, address: str, path: str, *, timeout_s: float) -> None:
        self.written.append((path, None))

    def _children(self, address: str, path: str, *, timeout_s: float) -> list[str]:
        assert path == "/brokers/topics"
        there = list(self.there)
        gone = [name for name in there if name.startswith("run") and name != self.stays]
        self.there = [name for name in there if name not in gone[:1]]
        return there


@pytest.mark.parametrize("answers", [True, False])
def test_topics_are_deleted_and_a_controller_is_elected_once_they_are_gone(
    monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    world = Topics(monkeypatch, "run-a", "run-b", "other")
    world.answers = answers
    zookeeper.forget(world, ["run-a", "run-b"])  # type: ignore[arg-type]
    assert world.there == ["other"]
    assert world.written == [
        ("/admin/delete_topics/run-a", b""),
        ("/admin/delete_topics/run-b", b""),
        ("/controller", None),
    ]


def test_a_topic_that_stays_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Topics(monkeypatch, "run-a", "run-b", stays="run-b")
    with pytest.raises(HarnessFailure, match="the topic run-b could not be deleted"):
        zookeeper.forget(world, ["run-a", "run-b"])  # type: ignore[arg-type]
