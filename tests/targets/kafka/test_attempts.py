"""Truth rule 1 against the libraries themselves: no write that failed is in the log.

A broker that appends, answers with an error, and refuses the same write when it comes again, sends
every error code of Kafka's protocol to each library that writes, with retries disabled.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError

from harness.plan import parse_plan
from harness.protocols import FAIL, INFO, OK, Client, Completion, invoke
from targets.kafka.clients.library import REFUSALS, REFUSED
from targets.kafka.target import Kafka
from tests.fixtures.budget import full
from tests.fixtures.fake_kafka import Answer, FakeKafka, fake_kafka
from tests.fixtures.java_driver import Address, java_client
from tests.fixtures.producing import WRITERS

pytestmark = pytest.mark.slow

BY_NAME = {library.plugin: library for library in WRITERS}
ONCE: dict[str, Any] = {"retries": 0, "enable.idempotence": False}
CODES = sorted(
    code
    for name in dir(KafkaError)
    if not name.startswith("_") and isinstance(code := getattr(KafkaError, name), int) and code
)
CODES.sort(key=lambda code: code == 29)  # librdkafka sends nothing more to such a topic
RESENT = {3, 5, 6, 8, 9, 15, 16}
"""The codes after which librdkafka sends again though retries are disabled."""


def refused(code: int) -> Answer:
    """A broker that says so before it appends."""
    return Answer(code, appends=False)


def answered(code: int) -> Answer:
    """As a broker does that answers this code: refuses by it, or has appended perhaps."""
    return Answer(code, appends=code not in REFUSED)


@dataclass
class Writer:
    """A client of one library, one producer, in front of a fake broker."""

    library: str
    java: Address | None = None
    version: str = "4.3.1"
    reported: dict[int, Completion] = field(default_factory=dict)

    def client(self, broker: FakeKafka, producer: dict[str, Any]) -> Client:
        """It is to be closed by the test."""
        if self.java:
            asked = {"max.block.ms": 2500, **producer}
            return java_client(self.java, broker.address, broker.topic, asked)
        workload = {"clients": 1, "client": self.library, "producer": producer}
        document = {"schema": 1, "name": "t", "topic": {"partitions": 1}, "workload": workload}
        document["target"] = {"version": self.version}
        return BY_NAME[self.library].producing(broker.address, parse_plan(document))

    def write(
        self, client: Client, *values: int, partition: int = 0, key: str | None = None
    ) -> None:
        """Hand them over at once and wait until each is answered, by its own process."""
        deadline = time.monotonic() + 15
        for value in values:
            while not client.submit(value, invoke("append", value, partition, key)):
                assert time.monotonic() < deadline, "nothing is taken"
                client.poll(0.05, self.reported.__setitem__)
        while not self.reported.keys() >= set(values):
            assert time.monotonic() < deadline, "not every write was answered"
            client.poll(0.05, self.reported.__setitem__)

    def of(self, type_: str) -> set[int]:
        """The values whose writes ended so."""
        return {value for value, ended in self.reported.items() if ended[0] == type_}

    def close(self, client: Client) -> None:
        client.close(1, self.reported.__setitem__)


def held(broker: FakeKafka) -> set[int]:
    return {int(value or b"") for value in broker.values()}


OWN = Kafka.libraries


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.java if name == "java" else ()) for name in OWN]
)
def writer(request: pytest.FixtureRequest) -> Writer:
    name: str = request.param
    return Writer(name, request.getfixturevalue("java") if name == "java" else None)


def test_there_is_a_table_for_every_library() -> None:
    assert REFUSALS.keys() == set(OWN)


def test_no_write_that_failed_is_in_the_log(writer: Writer) -> None:
    """Every code, and then a refusal, should the library send the write again."""
    with fake_kafka() as broker:
        client = writer.client(broker, ONCE)
        resent = set()
        for value, code in enumerate(CODES):
            broker.script.clear()
            broker.script += [answered(code), refused(19)]
            before = len(broker.produced)
            writer.write(client, value)
            assert len(broker.produced) > before, "the broker was not reached"
            if len(broker.produced) > before + 1:
                resent.add(code)
        writer.close(client)
        assert writer.of(FAIL) & held(broker) == set()
        assert writer.of(OK) <= held(broker)
    assert resent == (RESENT if writer.library == "librdkafka" else set())
    failed = {CODES[value] for value in writer.of(FAIL)}
    assert failed == set(REFUSALS[writer.library])


@pytest.mark.parametrize("version", ["0.8.0", *full("0.9.0.1")])
@pytest.mark.parametrize("library", BY_NAME)
def test_nor_where_clients_are_configured_for_old_brokers(library: str, version: str) -> None:
    test_no_write_that_failed_is_in_the_log(Writer(library, version=version))


@pytest.mark.parametrize("codes", [(6, 19), *full((3, 19), (5, 19), (6, 10))], ids=str)
def test_a_refusal_after_an_append_proves_nothing(writer: Writer, codes: tuple[int, int]) -> None:
    """Seen of librdkafka with retries = 0: appended and answered 6, sent again, answered 19."""
    with fake_kafka(answers=codes) as broker:
        client = writer.client(broker, ONCE)
        writer.write(client, 5)
        writer.close(client)
        assert broker.values()[0] == b"0000000005"
        again = writer.library == "librdkafka"
        assert [each.code for each in broker.produced] == list(codes[: 1 + again])
    assert writer.reported[5][0] == INFO


@pytest.mark.parametrize("code", [19, *full(*sorted(REFUSED.keys() - {19}))])
def test_a_refusal_of_the_only_attempt(writer: Writer, code: int) -> None:
    """It is a failure where the library is known not to send again, else unknown."""
    with fake_kafka(answers=[refused(code)]) as broker:
        client = writer.client(broker, ONCE)
        writer.write(client, 1, key="k")
        writer.close(client)
        assert (held(broker), len(broker.produced)) == (set(), 1)
    assert writer.reported[1][0] == (INFO if writer.library == "librdkafka" else FAIL)


def test_a_producer_that_tries_again_never_fails(writer: Writer) -> None:
    with fake_kafka(answers=[7, refused(19), refused(10)]) as broker:
        client = writer.client(broker, {**ONCE, "retries": 3, "retry.backoff.ms": 1})
        writer.write(client, 1)
        writer.close(client)
        assert held(broker) == {1}
    assert writer.reported[1][0] == INFO


@pytest.mark.parametrize("codes", [(10, 19, 6), *full((18, 6, 19))], ids=str)
def test_the_halves_of_a_batch_that_was_refused(writer: Writer, codes: tuple[int, ...]) -> None:
    """kafka-python and Java send them without counting: each attempt of a half was answered."""
    with fake_kafka(answers=map(answered, codes)) as broker:
        client = writer.client(broker, {**ONCE, "linger.ms": 300})
        writer.write(client, 0)
        broker.script.extend(map(answered, codes))
        writer.write(client, 1, 2)
        writer.close(client)
        assert writer.of(FAIL) & held(broker) == set()


@pytest.mark.parametrize("producer", [{}, {"retries": 5}], ids=["once", "again"])
def test_what_a_library_refuses_is_never_sent(writer: Writer, producer: dict[str, Any]) -> None:
    small = {**ONCE, **producer, "message.max.bytes": 1000}
    with fake_kafka() as broker:
        client = writer.client(broker, small)
        writer.write(client, 1)
        writer.write(client, 2, partition=99)
        writer.write(client, 3, key="k" * 2000)
        writer.close(client)
        assert [each.values for each in broker.produced] == [(b"0000000001",)]
    sure = writer.library != "java"
    assert writer.reported[2][0] == (FAIL if sure else INFO)
    assert writer.reported[3][0] == (FAIL if sure or not producer else INFO)
    assert writer.reported[1][0] == OK


def test_a_key_arrives_as_it_was_given(writer: Writer) -> None:
    keys = [None, "", "k", "a b", "κ", "=1%20+\n"]
    with fake_kafka() as broker:
        client = writer.client(broker, ONCE)
        for value, key in enumerate(keys):
            writer.write(client, value, key=key)
        writer.close(client)
        assert broker.keys() == [None if key is None else key.encode() for key in keys]
