"""The Java client as a library: its nodes, its name, what it refuses before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import PlanError
from harness.plan import Plan, parse_plan
from harness.protocols import ImageRef, Ingredients
from harness.run.preview import dry_run
from harness.run.resolving import resolve
from targets.kafka.clients import library_of
from targets.kafka.clients.java import Java
from targets.kafka.target import Kafka
from targets.kafka.versions import release_line


def plan_for(**workload: Any) -> Plan:
    return parse_plan({"schema": 1, "name": "t", "workload": workload})


def test_java_clients_are_nodes_and_others_are_not() -> None:
    plan = plan_for(client="java", clients=2)
    assert library_of(plan).names(plan) == ["k1", "k2"]
    assert library_of(plan_for()).names(plan_for()) == []
    assert isinstance(library_of(plan), Java)
    ingredients = Ingredients(
        image=ImageRef(reference="x", id="x"),
        files={"driver.jar": b"jar"},
        mounts={Path("/cache/kafka.jsa"): "/opt/kafka.jsa"},
    )
    first, second = library_of(plan).nodes(plan, release_line("4.3.1"), ingredients)
    assert (first.name, second.name) == ("k1", "k2")
    assert first.roles == {"client"}
    assert first.files["driver.jar"] == b"jar"
    assert "-XX:SharedArchiveFile=/opt/kafka.jsa" in first.argv
    path = first.argv[list(first.argv).index("-cp") + 1]
    assert path.endswith("/libs/*:/var/lib/ackloss/driver.jar")


def test_a_cluster_with_nodes_of_clients_is_another_cluster() -> None:
    keys = [{"client": "java"}, {"client": "java", "clients": 2}, {}, {"clients": 2}]
    plans = [plan_for(**workload) for workload in keys]
    java, fewer, plain, same = (Kafka().cluster_key(plan) for plan in plans)
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
    with pytest.raises(PlanError) as refused:
        Java().check(parse_plan(document))
    assert refused.value.key == (key or 'workload.producer."plugin.library.paths"')
    Java().check(parse_plan({"schema": 1, "name": "t", "target": {"version": "2.0.1"}}))


def test_java_clients_are_killed_as_nodes_and_do_not_crash() -> None:
    crash = {"id": "x", "at_s": 1, "nemesis": "client"}
    document = {"schema": 1, "name": "t", "target": {"version": "4.3.1"}, "faults": [crash]}
    resolve(parse_plan(document))
    with pytest.raises(PlanError, match=r"k1, k2, k3.* are killed as nodes") as refused:
        resolve(parse_plan({**document, "workload": {"client": "java"}}))
    assert refused.value.key == "faults.x.nemesis"


def test_the_java_client_is_named_with_its_version() -> None:
    named = {"schema": 1, "name": "t", "target": {"version": "3.9.2"}}
    assert Java().software(parse_plan(named)) == "kafka-clients 3.9.2 (Java)"
    image = {**named, "target": {"image": "apache/kafka:4.1.0"}}
    assert Java().software(parse_plan(image)) == "kafka-clients of apache/kafka:4.1.0 (Java)"


def test_a_dry_run_takes_no_client_for_a_server() -> None:
    steps = [
        {"id": "c", "at_s": 1, "nemesis": "kill", "nodes": "controller"},
        {"id": "l", "at_s": 2, "nemesis": "partition", "nodes": "leader"},
        {"id": "k", "at_s": 3, "nemesis": "pause", "nodes": "role:client"},
    ]
    document = {"schema": 1, "name": "t", "workload": {"client": "java"}, "faults": steps}
    document["target"] = {"version": "4.3.1", "controllers": 1}
    shown = dry_run(resolve(parse_plan(document)))
    assert [node["name"] for node in shown["nodes"]] == ["b1", "b2", "b3", "c1", "k1", "k2", "k3"]
    controller, leader, clients = (fault["nodes"] for fault in shown["faults"])
    assert "as if c1)" in controller
    assert "as if b1)" in leader
    assert "as if k1, k2, k3)" in clients
    cut = " ".join(shown["faults"][1]["commands"])
    addresses = {node["name"]: node["address"] for node in shown["nodes"]}
    assert f'"{addresses["c1"]}"' in cut
    assert not any(f'"{addresses[name]}"' in cut for name in ("k1", "k2", "k3"))
