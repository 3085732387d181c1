"""What reaches nodes and topic of a version that lacks a setting, and what its answer is compared
with."""

from __future__ import annotations

from typing import Any

import pytest

from harness.faults.own_traffic import NoAnswer
from harness.plan import Plan, parse_plan
from harness.protocols import ImageRef, Ingredients
from targets.kafka import brokers, zookeeper
from targets.kafka.target import Kafka

UNCLEAN, LEAST = "unclean.leader.election.enable", "min.insync.replicas"


class NoNodes:
    """A cluster that is never asked."""

    nodes: dict[str, Any] = {}  # noqa: RUF012


def plan(version: str, settings: dict[str, Any]) -> Plan:
    document = {
        "schema": 1,
        "name": "p",
        "target": {"version": version, "settings": settings},
        "topic": {"settings": settings},
    }
    return parse_plan(document)


def test_a_node_gets_no_key_that_only_says_what_it_does_anyway() -> None:
    asked = plan("3.9.2", {UNCLEAN: False, "inter.broker.protocol.version": "3.9"})
    harmless = plan("0.8.1.1", {UNCLEAN: True, LEAST: 1})
    vain = plan("0.8.1.1", {UNCLEAN: False, LEAST: 1})
    for each, there, absent in (
        (asked, [UNCLEAN, "inter.broker.protocol.version"], []),
        (harmless, [], [UNCLEAN, LEAST]),
        (vain, [UNCLEAN], [LEAST]),
    ):
        image = ImageRef(reference="kafka", id="x", version=each.target.version)
        names = Kafka().names(each)
        addresses = {name: f"198.18.0.{at}" for at, name in enumerate(names, 11)}
        for spec in Kafka().nodes(each, Ingredients(image=image), addresses):
            files = [name for name in spec.files if name.endswith("server.properties")]
            written = "".join(spec.files[name].decode() for name in files)
            assert all(f"{key}=" not in written for key in absent)
            assert not files or all(f"{key}=" in written for key in there)


def test_a_topic_is_made_without_such_keys_and_with_what_is_forced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Plan] = []
    monkeypatch.setattr(zookeeper, "await_brokers", lambda *_: None)
    monkeypatch.setattr(brokers, "await_whole", lambda *_: None)
    monkeypatch.setattr(zookeeper, "create_topic", lambda _, topic, __: made.append(topic))
    Kafka().bring_up(NoNodes(), plan("0.8.1.1", {UNCLEAN: True, LEAST: 2}), timeout_s=1)
    assert made[0].topic.settings == {LEAST: 2}


def test_what_was_forced_may_be_unreported_and_the_run_states_what_the_cluster_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[Plan] = []

    def reported(_: Any, __: Any, asked: Plan) -> dict[str, Any]:
        compared.append(asked)
        settings = {"broker": {}, "topic": {UNCLEAN: "true"}}
        return {"settings": settings, "features": {}, "warnings": []}

    monkeypatch.setattr("targets.kafka.effective.reported", reported)
    effective = Kafka().effective(NoNodes(), plan("3.8.1", {UNCLEAN: True, LEAST: 2}))
    assert compared[0].topic.settings == compared[0].target.settings == {LEAST: 2}
    assert [sentence.partition(":")[0] for sentence in effective["warnings"]] == [
        f'target.settings."{UNCLEAN}"',
        f'topic.settings."{UNCLEAN}"',
    ]
    assert effective["warnings"][1].endswith("it reports true, which proves nothing")


def test_a_node_that_tells_no_settings_is_one_that_has_not_come_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reported(*_: Any) -> dict[str, Any]:
        raise NoAnswer("198.18.0.11:9092: timed out")

    monkeypatch.setattr("targets.kafka.effective._reported", reported)
    with pytest.raises(TimeoutError, match=r"its settings were not reported: 198\.18\.0\.11:9092"):
        Kafka().effective(NoNodes(), plan("3.9.2", {}))
