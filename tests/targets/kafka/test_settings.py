"""Who is asked for the settings in force, and what is said of those who cannot be asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from harness import registry
from harness.errors import PlanError
from harness.faults.own_traffic import NoAnswer
from harness.plan import Plan, parse_plan
from harness.protocols import Node
from targets.kafka import brokers, effective
from tests.fixtures.dry_run import DryRunNode

LAG = "replica.lag.time.max.ms"


@dataclass
class Cluster:
    """A broker, a controller, and a broker that is a controller too."""

    nodes: dict[str, Node] = field(
        default_factory=lambda: {
            name: DryRunNode(name, frozenset(roles), name)
            for name, roles in (
                ("b1", {"broker"}),
                ("b2", {"broker", "controller"}),
                ("c1", {"controller"}),
            )
        }
    )


@dataclass
class Reported:
    """A setting as DescribeConfigs reports it."""

    value: str
    config_type: int = 1


def plan(version: str, **of_brokers: int) -> Plan:
    target = {"version": version, "brokers": 2, "controllers": 1, "settings": of_brokers}
    topic = {"replication_factor": 2}
    return parse_plan({"schema": 1, "name": "p", "target": target, "topic": topic})


def answers(monkeypatch: pytest.MonkeyPatch, silent: tuple[str, ...], lag: str = "1000") -> None:
    def configs(node: Any, _plan: Plan, kind: int, _name: str) -> dict[str, Any]:
        if node.name in silent:
            raise NoAnswer(f"{node.name} closed the connection")
        return {LAG: Reported(lag)} if kind == brokers.BROKER else {}

    monkeypatch.setattr(brokers, "configs", configs)
    monkeypatch.setattr(effective, "node_ids", lambda _: {"b1": 1, "b2": 2, "c1": 101})


def test_controllers_before_3_7_are_not_asked_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = plan("3.6.2", **{LAG: 1000})
    answers(monkeypatch, silent=("c1",))
    assert effective.reported(Cluster(), old)["broker"] == {LAG: "1000"}
    (sentence,) = effective.unreported(Cluster(), old)
    assert "c1: not compared" in sentence
    assert "b2" not in sentence
    assert effective.unreported(Cluster(), plan("3.6.2")) == []


def test_controllers_since_3_7_are_asked_and_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    new = plan("3.7.2", **{LAG: 1000})
    assert effective.unreported(Cluster(), new) == []
    answers(monkeypatch, silent=("c1",))
    with pytest.raises(NoAnswer, match="c1"):
        effective.reported(Cluster(), new)


def test_brokers_are_compared_whatever_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, silent=("c1",), lag="500")
    with pytest.raises(PlanError, match="b1 has '500', but '1000' was requested"):
        effective.reported(Cluster(), plan("3.6.2", **{LAG: 1000}))


def test_all_mistakes_of_a_plan_are_reported_at_once() -> None:
    wrong = parse_plan(
        {
            "schema": 1,
            "name": "p",
            "target": {
                "version": "4.4.0",
                "settings": {"log.dirs": "/x", "num.io.threads": "many"},
            },
            "topic": {"settings": {"min.insync.replicas": "two"}},
            "workload": {"producer": {"acks": "most"}},
        }
    )
    with pytest.raises(PlanError) as caught:
        registry.make("targets", "kafka", {}, key="", file="").check(wrong)
    assert [each.key for each in caught.value.every()] == [
        'target.settings."log.dirs"',
        'target.settings."num.io.threads"',
        'topic.settings."min.insync.replicas"',
        'workload.producer."acks"',
    ]
