"""The allow-list of producer settings: what is taken, under which names, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer

from harness.errors import PlanError
from targets.kafka.clients.librdkafka import check_producer_settings, effective_settings
from targets.kafka.clients.outcomes import attempts_once
from targets.kafka.definitions import CLIENTS, DEFAULTS, canonical, same, why_refused

SAMPLES: dict[str, Any] = {
    "acks": "all",
    "compression.type": "lz4",
    "queuing.strategy": "fifo",
    "metadata.recovery.strategy": "none",
    "broker.version.fallback": "0.10.0",
    "socket.send.buffer.bytes": 100_000,
    "socket.receive.buffer.bytes": 100_000,
    "message.max.bytes": 100_000,
    "compression.level": 3,
    "enable.idempotence": True,
    "enable.gapless.guarantee": False,
    "topic.metadata.refresh.sparse": False,
    "socket.keepalive.enable": True,
    "socket.nagle.disable": True,
    "api.version.request": True,
    "reconnect.backoff.ms": 50,
    "max.in.flight.requests.per.connection": 5,
    "queue.buffering.backpressure.threshold": 1,
    "message.timeout.ms": 9000,
    "buffer.memory": 33554432,
}


def refusal(settings: dict[str, Any]) -> PlanError:
    with pytest.raises(PlanError) as caught:
        check_producer_settings(settings)
    return caught.value


@pytest.mark.parametrize("name", same())
def test_librdkafka_knows_every_setting_that_is_allowed(name: str) -> None:
    sample = SAMPLES.get(name, SAMPLES.get(canonical(name), 1000))
    check_producer_settings({name: sample})


def test_every_allowed_setting_has_a_few_words() -> None:
    assert all(each.help and (each.librdkafka or each.java) for each in CLIENTS)
    assert set(DEFAULTS) <= set(same().values())


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("bootstrap.servers", "own cluster"),
        ("metadata.broker.list", "own cluster"),
        ("plugin.library.paths", "load a library"),
        ("sasl.password", "secrets"),
        ("sasl.jaas.config", "secrets"),
        ("ssl.ca.location", "files"),
        ("ssl.key.location", "files"),
        ("security.protocol", "how to reach"),
        ("enable.ssl.certificate.verification", "how to reach"),
        ("client.id", "names its clients itself"),
        ("transactional.id", "not transactional"),
        ("transaction.timeout.ms", "not transactional"),
        ("partitioner", "names its partition"),
        ("partitioner.class", "names its partition"),
        ("key.serializer", "Java client"),
        ("interceptor.classes", "Java client"),
        ("metric.reporters", "Java client"),
        ("max.block.ms", "never blocks"),
        ("delivery.report.only.error", "every delivery report"),
        ("debug", "belongs to ackloss"),
        ("log_level", "belongs to ackloss"),
        ("statistics.interval.ms", "belongs to ackloss"),
        ("test.mock.num.brokers", "not on the list"),
        ("group.id", "not on the list"),
        ("opaque", "not on the list"),
        ("on_delivery", "every delivery report"),
        ("error_cb", "every delivery report"),
    ],
)
def test_what_a_plan_may_not_set(key: str, why: str) -> None:
    error = refusal({key: "x"})
    assert why in error.what
    assert error.key == f'workload.producer."{key}"'
    assert error.hint


@pytest.mark.parametrize(
    ("key", "meant"),
    [("ack", "acks"), ("linger.m", "linger.ms"), ("mesage.timeout.ms", "message.timeout.ms")],
)
def test_the_nearest_allowed_name_is_reported(key: str, meant: str) -> None:
    assert refusal({key: 1}).hint == f"did you mean {meant!r}?"


@pytest.mark.parametrize(
    ("settings", "key", "what"),
    [
        ({"linger.ms": 1.5}, "linger.ms", "1.5 is not an integer"),
        ({"linger.ms": "5x"}, "linger.ms", "'5x' is not an integer"),
        ({"linger.ms": True}, "linger.ms", "True is not an integer"),
        ({"linger.ms": -4}, "linger.ms", "outside allowed range"),
        ({"queue.buffering.max.ms": -4}, "queue.buffering.max.ms", "outside allowed range"),
        ({"enable.idempotence": 1}, "enable.idempotence", "1 is not one of true, false"),
        ({"acks": "most"}, "acks", "acks is 0, 1, -1 or all, not 'most'"),
        ({"acks": True}, "acks", "acks is 0, 1, -1 or all, not True"),
        (
            {"compression.type": "rar"},
            "compression.type",
            "not one of none, gzip",
        ),
        ({"enable.idempotence": True, "acks": 1}, "enable.idempotence", "must be set to `all`"),
        ({"acks": 1, "enable.idempotence": True}, "acks", "must be set to `all`"),
        ({"retries": 0, "enable.idempotence": True}, "retries", "`retries` must be set >= 1"),
        ({"linger.ms": 9000}, "linger.ms", "must be greater than"),
        ({"retries": 3, "message.send.max.retries": 4}, "message.send.max.retries", "set twice"),
    ],
)
def test_wrong_values_are_reported_at_their_key(
    settings: dict[str, Any], key: str, what: str
) -> None:
    error = refusal(settings)
    assert what in error.what
    assert error.key == f'workload.producer."{key}"'


def test_what_is_in_force() -> None:
    assert effective_settings({}) == DEFAULTS
    asked = {"delivery.timeout.ms": 12_000, "acks": 1, "enable.idempotence": False, "linger.ms": 0}
    assert effective_settings(asked) == {
        **DEFAULTS,
        "message.timeout.ms": "12000",
        "acks": "1",
        "linger.ms": "0",
    }


@pytest.mark.parametrize(
    ("settings", "once"),
    [
        ({}, False),
        ({"retries": 1}, False),
        ({"retries": 0}, True),
        ({"message.send.max.retries": "00"}, True),
        ({"enable.idempotence": True}, False),
        ({"enable.idempotence": False, "retries": 0}, True),
    ],
)
def test_which_producers_attempt_a_write_only_once(settings: dict[str, Any], once: bool) -> None:
    assert attempts_once(effective_settings(settings)) is once


def test_javas_names_and_units() -> None:
    assert effective_settings({"buffer.memory": 33554432})["queue.buffering.max.kbytes"] == "32768"
    assert effective_settings({"metadata.max.age.ms": "500"}) == {
        **DEFAULTS,
        "topic.metadata.refresh.interval.ms": "500",
    }
    assert effective_settings({"enable.idempotence": "TRUE"})["enable.idempotence"] == "true"


def test_the_defaults_are_what_librdkafka_takes() -> None:
    check_producer_settings({})
    Producer({**DEFAULTS, "log_level": 0})


def test_what_a_users_own_file_may_hold_and_what_is_set_aside() -> None:
    usual = {
        "bootstrap.servers": False,
        "acks": True,
        "delivery.timeout.ms": True,
        "buffer.memory": True,
        "key.serializer": False,
        "ssl.truststore.location": False,
        "max.block.ms": False,
    }
    assert {key: why_refused(key, "producer") is None for key in usual} == usual
