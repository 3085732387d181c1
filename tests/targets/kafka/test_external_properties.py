"""How a cluster of the user's is reached, said to librdkafka and to kafka-python alike."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient

from harness.errors import PlanError
from harness.plan import parse_plan
from harness.protocols import Access, Cluster, Secret
from targets.kafka.external import KafkaGuest, client_properties
from targets.kafka.plan import KafkaPlan

SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "me"}
NOBODY = cast("Cluster", None)
PASSWORD = {"sasl.password": Secret("pw-1")}


def access(
    tmp_path: Path, properties: Mapping[str, str], secrets: Mapping[str, Secret] | None = None
) -> Access:
    for name in ("ca.pem", "me.pem", "me.key"):
        (tmp_path / name).touch()
    return Access(
        file=tmp_path / "theirs.toml",
        addresses=("a:1",),
        properties=properties,
        secrets=secrets or {},
    )


def test_both_libraries_are_given_the_same(tmp_path: Path) -> None:
    files = {
        "ssl.ca.location": "ca.pem",
        "ssl.certificate.location": str(tmp_path / "me.pem"),
        "ssl.key.location": "me.key",
        "ssl.endpoint.identification.algorithm": "none",
    }
    secrets = {**PASSWORD, "ssl.key.password": Secret("pw-2")}
    made = client_properties(access(tmp_path, SASL | files, secrets))
    assert made.librdkafka == {
        **SASL,
        "sasl.password": "pw-1",
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.certificate.location": str(tmp_path / "me.pem"),
        "ssl.key.location": str(tmp_path / "me.key"),
        "ssl.key.password": "pw-2",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert made.kafka_python == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "me",
        "sasl_plain_password": "pw-1",
        "ssl_cafile": str(tmp_path / "ca.pem"),
        "ssl_certfile": str(tmp_path / "me.pem"),
        "ssl_keyfile": str(tmp_path / "me.key"),
        "ssl_password": "pw-2",
        "ssl_check_hostname": False,
    }
    assert made.encrypted
    assert "pw" not in repr(made)


def test_a_process_of_the_user_gets_what_is_not_secret(tmp_path: Path) -> None:
    """And what the file refers to is one, whatever it is."""
    plain = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "ssl.ca.location": "ca.pem",
    }
    secrets = {"sasl.username": Secret("pw-0"), **PASSWORD}
    guest = KafkaGuest.reached_by(access(tmp_path, plain, secrets))
    plan = parse_plan({"schema": 1, "name": "x", "workload": {"client": "exec"}})
    assert isinstance(plan, KafkaPlan)
    reported = guest.connection(NOBODY, plan, 2)
    assert reported["bootstrap_servers"] == ["a:1"]
    assert reported["properties"] == {
        **plain,
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.endpoint.identification.algorithm": "https",
    }
    assert "pw" not in repr(reported)


def test_what_is_given_are_settings_that_the_libraries_have(tmp_path: Path) -> None:
    made = client_properties(access(tmp_path, SASL, PASSWORD))
    Producer({**made.librdkafka, "bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    assert made.kafka_python.keys() <= KafkaAdminClient.DEFAULT_CONFIG.keys()


def test_without_properties_it_is_plain_text(tmp_path: Path) -> None:
    made = client_properties(access(tmp_path, {}))
    assert made.librdkafka["security.protocol"] == "PLAINTEXT"
    assert made.kafka_python["security_protocol"] == "PLAINTEXT"
    assert not made.encrypted


def test_librdkafkas_second_name_is_taken(tmp_path: Path) -> None:
    given = {("sasl.mechanisms" if k == "sasl.mechanism" else k): v for k, v in SASL.items()}
    made = client_properties(access(tmp_path, given, PASSWORD))
    assert made.librdkafka["sasl.mechanism"] == "SCRAM-SHA-256"


@pytest.mark.parametrize(
    ("properties", "key", "what"),
    [
        ({"sasl.password": "pw"}, "sasl.password", "a secret may not stand in this file"),
        ({"sasl.jaas.config": "pw"}, "sasl.jaas.config", "write sasl.username"),
        ({"ssl.truststore.location": "pw"}, "ssl.truststore.location", "write ssl.ca.location"),
        ({"ssl.keystore.password": "pw"}, "ssl.keystore.password", "files in PEM"),
        ({"ssl.ca.pem": "pw"}, "ssl.ca.pem", "name a file in PEM"),
        ({"bootstrap.servers": "pw"}, "bootstrap.servers", "write it as `bootstrap`"),
        ({"acks": "1"}, "acks", "in workload.producer"),
        ({"sasl.oauthbearer.config": "pw"}, "sasl.oauthbearer.config", "is one of PLAIN"),
        ({"sasl.usernam": "pw"}, "sasl.usernam", "did you mean 'sasl.username'"),
        ({"plugin.library.paths": "pw"}, "plugin.library.paths", "cannot both be given it"),
        ({"security.protocol": "pw"}, "security.protocol", "is not one of PLAINTEXT, SSL"),
        (SASL | {"sasl.mechanism": "GSSAPI"}, "sasl.mechanism", "is not one of PLAIN"),
        (SASL | {"sasl.mechanisms": "PLAIN"}, "sasl.mechanisms", "is set twice"),
        (SASL, "sasl.password", "is missing: security.protocol is SASL_SSL"),
        ({"sasl.username": "pw"}, "sasl.username", "has no effect: security.protocol is PLAINTEXT"),
        ({"ssl.ca.location": "ca.pem"}, "ssl.ca.location", "has no effect"),
        (
            {"security.protocol": "SSL", "ssl.certificate.location": "me.pem"},
            "ssl.key.location",
            "go together",
        ),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "gone.pem"},
            "ssl.ca.location",
            "there is no file",
        ),
    ],
)
def test_what_cannot_be_said_to_both_is_refused(
    tmp_path: Path, properties: Mapping[str, str], key: str, what: str
) -> None:
    with pytest.raises(PlanError) as refused:
        client_properties(access(tmp_path, properties))
    assert what in str(refused.value)
    assert refused.value.key == f'client."{key}"'
    assert "pw" not in str(refused.value)
