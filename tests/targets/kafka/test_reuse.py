"""What a run leaves on a kept cluster is removed: all of its topics at once; Kafka's own are led by
the same brokers before each run."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.protocol.admin import DeleteTopicsResponse

from harness.errors import HarnessFailure
from harness.faults.own_traffic import NoAnswer
from harness.plan import parse_plan
from harness.protocols import Completed, NodeView, PartitionView
from harness.run.cells import cell_plans
from targets.kafka import kraft
from targets.kafka import target as plug_in
from targets.kafka.target import Kafka

BUSY, UNKNOWN = 41, 3
PLAN = parse_plan({"schema": 1, "name": "x", "cells": [{"name": "a"}, {"name": "b"}]})
CELLS: Any = [cell.plan for cell in cell_plans(PLAN, Kafka())]

ALIVE = """\
[2026-11-26 01:37:14,525] INFO [RequestSendThread controllerId=2] Stopped
[2026-11-26 01:40:32,597] INFO [ReplicaFetcher replicaId=3, leaderId=1, fetcherId=0] Error sending
[2026-11-25 21:31:02,726] ERROR [ReplicaFetcher replicaId=3, leaderId=1, fetcherId=0] Error for
[2026-11-25 21:31:19,676] INFO [ReplicaFetcher replicaId=1, leaderId=3, fetcherId=0] Stopped
"""
DIED = (
    "[2026-11-26 01:37:21,569] ERROR [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] "
    "Error due to (kafka.server.ReplicaFetcherThread)\n"
)
"""Of logs of Kafka 1.1.1: of fetchers that live on or were stopped, and of one that died."""


class Node:
    def __init__(self, name: str) -> None:
        self.name, self.address, self.roles = name, name, frozenset({"broker"})
        self.commands: list[Sequence[str]] = []
        self.log = ALIVE

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        self.commands.append(argv)
        if argv[0] != "grep":
            return Completed(0, "")
        *words, path = argv
        assert path == "/var/lib/ackloss/log/server.log"
        done = subprocess.run(words, input=self.log, capture_output=True, text=True, check=False)
        return Completed(done.returncode, done.stdout)


class World:
    """A cluster whose brokers answer so, by topic, each time with the next codes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: dict[str, int] | None) -> None:
        self.nodes = {name: Node(name) for name in ("b1", "b2")}
        self.asked: list[tuple[str, list[str]]] = []
        self._answers = list(answers)
        monkeypatch.setattr(kraft, "ask", self._ask)
        monkeypatch.setattr(kraft, "_DELETE_S", 0.5)

    def _ask(self, address: str, port: int, request: Any, *, timeout_s: float) -> Any:
        self.asked.append((address, list(request.topic_names)))
        codes = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if codes is None:
            raise NoAnswer("refused")
        kind = DeleteTopicsResponse.DeletableTopicResult
        reported = [
            kind(name=name, error_code=codes[name]) for name in request.topic_names if name in codes
        ]
        return DeleteTopicsResponse[3](responses=reported)


def test_a_cluster_is_up_once_every_controller_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers come up with two of three: a fault would meet a quorum that is not complete, and the
    settings of the third were asked of nobody."""
    nodes, silent = {name: Node(name) for name in ("b1", "c1", "c2", "c3")}, {"c3"}
    for name in ("c1", "c2", "c3"):
        nodes[name].roles = frozenset({"controller"})
    answer = SimpleNamespace(brokers=[1])
    monkeypatch.setattr(kraft.brokers, "metadata", lambda *_, **__: answer)

    def seen(node: Any, plans: Sequence[Any], **_: Any) -> list[NodeView | None]:
        return [None if node.name in silent else NodeView(answered_by=node.name) for _ in plans]

    monkeypatch.setattr(kraft, "observe_each", seen)
    cluster: Any = SimpleNamespace(nodes=nodes)
    with pytest.raises(TimeoutError, match="controller c3 does not answer"):
        kraft.await_brokers(cluster, CELLS[0], time.monotonic() + 0.01)
    silent.clear()
    kraft.await_brokers(cluster, CELLS[0], time.monotonic() + 0.01)


def test_the_topics_of_all_cells_are_deleted_in_one_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, {"ackloss-a": 0, "ackloss-b": UNKNOWN})
    plug_in.Kafka().forget(cast("Any", world), CELLS)
    assert world.asked == [("b1", ["ackloss-a", "ackloss-b"])]
    programs = [[argv[0] for argv in node.commands] for node in world.nodes.values()]
    assert programs == [["grep", "find"]] * 2


def test_only_what_is_left_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, None, {"ackloss-a": 0, "ackloss-b": BUSY}, {}, {"ackloss-b": 0})
    plug_in.Kafka().forget(cast("Any", world), CELLS)
    both = ["ackloss-a", "ackloss-b"]
    assert [names for _, names in world.asked] == [both, both, ["ackloss-b"], ["ackloss-b"]]


@pytest.mark.parametrize(
    ("target", "workload", "is_kept"),
    [
        ({"version": "0.10.2.2"}, "append", False),
        ({"version": "0.11.0.3"}, "append", True),
        ({"version": "2.8.2"}, "append", True),
        ({"version": "3.9.2", "metadata": "zookeeper"}, "append", True),
        ({"version": "3.9.2", "settings": {"delete.topic.enable": False}}, "append", False),
        ({"combined": True, "controllers": 3}, "append", False),
        ({"combined": True, "controllers": 1}, "append", True),
        ({}, "append", True),
        ({"version": "3.9.2"}, "consume", True),
        ({"version": "2.8.2"}, "consume", False),  # with ZooKeeper one of groups serves one run
    ],
)
def test_a_cluster_serves_several_runs_if_the_next_one_meets_it_as_the_first_did(
    target: dict[str, Any], workload: str, is_kept: bool
) -> None:
    document = {"schema": 1, "name": "x", "target": target, "workload": {"name": workload}}
    plan: Any = parse_plan(document)
    assert (plug_in.Kafka().cluster_key(plan) is not None) == is_kept


def test_a_topic_that_stays_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, {"ackloss-a": 0, "ackloss-b": BUSY})
    with pytest.raises(HarnessFailure, match="ackloss-b could not be deleted: NotController"):
        plug_in.Kafka().forget(cast("Any", world), CELLS)


def test_a_cluster_on_which_a_replica_fetcher_died_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a broker takes part in nothing that the other leads, for as long as it runs."""
    world = World(monkeypatch, {})
    world.nodes["b2"].log = ALIVE + DIED
    with pytest.raises(HarnessFailure, match=r"b2 no longer replicates: .* Error due to"):
        plug_in.Kafka().forget(cast("Any", world), CELLS)


