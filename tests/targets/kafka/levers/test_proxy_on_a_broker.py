"""Error answers in the versions of requests that current clients speak: on a real broker of this
machine, whose Produce requests name topics by id (Java) or by name (librdkafka)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from bench.proxy import broker_and_proxy, producer
from harness.protocols import OK
from tests.fixtures.java_driver import Address, java_client
from tests.fixtures.proxy import HereNode, Proxied
from tests.targets.kafka.test_attempts import Writer

pytestmark = [pytest.mark.java, pytest.mark.real_time]

TOPIC = "bench"
AFTER = {"act": "error", "code": "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}
BEFORE = {"act": "error", "side": "request", "code": "INVALID_RECORD"}


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Proxied]]:
    """The broker's address, that of its proxy, and its rules."""
    folder = tmp_path_factory.mktemp("broker")
    with broker_and_proxy(folder) as (direct, proxied, _):
        producer(direct)  # makes the topic
        yield direct, proxied, Proxied(int(proxied.rpartition(":")[2]), HereNode(folder))


def log(direct: str) -> list[bytes]:
    """The values of the log, in order."""
    consumer = Consumer({"bootstrap.servers": direct, "group.id": "x"})
    try:
        at = TopicPartition(TOPIC, 0, 0)
        _, end = consumer.get_watermark_offsets(at, timeout=60)
        consumer.assign([at])
        found: list[bytes] = []
        until = time.monotonic() + 60
        while len(found) < end and time.monotonic() < until:
            found += [m.value() for m in consumer.consume(100, 1) if m.error() is None]
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("rule", "stored", "said"),
    [
        (AFTER, True, "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
        (BEFORE, False, "INVALID_RECORD"),
    ],
    ids=["after", "before"],
)
def test_java_gets_the_error_that_was_meant(
    where: tuple[str, str, Proxied], java: Address, rule: dict[str, Any], stored: bool, said: str
) -> None:
    direct, address, proxied = where
    value = 100 + len(said)
    once = {"retries": 0, "enable.idempotence": False}
    client = java_client(java, address, TOPIC, once)
    writer = Writer("java")
    writer.write(client, 1)
    with proxied.rule(**rule, apis=("Produce",)):
        writer.write(client, value)
    writer.write(client, 2)
    writer.close(client)
    assert writer.told[1][0] == writer.told[2][0] == OK
    assert writer.told[value][2] == said
    assert (b"%010d" % value in log(direct)) == stored


def test_librdkafka_gets_it_too(where: tuple[str, str, Proxied]) -> None:
    direct, address, proxied = where
    made, said = producer(address), list[str]()
    with proxied.rule(**BEFORE, apis=("Produce",)):
        made.produce(TOPIC, b"refused", on_delivery=lambda e, _: said.append(e.name()))
        assert made.flush(60) == 0
    assert said == ["INVALID_RECORD"]
    assert b"refused" not in log(direct)


def test_a_topic_is_known_by_its_name_where_requests_have_it(
    where: tuple[str, str, Proxied],
) -> None:
    _, address, proxied = where
    made = producer(address)
    for topic, met in ((TOPIC, True), ("another", False)):
        with proxied.rule(act="count", side="request", apis=("Produce",), topic=topic):
            made.produce(TOPIC, b"x")
            assert made.flush(60) == 0
            assert bool(proxied.hits(1)) == met
