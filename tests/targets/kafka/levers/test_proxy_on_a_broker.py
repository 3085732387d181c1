"""Error answers in the versions of requests that current clients speak: on a real broker of this
machine, whose Produce requests name topics by id (Java) or by name (librdkafka)."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka.protocol.consumer import FetchRequest

from bench.proxy import broker_and_proxy, producer
from harness.errors import HarnessFailure
from harness.protocols import OK
from targets.kafka import levers
from targets.kafka.brokers import Connections, ask
from targets.kafka.proxy import requests
from tests.fixtures.dry_run import DryRunNode
from tests.fixtures.java_driver import Address, java_client
from tests.fixtures.proxy import HereNode, Proxied
from tests.targets.kafka.test_attempts import Writer

pytestmark = [pytest.mark.java, pytest.mark.real_time]

TOPIC, OTHER = "bench", "another"
B1: Any = DryRunNode("b1", frozenset({"broker"}), "b1")
AFTER = {"act": "error", "code": "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}
BEFORE = {"act": "error", "side": "request", "code": "INVALID_RECORD"}


def ids_at(host: str, port: str, topic: str) -> tuple[str, ...]:
    """The id of a topic, as this broker has it."""
    with Connections({"b1": host}, int(port)) as connections:
        return levers.topic_ids(connections.ask, {"b1": B1}, topic)


@pytest.fixture(scope="module")
def where(
    proxy_classes: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, Proxied]]:
    """The broker's address, that of its proxy, and its rules."""
    folder = tmp_path_factory.mktemp("broker")
    with broker_and_proxy(folder, proxy_classes) as (direct, proxied, _):
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
    assert writer.reported[1][0] == writer.reported[2][0] == OK
    assert writer.reported[value][2] == said
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
    for topic, met in ((TOPIC, True), (OTHER, False)):
        with proxied.rule(act="count", side="request", apis=("Produce",), topic=topic):
            made.produce(TOPIC, b"x")
            assert made.flush(60) == 0
            assert bool(proxied.hits(1)) == met


@pytest.fixture
def by_ids(where: tuple[str, str, Proxied]) -> Proxied:
    """The rules, where a topic is known by its id, too; there is another topic."""
    direct, _, proxied = where
    made = producer(direct)
    made.produce(OTHER, b"first")
    assert made.flush(60) == 0
    host, port = direct.split(":")
    words = requests(lambda topic: ids_at(host, port, topic))
    return replace(proxied, requests=words, before={})


@pytest.mark.parametrize(("written", "met"), [(TOPIC, True), (OTHER, False)])
def test_a_topic_is_known_by_its_id_where_requests_have_that(
    where: tuple[str, str, Proxied], by_ids: Proxied, java: Address, written: str, met: bool
) -> None:
    _, address, _ = where
    client, writer = java_client(java, address, written, {}), Writer("java")
    try:
        writer.write(client, 1)
        with by_ids.rule(act="count", side="request", apis=("Produce",), topic=TOPIC):
            writer.write(client, 2)
            assert bool(by_ids.hits(1)) == met
        with by_ids.rule(act="error", code="INVALID_RECORD", apis=("Produce",), topic=TOPIC):
            writer.write(client, 3)
    finally:
        writer.close(client)
    assert writer.reported[2][0] == OK
    assert (writer.reported[3][0] == OK) != met


def test_without_its_id_such_requests_are_not_met(
    where: tuple[str, str, Proxied], java: Address
) -> None:
    """So it is the id by which they are met."""
    _, address, by_name = where
    client, writer = java_client(java, address, TOPIC, {}), Writer("java")
    try:
        writer.write(client, 1)
        with by_name.rule(act="count", side="request", apis=("Produce",), topic=TOPIC):
            writer.write(client, 2)
            assert by_name.hits(1) == {}
    finally:
        writer.close(client)


@pytest.mark.parametrize(("read", "met"), [(TOPIC, True), (OTHER, False)])
def test_fetch_requests_have_ids_too(
    where: tuple[str, str, Proxied], by_ids: Proxied, read: str, met: bool
) -> None:
    direct, address, _ = where
    (host, port), (_, through) = direct.split(":"), address.split(":")
    (kept,) = ids_at(host, port, read)
    kind = FetchRequest[13]
    of_topic = kind.FetchTopic(
        topic_id=UUID(bytes=base64.urlsafe_b64decode(kept + "==")),
        partitions=[kind.FetchTopic.FetchPartition(partition=0, fetch_offset=0)],
    )
    request = kind(max_wait_ms=10, min_bytes=1, topics=[of_topic])
    with by_ids.rule(act="count", side="request", apis=("Fetch",), topic=TOPIC):
        answer = ask(host, int(through), request, timeout_s=60)
        assert answer.responses[0].partitions[0].error_code == 0
        assert bool(by_ids.hits(1)) == met


def test_a_topic_that_there_is_not_has_no_id(where: tuple[str, str, Proxied]) -> None:
    host, port = where[0].split(":")
    assert len(ids_at(host, port, TOPIC)) == 1
    assert ids_at(host, port, "nothing") == ()
    with pytest.raises(HarnessFailure, match="no broker reports the id of the topic x"):
        levers.topic_ids(ask, {}, "x")