GROUPS: Any = parse_plan({"schema": 1, "name": "x", "workload": {"name": "consume"}})
BROKERS = ("b1", "b2", "b3")
WHOLE, CUT = BROKERS, ("b2", "b3")


def partition(number: int, leader: str, in_sync: tuple[str, ...]) -> PartitionView:
    return PartitionView(
        partition=number, leader=leader, leader_epoch=1, members=in_sync, replicas=BROKERS
    )


class Fake:
    """A cluster with KRaft whose `__consumer_offsets` has two partitions, and each time the next of
    these ISRs; without `existing` no topic of Kafka's own is there."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *in_sync: tuple[str, ...],
        existing: bool = True,
        refused: Mapping[int, str] | None = None,
    ) -> None:
        node = {"roles": frozenset({"broker"}), "process": lambda: SimpleNamespace(running=True)}
        self.nodes: Any = {name: SimpleNamespace(name=name, **node) for name in BROKERS}
        self.elected: list[tuple[str, list[int]]] = []
        self._in_sync, self._existing, self._refused = list(in_sync), existing, refused or {}
        monkeypatch.setattr(plug_in, "mode_of", lambda plan: self)
        monkeypatch.setattr(plug_in, "observe", self.observe)
        monkeypatch.setattr(plug_in, "_WITHIN_S", 1.0)

    def observe(self, node: Any, plan: Any, *, timeout_s: float) -> NodeView:
        there = self._existing and plan.topic.name == "__consumer_offsets"
        in_sync = self._in_sync.pop(0) if len(self._in_sync) > 1 else self._in_sync[0]
        parts = tuple(partition(number, "b2", in_sync) for number in range(2)) if there else ()
        return NodeView(answered_by=node.name, partitions=parts)

    def leadership(self, nodes: Any, plan: Any) -> Fake:
        self.topic = plan.topic.name
        return self

    def elect(self, partitions: Sequence[int]) -> Mapping[int, str]:
        self.elected.append((self.topic, list(partitions)))
        return self._refused


def test_its_first_leaders_are_elected_again_once_all_replicas_are_in_sync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = Fake(monkeypatch, CUT, CUT, WHOLE)
    plug_in.restore_leaders(cast("Any", fake), GROUPS)
    assert fake.elected == [("__consumer_offsets", [0, 1])]


def test_a_replica_that_stays_out_of_sync_makes_the_cluster_unusable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = Fake(monkeypatch, CUT)
    with pytest.raises(TimeoutError, match=r"partition 0: leader b2, ISR \['b2', 'b3'\]"):
        plug_in.restore_leaders(cast("Any", fake), GROUPS)
    assert fake.elected == []


def test_an_election_that_is_refused_makes_the_cluster_unusable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = Fake(monkeypatch, WHOLE, refused={1: "PREFERRED_LEADER_NOT_AVAILABLE"})
    with pytest.raises(HarnessFailure, match="partition 1: no election: PREFERRED_LEADER"):
        plug_in.restore_leaders(cast("Any", fake), GROUPS)


def test_without_topics_of_its_own_nothing_is_elected(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(monkeypatch, WHOLE, existing=False)
    plug_in.restore_leaders(cast("Any", fake), GROUPS)
    assert fake.elected == []


@pytest.mark.parametrize(
    ("workload", "concerned"), [("append", False), ("consume", True), ("transactions", True)]
)
def test_runs_for_which_kafka_makes_topics_restore_their_leaders(
    workload: str, concerned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored: list[Any] = []
    fake = SimpleNamespace(forget=lambda *_: None)
    monkeypatch.setattr(plug_in, "mode_of", lambda _: fake)
    monkeypatch.setattr(plug_in, "restore_leaders", lambda _, plan: restored.append(plan))
    plan: Any = parse_plan({"schema": 1, "name": "x", "workload": {"name": workload}})
    plug_in.Kafka().forget(cast("Any", SimpleNamespace(nodes={})), [plan])
    assert restored == ([plan] if concerned else [])
