"""What a plan may set of the Java client, under which names, and what its producers then tell."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import PlanError
from targets.kafka.clients.java import checked_settings, javas_refusal, requested_settings
from targets.kafka.definitions import names, same

REPORTED = {
    "acks": "-1",
    "delivery.timeout.ms": "120000",
    "enable.idempotence": "true",
    "linger.ms": "5",
    "partitioner.class": "null",
    "ssl.protocol": "TLSv1.3",
    "bootstrap.servers": "198.18.0.11:9092",
    "client.id": "ackloss-1.0",
}


def test_nothing_is_set_that_the_plan_does_not_ask_for() -> None:
    assert requested_settings({}) == {}


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({"acks": 1}, {"acks": "1"}),
        ({"request.required.acks": "all"}, {"acks": "all"}),
        ({"enable.idempotence": False}, {"enable.idempotence": "false"}),
        ({"queue.buffering.max.ms": 20}, {"linger.ms": "20"}),
        ({"queue.buffering.max.kbytes": 1024}, {"buffer.memory": "1048576"}),
        ({"buffer.memory": 1024}, {"buffer.memory": "1024"}),
        ({"topic.metadata.refresh.interval.ms": 1000}, {"metadata.max.age.ms": "1000"}),
        ({"max.block.ms": "500"}, {"max.block.ms": "500"}),
        (
            {"message.timeout.ms": 40_000},
            {"delivery.timeout.ms": "40000"},
        ),
        (
            {"message.timeout.ms": 8000},
            {"delivery.timeout.ms": "8000", "request.timeout.ms": "7995"},
        ),
        (
            {"delivery.timeout.ms": 8000, "linger.ms": 100},
            {"delivery.timeout.ms": "8000", "linger.ms": "100", "request.timeout.ms": "7900"},
        ),
        (
            {"delivery.timeout.ms": 8000, "request.timeout.ms": 9000},
            {"delivery.timeout.ms": "8000", "request.timeout.ms": "9000"},
        ),
    ],
)
def test_names_and_values_become_javas(given: dict[str, Any], asked: dict[str, str]) -> None:
    assert requested_settings(given) == asked


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"bootstrap.servers": "example.org:9092"}, "own cluster only"),
        ({"sasl.jaas.config": "x"}, "a plan may not set"),
        ({"interceptor.classes": "Evil"}, "names code"),
        ({"metric.reporters": "Evil"}, "names code"),
        ({"partitioner.class": "Evil"}, "names its partition|names code"),
        ({"transactional.id": "t"}, "not transactional"),
        ({"client.id": "me"}, "names its clients itself"),
        ({"config.providers": "file"}, "not on the list|names code"),
        ({"socket.nagle.disable": True}, "no setting that means it"),
        ({"queue.buffering.max.messages": 5}, "no setting that means it"),
        ({"linger.mss": 5}, "not on the list"),
        ({"acks": 2}, "acks is 0, 1, -1 or all, not 2"),
        ({"enable.idempotence": 1}, "not one of true, false"),
        ({"linger.ms": 1.5}, "not an integer"),
        ({"retries": True}, "not an integer"),
        ({"acks": 1, "request.required.acks": 1}, "set twice"),
    ],
)
def test_what_may_not_be_set_is_refused_at_its_key(given: dict[str, Any], why: str) -> None:
    with pytest.raises(PlanError, match=why) as refused:
        requested_settings(given)
    assert refused.value.key == f'workload.producer."{list(given)[-1]}"'


def test_a_setting_that_is_allowed_is_no_dangerous_one() -> None:
    """`max.block.ms` is refused of librdkafka alone, which never blocks."""
    assert [name for name in same("java") if "class" in name or name.startswith("ssl")] == []
    assert set(same("java").values()) <= set(names("producer"))


def test_what_the_producer_tells_is_what_it_has() -> None:
    assert checked_settings(REPORTED, {"acks": "all", "message.timeout.ms": 120_000}, "kafka") == {
        "acks": "all",
        "delivery.timeout.ms": "120000",
        "enable.idempotence": "true",
        "linger.ms": "5",
    }


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"retry.backoff.max.ms": 5}, "kafka-clients 2.8.2 does not know this setting"),
        ({"message.timeout.ms": 60_000}, "has '120000', but '60000' was requested"),
    ],
)
def test_a_setting_that_did_not_arrive_stops_the_run(asked: dict[str, Any], why: str) -> None:
    with pytest.raises(PlanError, match=why) as refused:
        checked_settings(REPORTED, asked, "kafka-clients 2.8.2")
    assert refused.value.key == f'workload.producer."{next(iter(asked))}"'


def test_javas_own_refusal_is_at_the_key_that_it_names() -> None:
    sentence = "delivery.timeout.ms should be equal to or larger than linger.ms + ..."
    asked = {"acks": 1, "message.timeout.ms": 10}
    assert javas_refusal(sentence, asked).key == 'workload.producer."message.timeout.ms"'
    assert javas_refusal("something else", asked).key == "workload.producer"
