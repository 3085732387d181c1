"""What plans may ask of faults of single requests, and who is met."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness import registry
from harness.errors import PlanError
from harness.faults.records import ProtocolRecord, from_document, to_document
from harness.plan import parse_plan
from harness.run.resolving import resolve
from tests.fixtures.chosen_acts import acts


def record(**options: Any) -> ProtocolRecord:
    (act,) = acts("protocol", "node:b1", **options)
    assert isinstance(act.record, ProtocolRecord)
    return act.record


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"met_share": 0}, "met_share: 0 is not allowed here; use more than 0"),
        ({"first_count": -1}, "first_count: -1 is not allowed here; use 0 or more"),
        ({"act": "delay", "delay_ms": -1}, "delay_ms: -1 is not allowed here; use 0 or more"),
        ({"delay_ms": 10}, "delay_ms is of a delay"),
        ({"act": "error"}, "code names the error"),
        ({"act": "duplicate", "side": "answer"}, "requests are sent twice"),
        ({"topic": "a,b"}, "one word each"),
        ({"path": "a"}, "path begins with /"),
        ({"peers": "role:"}, "role:"),
        ({"act": "mangle"}, "count"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(PlanError, match=why):
        registry.make("nemeses", "protocol", options, key="faults.0.nemesis")


def test_answers_are_met_unless_the_act_is_about_requests() -> None:
    assert record().side == "answer"
    assert record(act="count").side == "request"
    assert record(act="duplicate").side == "request"
    assert record(act="drop", side="request").side == "request"


def test_one_api_or_several_or_any() -> None:
    assert record().apis == ()
    assert record(api="Produce").apis == ("Produce",)
    assert record(api=["Produce", "Fetch"]).apis == ("Produce", "Fetch")


def test_who_asks_is_anybody_a_selector_or_whoever_is_no_node_of_the_system() -> None:
    assert (record().peers, record().others) == ((), ())
    assert [peer.name for peer in record(peers="role:broker").peers] == ["b1", "b2", "b3"]
    clients = record(peers="clients")
    assert [peer.name for peer in clients.others] == ["b1", "b2", "b3", "c1"]
    assert clients.peers == ()


def test_peers_that_there_are_not_are_not_anybody() -> None:
    assert acts("protocol", "node:b1", peers="role:observer") == []


def test_its_selectors_are_those_of_nodes() -> None:
    for options, found in (
        ({}, {}),
        ({"peers": "clients"}, {}),
        ({"peers": "all"}, {"peers": "all"}),
    ):
        made = registry.make("nemeses", "protocol", options, key="nemesis")
        assert made.selectors == found


def test_a_record_comes_back_from_the_journal() -> None:
    for options in ({}, {"act": "delay", "delay_ms": 9}, {"peers": "clients", "met_share": 0.5}):
        made = replace(record(**options), fault="x")
        document = to_document(made)
        assert "code" not in document
        others = [vars(peer) for peer in made.others]
        assert from_document(ProtocolRecord, {**document, "others": others}) == made


def plan(version: str = "4.3.1", **options: Any) -> Any:
    step = {"id": "x", "nemesis": "protocol", "nodes": "leader", **options}
    target: dict[str, Any] = {"system": "kafka", "version": version}
    return parse_plan({"schema": 1, "name": "one", "target": target, "faults": [step]})


@pytest.mark.parametrize(
    ("version", "options", "key", "why"),
    [
        ("4.3.1", {"api": "Produced"}, "api", "no API 'Produced'; did you mean 'Produce'"),
        ("4.3.1", {"api": "LeaderAndIsr"}, "api", "4.3.1 in kraft mode does not have the API"),
        ("2.8.2", {"api": "DescribeTransactions"}, "api", "2.8.2 in zookeeper mode does not have"),
        (
            "4.3.1",
            {"api": "Produce", "code": "NOT_ENOUGH_REPLICA"},
            "code",
            "did you mean 'NOT_ENOUGH_REPLICAS'",
        ),
        (
            "4.3.1",
            {"api": "Produce", "code": "ILLEGAL_GENERATION"},
            "code",
            "the response to Produce does not carry ILLEGAL_GENERATION",
        ),
        (
            "4.3.1",
            {"api": "CreateTopics", "code": "CORRUPT_MESSAGE"},
            "code",
            "which errors the response to CreateTopics carries is not known to ackloss; "
            "choose one of UNKNOWN, UNKNOWN_SERVER_ERROR",
        ),
        ("4.3.1", {"code": "NOT_ENOUGH_REPLICAS"}, "code", "name the api"),
        ("2.8.2", {"api": "Produce", "code": "NOT_ENOUGH_REPLICAS"}, "code", "needs Kafka 3.0"),
        ("2.8.2", {"api": "Produce", "topic": "t"}, "topic", "needs Kafka 3.0"),
        ("4.3.1", {"api": "Produce", "path": "/t"}, "path", "Kafka has no paths"),
    ],
)
def test_what_a_version_lacks_is_refused(
    version: str, options: dict[str, Any], key: str, why: str
) -> None:
    act = {"act": "error"} if "code" in options else {}
    with pytest.raises(PlanError) as refused:
        resolve(plan(version, **options, **act))
    assert refused.value.key == f"faults.x.{key}"
    assert why in str(refused.value)
    assert refused.value.exit_code == 4


@pytest.mark.parametrize(
    ("version", "options"),
    [
        ("4.3.1", {}),
        ("2.8.2", {"api": "LeaderAndIsr"}),
        ("0.8.2.2", {"api": "Produce", "act": "drop"}),
        ("3.9.2", {"api": "EndTxn", "act": "error", "code": "INVALID_TXN_STATE"}),
        ("4.3.1", {"api": "Heartbeat", "act": "error", "code": "ILLEGAL_GENERATION"}),
        ("4.3.1", {"api": "Produce", "act": "error", "code": "NOT_LEADER_OR_FOLLOWER"}),
    ],
)
def test_what_it_has_is_taken(version: str, options: dict[str, Any]) -> None:
    assert resolve(plan(version, **options)).steps


def test_a_mix_is_checked_too() -> None:
    mix = {"families": [{"nemesis": "protocol", "api": "Produced"}]}
    target = {"system": "kafka", "version": "4.3.1"}
    with pytest.raises(PlanError, match=r"mix.families.0.api"):
        resolve(parse_plan({"schema": 1, "name": "one", "target": target, "mix": mix}))


def test_another_system_offers_no_such_lever() -> None:
    step = {"id": "x", "nemesis": "protocol"}
    document = {"schema": 1, "name": "one", "target": {"system": "memory"}, "faults": [step]}
    with pytest.raises(PlanError, match="needs the lever 'protocol'"):
        resolve(parse_plan({**document, "cluster": {"kind": "memory"}}))
