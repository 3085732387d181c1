"""The files that brokers and ZooKeeper servers start with, by version."""

from __future__ import annotations

from typing import Any

import pytest

from harness.plan import Plan, parse_plan
from harness.protocols import ImageRef, Ingredients
from targets.kafka import zookeeper
from targets.kafka.definitions import why_refused
from targets.kafka.versions import release_line

ADDRESSES = {"b1": "198.18.0.11", "b2": "198.18.0.12", "b3": "198.18.0.13"} | {
    f"z{n}": f"198.18.0.{20 + n}" for n in range(1, 4)
}


def plan_of(version: str, **target: Any) -> Plan:
    return parse_plan(
        {
            "schema": 1,
            "name": "x",
            "target": {"version": version, **target},
            "topic": {"replication_factor": 2},
        }
    )


def read(body: bytes) -> dict[str, str]:
    pairs = (line.partition("=") for line in body.decode().splitlines())
    return {key: value for key, _, value in pairs}


def properties(version: str, **target: Any) -> dict[str, str]:
    plan = plan_of(version, metadata="zookeeper", **target)
    release = release_line(version)
    return read(zookeeper.server_properties("b2", plan, release, version, ADDRESSES))


@pytest.mark.parametrize(
    ("version", "listens"),
    [
        ("0.8.0", {"host.name": "198.18.0.12", "port": "9092"}),
        ("0.8.2.2", {"host.name": "198.18.0.12", "port": "9092"}),
        *(
            (
                version,
                {
                    "listeners": "PLAINTEXT://198.18.0.12:9092",
                    "advertised.listeners": "PLAINTEXT://198.18.0.12:9092",
                },
            )
            for version in ("0.9.0.1", "2.8.2", "3.9.2")
        ),
    ],
)
def test_a_broker_listens_by_the_keys_of_its_version(version: str, listens: dict[str, str]) -> None:
    reported = properties(version)
    keys = {"host.name", "port", "listeners", "advertised.listeners"}
    assert {key: reported[key] for key in keys & reported.keys()} == listens
    assert reported["broker.id"] == "2"
    assert reported["zookeeper.connect"] == "198.18.0.21:2181"


@pytest.mark.parametrize(
    ("version", "count", "last"),
    [
        ("0.8.0", 9, "auto.create.topics.enable"),
        ("0.8.1.1", 11, "log.cleaner.dedupe.buffer.size"),
        ("0.8.2.2", 12, "offsets.topic.num.partitions"),
        ("0.9.0.1", 14, "request.timeout.ms"),
        ("0.10.2.2", 14, "request.timeout.ms"),
        ("2.8.2", 16, "delete.topic.enable"),
    ],
)
def test_only_defaults_that_a_version_knows_are_sent(version: str, count: int, last: str) -> None:
    ours = [key for key, _, _ in zookeeper.DEFAULTS]
    sent = [key for key in ours if key in properties(version)]
    assert (len(sent), sent[-1]) == (count, last)
    replication = properties(version).get("offsets.topic.replication.factor")
    assert replication == ("3" if count >= 12 else None)


def test_offsets_have_no_more_replicas_than_there_are_brokers() -> None:
    assert properties("2.8.2", brokers=2)["offsets.topic.replication.factor"] == "2"


def test_racks_are_reported_from_0_10_on() -> None:
    assert properties("0.10.0.1", racks=["a", "b"])["broker.rack"] == "b"
    assert "broker.rack" not in properties("0.9.0.1", racks=["a", "b"])


@pytest.mark.parametrize("version", ["0.8.2.2", "2.8.2"])
def test_a_plan_overrides_defaults_and_nothing_that_ackloss_owns(version: str) -> None:
    reported = properties(
        version,
        racks=["a"],
        settings={"replica.lag.time.max.ms": 1, "broker.id": 7, "zookeeper.connect": "elsewhere"},
    )
    assert reported["replica.lag.time.max.ms"] == "1"
    assert reported["broker.id"] == "2"
    assert reported["zookeeper.connect"] == "198.18.0.21:2181"
    defaults = {key for key, _, _ in zookeeper.DEFAULTS} | {"offsets.topic.replication.factor"}
    assert [key for key in reported if why_refused(key)] == [
        key for key in reported if key not in defaults
    ]


def test_three_servers_know_each_other_and_their_own_number() -> None:
    files = zookeeper.zookeeper_files("z2", plan_of("2.8.2", zookeepers=3), ADDRESSES)
    assert files["data/myid"] == b"2"
    reported = read(files["zoo.cfg"])
    assert {key: value for key, value in reported.items() if key.startswith("server.")} == {
        f"server.{n}": f"198.18.0.2{n}:2888:3888" for n in (1, 2, 3)
    }
    brokers = properties("2.8.2", zookeepers=3)["zookeeper.connect"]
    assert brokers == "198.18.0.21:2181,198.18.0.22:2181,198.18.0.23:2181"


def test_servers_start_before_brokers_each_with_its_class_and_file() -> None:
    plan = plan_of("0.8.2.2", zookeepers=3)
    image = ImageRef(reference="kafka", id="sha256:0", digest=None, version="0.8.2.2")
    specs = zookeeper.specs(plan, Ingredients(image=image), ADDRESSES)
    assert [spec.name for spec in specs] == ["z1", "z2", "z3", "b1", "b2", "b3"]
    for spec in specs:
        main, config = spec.argv[-2:]
        keeps = "zookeeper" in spec.roles
        assert main == (
            "org.apache.zookeeper.server.quorum.QuorumPeerMain" if keeps else "kafka.Kafka"
        )
        assert config.rpartition("/")[2] in spec.files
        assert spec.roles == {"zookeeper" if keeps else "broker"}
