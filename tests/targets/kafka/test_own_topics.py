"""Kafka's own topics on a kept cluster are led by the same brokers before each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import HarnessFailure
from harness.plan import parse_plan
from harness.protocols import NodeView, PartitionView
from targets.kafka import reuse

PLAN: Any = parse_plan({"schema": 1, "name": "x", "workload": {"name": "consume"}})
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
        monkeypatch.setattr(reuse, "mode_of", lambda plan: self)
        monkeypatch.setattr(reuse, "observe", self.observe)
        monkeypatch.setattr(reuse, "_WITHIN_S", 1.0)

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
    reuse.restore_leaders(fake, PLAN)  # type: ignore[arg-type]
    assert fake.elected == [("__consumer_offsets", [0, 1])]


def test_a_replica_that_stays_out_of_sync_makes_the_cluster_unusable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = Fake(monkeypatch, CUT)
    with pytest.raises(TimeoutError, match=r"partition 0: leader b2, ISR \['b2', 'b3'\]"):
        reuse.restore_leaders(fake, PLAN)  # type: ignore[arg-type]
    assert fake.elected == []


def test_an_election_that_is_refused_makes_the_cluster_unusable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = Fake(monkeypatch, WHOLE, refused={1: "PREFERRED_LEADER_NOT_AVAILABLE"})
    with pytest.raises(HarnessFailure, match="partition 1: no election: PREFERRED_LEADER"):
        reuse.restore_leaders(fake, PLAN)  # type: ignore[arg-type]


def test_without_topics_of_its_own_nothing_is_elected(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(monkeypatch, WHOLE, existing=False)
    reuse.restore_leaders(fake, PLAN)  # type: ignore[arg-type]
    assert fake.elected == []


@pytest.mark.parametrize(
    ("workload", "concerned"), [("append", False), ("consume", True), ("transactions", True)]
)
def test_runs_for_which_kafka_makes_topics_restore_their_leaders(
    workload: str, concerned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored: list[Any] = []
    fake = SimpleNamespace(forget=lambda *_: None)
    monkeypatch.setattr(reuse, "mode_of", lambda _: fake)
    monkeypatch.setattr(reuse, "restore_leaders", lambda _, plan: restored.append(plan))
    plan: Any = parse_plan({"schema": 1, "name": "x", "workload": {"name": workload}})
    reuse.forget(SimpleNamespace(nodes={}), [plan])  # type: ignore[arg-type]
    assert restored == ([plan] if concerned else [])
