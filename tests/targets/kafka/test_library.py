"""Which client writes, whom it asks first, and who reads after it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import PlanError
from harness.plan import Plan, parse_plan
from targets.kafka.clients import LIBRARIES, library_of
from targets.kafka.clients.library import bootstrap_of

BROKERS = "198.18.0.11:9092,198.18.0.12:9092"


def plan_for(**workload: Any) -> Plan:
    return parse_plan({"schema": 1, "name": "t", "workload": workload})


def versioned(version: str, **workload: Any) -> Plan:
    target = {"version": version}
    return parse_plan({"schema": 1, "name": "t", "target": target, "workload": workload})


def test_every_client_asks_every_broker_or_one_of_its_own() -> None:
    assert {bootstrap_of(n, BROKERS, plan_for()) for n in range(3)} == {BROKERS}
    own = plan_for(bootstrap="own")
    first, second = BROKERS.split(",")
    assert [bootstrap_of(n, BROKERS, own) for n in range(3)] == [first, second, first]


def test_a_plan_names_its_client() -> None:
    assert library_of(plan_for()) is library_of(plan_for(client="librdkafka"))
    with pytest.raises(PlanError, match="Kafka has no client 'nobody'") as refused:
        library_of(plan_for(client="nobody"))
    assert refused.value.key == "workload.client"
    assert all(name in (refused.value.hint or "") for name in LIBRARIES)


@pytest.mark.parametrize(
    ("version", "fallback"),
    [("0.8.0", "0.8.0"), ("0.8.1.1", "0.8.1"), ("0.8.2.2", "0.8.2"), ("0.9.0.1", "0.9.0")],
)
@pytest.mark.parametrize("client", ["librdkafka", "kafka-python"])
def test_clients_are_configured_for_what_old_brokers_speak(
    client: str, version: str, fallback: str
) -> None:
    plan = versioned(version, client=client)
    library_of(plan).check(plan)
    shown = library_of(plan).settings(plan)
    assert shown["api.version.request"] == "false"
    assert shown["broker.version.fallback"] == fallback
    assert shown.get("log_level") == ("2" if client == "librdkafka" else None)


@pytest.mark.parametrize("client", ["librdkafka", "kafka-python"])
def test_from_0_10_on_they_ask(client: str) -> None:
    plan = versioned("0.10.0.1", client=client)
    shown = library_of(plan).settings(plan)
    assert not {"api.version.request", "broker.version.fallback", "log_level"} & shown.keys()
