"""Consumers in nodes: one whose node a fault keeps dead waits until the node runs again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.faults.records import ConsumerRecord, ProcessRecord
from harness.levers.client import ConsumerLever
from harness.levers.commands import poll_until
from harness.levers.process import ProcessLever
from targets.kafka.groups import group as groups
from targets.kafka.groups.group import KafkaConsumers
from tests.fixtures.noted_deaths import KilledNode


class Member:
    """A life in a node: it starts the node, and leaves at once."""

    leaving = paused = False

    def __init__(self, node: KilledNode, _: object, *, life: int, **__: object) -> None:
        self.life, self.alive = life, True
        node.start()

    def send(self, _: object) -> None:
        self.alive = False


def test_a_consumer_does_not_start_a_node_that_another_fault_keeps_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = KilledNode("m1", frozenset({"consumer"}), "198.18.0.11")
    monkeypatch.setattr(groups, "JavaMember", Member)
    monkeypatch.setattr(groups, "_AWAY_S", 0.01)
    monkeypatch.setattr(KafkaConsumers, "_setup", lambda *_: {})
    workload = SimpleNamespace(consumer_client="java")
    plan: Any = SimpleNamespace(workload=workload, cell=None)
    cluster: Any = SimpleNamespace(nodes={"m1": node}, run_id="r")
    group: Any = SimpleNamespace(members_count=1)
    consumers = KafkaConsumers(cluster, plan, group, lambda _: None)
    consumers.start()
    lever, killing = ConsumerLever([consumers]), ProcessLever({"m1": node})
    leave = lever.capture_prior_state(
        ConsumerRecord(node="consumer-1", fault="leave", consumer=1, action="leave")
    )
    kill = ProcessRecord(node="m1", fault="kill", signal="KILL", pid=node.pid())
    lever.apply(leave)
    killing.apply(kill)
    lever.undo(leave)
    assert not node.running, "the kill keeps it dead"
    proof = lever.probe(leave, applied=False)
    assert proof.proven
    assert "its node is kept dead by kill" in proof.evidence[0]
    assert killing.probe(kill, applied=True).proven
    killing.undo(kill)
    assert poll_until(lambda: consumers.state(1).life == 2, within_s=5)
