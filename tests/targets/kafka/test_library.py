"""Which client writes, whom it asks first, and who reads after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import PlanError
from harness.plan import Plan, parse_plan
from harness.protocols import ImageRef, Ingredients
from targets.kafka.clients import LIBRARIES, library_of
from targets.kafka.clients.java import Java
from targets.kafka.clients.library import CONFLUENT, KAFKA_PYTHON, bootstrap_of, readers
from targets.kafka.clients.nodes import client_names, client_nodes
from targets.kafka.eras import era_of
from targets.kafka.reuse import cluster_key

BROKERS = "198.18.0.11:9092,198.18.0.12:9092"


def plan_for(**workload: Any) -> Plan:
    return parse_plan({"schema": 1, "name": "t", "workload": workload})


def test_every_client_asks_every_broker_or_one_of_its_own() -> None:
    assert {bootstrap_of(n, BROKERS, plan_for()) for n in range(3)} == {BROKERS}
    own = plan_for(bootstrap="own")
    first, second = BROKERS.split(",")
    assert [bootstrap_of(n, BROKERS, own) for n in range(3)] == [first, second, first]


def test_a_plan_names_its_client() -> None:
    assert library_of(plan_for()) is library_of(plan_for(client="librdkafka"))
    with pytest.raises(PlanError, match="Kafka has no client 'nobody'") as told:
        library_of(plan_for(client="nobody"))
    assert told.value.key == "workload.client"
    assert all(name in (told.value.hint or "") for name in LIBRARIES)


def test_the_final_read_begins_with_who_did_not_write() -> None:
    assert readers(CONFLUENT) == (KAFKA_PYTHON, CONFLUENT)
    assert readers(KAFKA_PYTHON) == (CONFLUENT, KAFKA_PYTHON)
    assert readers(None) == (CONFLUENT, KAFKA_PYTHON)


def test_java_clients_are_nodes_and_others_are_not() -> None:
    plan = plan_for(client="java", clients=2)
    assert (client_names(plan), client_names(plan_for())) == (["k1", "k2"], [])
    assert isinstance(library_of(plan), Java)
    ingredients = Ingredients(
        image=ImageRef(reference="x", id="x"),
        files={"driver.jar": b"jar"},
        mounts={Path("/cache/kafka.jsa"): "/opt/kafka.jsa"},
    )
    first, second = client_nodes(plan, era_of("4.3.1"), ingredients)
    assert (first.name, second.name) == ("k1", "k2")
    assert first.roles == {"client"}
    assert first.files["driver.jar"] == b"jar"
    assert "-XX:SharedArchiveFile=/opt/kafka.jsa" in first.argv
    path = first.argv[list(first.argv).index("-cp") + 1]
    assert path.endswith("/libs/*:/var/lib/ackloss/driver.jar")


def test_a_cluster_with_nodes_of_clients_is_another_cluster() -> None:
    keys = [{"client": "java"}, {"client": "java", "clients": 2}, {}, {"clients": 2}]
    java, fewer, plain, same = (cluster_key(plan_for(**workload)) for workload in keys)
    assert len({java, fewer, plain}) == 3
    assert plain == same


@pytest.mark.parametrize(
    ("target", "workload", "key"),
    [
        ({"version": "1.1.1"}, {}, "workload.client"),
        ({"version": "4.3.1"}, {"clients": 10}, "workload.clients"),
        ({"version": "4.3.1"}, {"producer": {"plugin.library.paths": "x"}}, None),
    ],
)
def test_java_refuses_what_it_cannot(
    target: dict[str, Any], workload: dict[str, Any], key: str | None
) -> None:
    document = {"schema": 1, "name": "t", "target": target, "workload": workload}
    with pytest.raises(PlanError) as told:
        Java().check(parse_plan(document))
    assert told.value.key == (key or 'workload.producer."plugin.library.paths"')
    Java().check(parse_plan({"schema": 1, "name": "t", "target": {"version": "2.0.1"}}))


def test_the_java_client_is_named_with_its_version() -> None:
    named = {"schema": 1, "name": "t", "target": {"version": "3.9.2"}}
    assert Java().software(parse_plan(named)) == "kafka-clients 3.9.2 (Java)"
    image = {**named, "target": {"image": "apache/kafka:4.1.0"}}
    assert Java().software(parse_plan(image)) == "kafka-clients of apache/kafka:4.1.0 (Java)"
