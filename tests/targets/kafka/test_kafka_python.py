"""kafka-python as a writer: its settings in the words of plans, and what its errors prove."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from confluent_kafka import KafkaError
from kafka import KafkaProducer, errors

from harness.errors import PlanError
from harness.plan import Plan, parse_plan
from harness.protocols import FAIL, INFO, OK
from targets.kafka.clients.kafka_python import (
    KafkaPython,
    _named,
    keyword_arguments,
)
from targets.kafka.clients.library import REFUSED, outcome
from targets.kafka.definitions import DEFAULTS, same

ERRORS = [
    error
    for _, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, errors.KafkaError) and error is not errors.LogTruncationError
]


def plan_for(producer: dict[str, Any] | None = None, version: str = "4.3.1") -> Plan:
    return parse_plan(
        {
            "schema": 1,
            "name": "t",
            "target": {"version": version},
            "workload": {"client": "kafka-python", "producer": producer or {}},
        }
    )


def refusal(producer: dict[str, Any], version: str = "4.3.1") -> PlanError:
    with pytest.raises(PlanError) as caught:
        KafkaPython().check(plan_for(producer, version))
    return caught.value


def test_what_it_starts_with_when_a_plan_asks_for_nothing() -> None:
    force = KafkaPython().settings(plan_for())
    shown = {**DEFAULTS, "request.timeout.ms": DEFAULTS["socket.timeout.ms"]}
    del shown["socket.timeout.ms"]
    assert force == shown
    assert keyword_arguments(force) == {
        "acks": -1,
        "enable_idempotence": False,
        "delivery_timeout_ms": 8000,
        "request_timeout_ms": 3000,
        "metadata_max_age_ms": 1000,
        "reconnect_backoff_max_ms": 500,
    }


def test_it_knows_every_setting_that_it_takes() -> None:
    taken = set(same("kafka-python").values())
    asked = dict.fromkeys(taken, 1000)
    asked |= {"acks": "all", "enable.idempotence": False, "compression.type": "gzip"}
    asked |= {"message.timeout.ms": 9000, "max.in.flight.requests.per.connection": 5}
    plan = plan_for(asked)
    KafkaPython().check(plan)
    arguments = keyword_arguments(KafkaPython().settings(plan))
    assert arguments.keys() <= KafkaProducer.DEFAULT_CONFIG.keys()
    assert len(arguments) == len(taken) - 1, "two timeouts are one"


def test_javas_names_are_taken_too() -> None:
    asked = {"delivery.timeout.ms": 9000, "metadata.max.age.ms": "500", "acks": 0}
    force = KafkaPython().settings(plan_for(asked))
    assert force["message.timeout.ms"] == "9000"
    assert keyword_arguments(force)["metadata_max_age_ms"] == 500
    assert keyword_arguments(force)["acks"] == 0


@pytest.mark.parametrize(
    ("settings", "key", "what"),
    [
        ({"queuing.strategy": "fifo"}, "queuing.strategy", "kafka-python has no setting"),
        ({"buffer.memory": 1 << 20}, "buffer.memory", "has no setting that means it"),
        ({"api.version.request": False}, "api.version.request", "kafka-python has no setting"),
        ({"plugin.library.paths": "x"}, "plugin.library.paths", "load a library"),
        ({"linger.ms": -1}, "linger.ms", "below 0"),
        ({"max.in.flight": 0}, "max.in.flight", "no request"),
        ({"acks": 2}, "acks", "0, 1, -1 or all"),
        ({"compression.type": "rar"}, "compression.type", "not one of none, gzip"),
        ({"request.timeout.ms": 8001}, None, "needs at least linger.ms + request.timeout.ms, 8001"),
        ({"message.timeout.ms": 2999}, "message.timeout.ms", "3000 here"),
        ({"delivery.timeout.ms": 2999}, "delivery.timeout.ms", "3000 here"),
        (
            {"socket.timeout.ms": 100, "request.timeout.ms": 200},
            "socket.timeout.ms",
            "one timeout",
        ),
        ({"enable.idempotence": True, "acks": 1}, "acks", "needs acks = all"),
        ({"enable.idempotence": True, "retries": 0}, "retries", "needs retries"),
        ({"enable.idempotence": True, "max.in.flight": 6}, "max.in.flight", "at most 5"),
    ],
)
def test_wrong_settings_are_reported_at_their_key(
    settings: dict[str, Any], key: str | None, what: str
) -> None:
    error = refusal(settings)
    assert what in error.what
    assert error.key == (f'workload.producer."{key}"' if key else "workload.producer")


def test_what_it_takes_it_starts_with() -> None:
    """Configured for what brokers speak it does not ask them, so none needs to run."""
    asked = {"acks": "all", "retries": 3, "linger.ms": 5, "compression.type": "gzip"}
    arguments = keyword_arguments(KafkaPython().settings(plan_for(asked, "0.8.2.2")))
    assert arguments.pop("api_version") == "0.8.2"
    producer = KafkaProducer(bootstrap_servers="127.0.0.1:1", api_version=(0, 8, 2), **arguments)
    assert producer.config["linger_ms"] == 5
    producer.close(timeout=1)


def test_what_each_error_proves() -> None:
    for error in ERRORS:
        name, code = _named(error.__name__)
        only = FAIL if code in REFUSED else INFO
        assert outcome(code, REFUSED) == (OK if code == 0 else only), error
        assert outcome(code, {}) == (OK if code == 0 else INFO), error
        assert code in (None, 0) or name == KafkaError(code).name(), error


def test_the_errors_that_can_prove_are_those_that_brokers_answer() -> None:
    proving = {error.__name__ for error in ERRORS if _named(error.__name__)[1] in REFUSED}
    assert proving == {
        "MessageSizeTooLargeError",
        "RecordListTooLargeError",
        "NotEnoughReplicasError",
        "TopicAuthorizationFailedError",
        "InvalidRecordError",
    }
