"""Files of settings in all their forms, read as those who write them mean it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import PlanError
from targets.kafka import definitions
from targets.kafka.own_settings import Settings, read_settings

KNOWN = {*definitions.names("broker"), *definitions.names("producer")}


def read(folder: Path, content: str | bytes, name: str = "settings") -> Settings:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_settings(path, KNOWN.__contains__)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("batch.size = 1638\\u0034", {"batch.size": "16384"}),
        ("linger.ms:5\ncompression.type zstd", {"linger.ms": "5", "compression.type": "zstd"}),
        ("client.id=\nalone", {"client.id": "", "alone": ""}),
        ("buffer.memory=3355\\\n\t  4432", {"buffer.memory": "33554432"}),
        ("a=x\\\n# no comment", {"a": "x# no comment"}),
        ("a=x\\\\\nb=y", {"a": "x\\", "b": "y"}),
        ("a\\ b\\=c\\:d = e", {"a b=c:d": "e"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a = \\tb\\tc", {"a": "b\tc"}),
        ("  ! no\n\t# no\r\na=1\rb=2", {"a": "1", "b": "2"}),
        ("a=1 # a comment is none", {"a": "1 # a comment is none"}),
        ("a=1\\", {"a": "1"}),
        ("\ufeffa=1", {"a": "1"}),
        ("a=Gr\u00f6\u00dfe", {"a": "Gr\u00f6\u00dfe"}),
        ("a=Gr\u00f6\u00dfe".encode("latin-1"), {"a": "Gr\u00f6\u00dfe"}),
        (b"\xef\xbb\xbf# Gr\xf6\xdfe\na=1", {"a": "1"}),
        ("", {}),
    ],
)
def test_properties_are_read_as_java_reads_them(
    content: str | bytes, expected: dict[str, str], tmp_path: Path
) -> None:
    assert read(tmp_path, content).values == expected


def test_of_a_key_that_is_there_twice_the_last_counts_and_is_noted(tmp_path: Path) -> None:
    found = read(tmp_path, "acks=all\nlinger.ms=1\nacks=1\n")
    assert (found.values["acks"], found.twice) == ("1", {"acks"})


def test_variables_are_settings_by_the_convention_of_the_images(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        '# the images\nKAFKA_MIN_INSYNC_REPLICAS="1"\nexport KAFKA_LOG_RETENTION_HOURS=24 # a day\n'
        "KAFKA_CFG_NUM_IO_THREADS='3'\nKAFKA_SOME__NAME___HERE=x#y\nKAFKA_HEAP_OPTS=-Xmx1g\n"
        "CLUSTER_ID=abc\n",
    )
    assert found.values == {
        "min.insync.replicas": "1",
        "log.retention.hours": "24",
        "num.io.threads": "3",
        "some_name-here": "x#y",
    }
    assert found.foreign == ["KAFKA_HEAP_OPTS", "CLUSTER_ID"]


STRIMZI = """
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaTopic
spec: {config: {min.insync.replicas: 1}}
---
apiVersion: kafka.strimzi.io/v1beta2
kind: Kafka
spec:
  kafka:
    config: {min.insync.replicas: 2, unclean.leader.election.enable: FALSE}
"""
COMPOSE = """
x-common: &common
  KAFKA_MIN_INSYNC_REPLICAS: 2
  KAFKA_UNCLEAN_LEADER_ELECTION_ENABLE: FALSE
services:
  kafka-1:
    env_file: [{path: more.env}]
    environment: {<<: *common, KAFKA_NODE_ID: 1, KAFKA_MIN_INSYNC_REPLICAS: 1}
  kafka-2:
    environment: [KAFKA_MIN_INSYNC_REPLICAS=1, KAFKA_NODE_ID=2]
  database: {environment: {PASSWORD: x}, restart: !reset null}
"""
CONFIG_MAP = """
kind: ConfigMap
data:
  log4j.properties: "a=b"
  server.properties: |
    # ours
    min.insync.replicas=2
    unclean.leader.election.enable=FALSE
"""
HELM = """
image: {tag: 1.2}
controller:
  overrideConfiguration: {min.insync.replicas: 2}
  extraEnvVars: [{name: KAFKA_CFG_UNCLEAN_LEADER_ELECTION_ENABLE, value: FALSE}]
"""
OPERATOR = """
spec:
  configOverrides:
    server: [min.insync.replicas=2, unclean.leader.election.enable=FALSE]
"""


@pytest.mark.parametrize(
    ("content", "least"),
    [
        (STRIMZI, "2"),
        (COMPOSE, "1"),
        (CONFIG_MAP, "2"),
        (HELM, "2"),
        (OPERATOR, "2"),
        ("min.insync.replicas: 2\nunclean.leader.election.enable: FALSE\n", "2"),
        ('{"min.insync.replicas": 2, "unclean.leader.election.enable": "FALSE"}', "2"),
    ],
    ids=["Strimzi", "compose", "ConfigMap", "Helm", "operator", "map", "JSON"],
)
def test_settings_in_yaml_are_found(content: str, least: str, tmp_path: Path) -> None:
    (tmp_path / "more.env").write_text('KAFKA_UNCLEAN_LEADER_ELECTION_ENABLE="TRUE"\n')
    found = read(tmp_path, content, "settings.yaml").values
    wanted = {"min.insync.replicas": least, "unclean.leader.election.enable": "FALSE"}
    assert {key: found[key] for key in wanted} == wanted


def test_two_places_of_a_file_must_agree(tmp_path: Path) -> None:
    content = (
        "broker: {config: {min.insync.replicas: 1}}\nold: {config: {min.insync.replicas: 2}}\n"
    )
    found = read(tmp_path, content, "values.yml")
    assert found.unclear == {"min.insync.replicas": ["broker.config", "old.config"]}
    assert found.values == {}


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        ("image: {tag: 1}\n", "values.yaml", "holds no settings of Kafka .* copy its lines"),
        ("a: [SECRET\nb: {c\n", "values.yaml", "is not YAML: line 2"),
        (b"\x00\x01", "server.properties", "it is not text"),
        ("x: {env_file: none.env}\n", "compose.yaml", "none.env: cannot be read"),
    ],
)
def test_what_cannot_be_read_is_refused_and_not_quoted(
    content: str | bytes, name: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(PlanError, match=words) as refused:
        read(tmp_path, content, name)
    assert "SECRET" not in str(refused.value)
