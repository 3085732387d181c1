"""Settings of producers: what is refused at which key. Which there are, under which names:
`test_settings_of_clients`."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer

from harness.errors import PlanError
from targets.kafka.clients.library import attempts_once
from targets.kafka.clients.librdkafka import check_producer_settings, effective_settings
from targets.kafka.definitions import CLIENTS, DEFAULTS, same


def refusal(settings: dict[str, Any]) -> PlanError:
    with pytest.raises(PlanError) as caught:
        check_producer_settings(settings)
    return caught.value


def test_every_allowed_setting_has_a_few_words() -> None:
    assert all(each.help and (each.librdkafka or each.java) for each in CLIENTS)
    assert set(DEFAULTS) <= set(same().values())


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


def test_the_defaults_are_what_librdkafka_takes() -> None:
    check_producer_settings({})
    Producer({**DEFAULTS, "log_level": 0})
