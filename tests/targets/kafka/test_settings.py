"""Who is asked for the settings in force, and what is said of those who cannot be asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsRequest

from harness import registry
from harness.errors import PlanError
from harness.faults.own_traffic import NoAnswer
from harness.plan import parse_plan
from harness.protocols import Node
from targets.kafka import brokers, effective
from tests.fixtures.dry_run import DryRunNode

LAG = "replica.lag.time.max.ms"


NODES: dict[str, Node] = {
    name: DryRunNode(name, frozenset(roles), name)
    for name, roles in (
        ("b1", {"broker"}),
        ("b2", {"broker", "controller"}),
        ("c1", {"controller"}),
    )
}
"""A broker, a controller, and a broker that is a controller too."""


def reported(version: str, lag: str = "1000", **of_brokers: int) -> dict[str, Any]:
    """What is reported by nodes of which the controller alone does not answer."""
    target = {"version": version, "brokers": 2, "controllers": 1, "settings": of_brokers}
    topic = {"replication_factor": 2}
    plan: Any = parse_plan({"schema": 1, "name": "p", "target": target, "topic": topic})

    def ask(node: str, request: Any, *, timeout_s: float) -> Any:
        if node == "c1":
            raise NoAnswer(f"{node} closed the connection after {timeout_s} s")
        if isinstance(request, ApiVersionsRequest):
            return SimpleNamespace(finalized_features=[], supported_features=[])
        own = request.resources[0].resource_type == brokers.BROKER
        configs = [SimpleNamespace(name=LAG, value=lag, config_type=1)] if own else []
        return SimpleNamespace(results=[SimpleNamespace(error_code=0, configs=configs)])

    return effective.reported(ask, NODES, plan)


def test_controllers_before_3_7_are_not_asked_and_that_is_said() -> None:
    found = reported("3.6.2", **{LAG: 1000})
    assert found["settings"]["broker"] == {LAG: "1000"}
    (sentence,) = found["warnings"]
    assert "c1: not compared" in sentence
    assert "b2" not in sentence
    assert reported("3.6.2")["warnings"] == []


def test_controllers_since_3_7_are_asked() -> None:
    with pytest.raises(TimeoutError, match="not reported: c1"):
        reported("3.7.2", **{LAG: 1000})


def test_brokers_are_compared_whatever_the_version() -> None:
    with pytest.raises(PlanError, match="b1 has '500', but '1000' was requested"):
        reported("3.6.2", "500", **{LAG: 1000})


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
