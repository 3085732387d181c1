"""Settings of brokers that tell them by their start log alone, read from logs of real runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import PlanError
from harness.plan import parse_plan
from harness.protocols import Node
from targets.kafka.brokers import ask_of
from targets.kafka.effective import reported as reported_settings
from tests.fixtures.dry_run import DryRunNode

LOGS = Path(__file__).parent / "start_logs"
VERSIONS = ["0.8.2.2", "0.10.2.2"]


class Logged(DryRunNode):
    """A node with the start log of a version, and from an earlier start that of other settings."""

    def get(self, name: str) -> dict[str, bytes]:
        log = (LOGS / f"{self.address}.txt").read_bytes()
        return {"server.log": log, "server.log.1": log.replace(b" 1500", b" 6000")}


def effective(version: str, **asked: dict[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "schema": 1,
        "name": "x",
        "target": {"version": version, "brokers": 3, "settings": asked.get("broker", {})},
        "topic": {"replication_factor": 3, "settings": asked.get("topic", {})},
    }
    nodes: dict[str, Node] = {
        "b1": Logged("b1", frozenset({"broker"}), version),
        "z1": DryRunNode("z1", frozenset({"zookeeper"}), ""),
    }
    plan: Any = parse_plan(document)
    ask = ask_of(nodes, plan)
    found: dict[str, Any] = reported_settings(ask, nodes, plan)["settings"]
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_asked_is_found(version: str) -> None:
    reported = effective(
        version,
        broker={"replica.lag.time.max.ms": 1000, "auto.create.topics.enable": False},
        topic={"min.insync.replicas": 1, "unclean.leader.election.enable": True},
    )
    assert reported["broker"]["zookeeper.session.timeout.ms"] == "1500"
    assert reported["broker"]["log.dirs"] == "/var/lib/ackloss/data"
    assert reported["topic"]["segment.bytes"] == "1073741824", "another topic's settings were taken"
    assert reported["differs"] == {}


def test_settings_with_their_defaults_are_printed_from_0_9_on() -> None:
    assert "compression.type" not in effective("0.8.2.2")["broker"]
    reported = effective("0.10.2.2")["broker"]
    assert reported["compression.type"] == "producer"
    assert reported["authorizer.class.name"] == ""
    assert "environment:host.name" not in reported
    assert "host.name" not in reported


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("asked", "key", "what"),
    [
        (
            {"broker": {"replica.lag.time.max.ms": 3000}},
            'target.settings."replica.lag.time.max.ms"',
            "b1 has '1000', but '3000' was requested",
        ),
        (
            {"broker": {"replica.lag.time.max.msec": 3000}},
            'target.settings."replica.lag.time.max.msec"',
            "b1 does not know this setting",
        ),
        (
            {"topic": {"min.insync.replicas": 2}},
            'topic.settings."min.insync.replicas"',
            "the topic has '1', but '2' was requested",
        ),
        (
            {"topic": {"min.insync": 2}},
            'topic.settings."min.insync"',
            "the topic does not know this setting",
        ),
    ],
)
def test_a_difference_stops_the_run(
    version: str, asked: dict[str, dict[str, Any]], key: str, what: str
) -> None:
    with pytest.raises(PlanError) as refused:
        effective(version, **asked)
    assert (refused.value.key, refused.value.what) == (key, what)
