"""What the proxy does to requests and answers: on loopback, before a broker that shows what it got.

Each act is shown by both ends: what the broker was given, and what the client got.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from kafka.protocol.producer import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)

from tests.fixtures.fake_kafka import FakeKafka, fake_kafka, record_set
from tests.fixtures.proxy import Framed, Proxied, proxy_before

pytestmark = [pytest.mark.java, pytest.mark.real_time]

PRODUCE, INIT = 0, 22
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def module_server() -> Iterator[FakeKafka]:
    with fake_kafka() as server:
        yield server


@pytest.fixture(scope="module")
def proxied(
    module_server: FakeKafka, proxy_classes: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    folder = tmp_path_factory.mktemp("run")
    with proxy_before(module_server.port, proxy_classes, folder) as made:
        module_server.port = made.port  # what it advertises to its clients
        yield made


@pytest.fixture
def server(module_server: FakeKafka) -> FakeKafka:
    module_server.stored.clear()
    module_server.produced.clear()
    return module_server


class Client(Framed):
    """A connection that writes values one by one and reads what is answered."""

    def __init__(self, proxied: Proxied, client_id: str = "test") -> None:
        super().__init__(proxied.port)
        self.client_id = client_id

    def produce(self, value: str, correlation: int = 1, acks: int = -1) -> None:
        kind = ProduceRequest.TopicProduceData
        part = kind.PartitionProduceData(index=0, records=record_set(2, [(None, value.encode())]))
        topics = [kind(name="ackloss", partition_data=[part])]
        request = ProduceRequest[8](
            transactional_id=None, acks=acks, timeout_ms=1000, topic_data=topics
        )
        self._send(request, correlation)

    def begin(self, correlation: int = 1) -> None:
        request = InitProducerIdRequest[1](transactional_id=None, transaction_timeout_ms=1000)
        self._send(request, correlation)

    def _send(self, request: Any, correlation: int) -> None:
        request.with_header(correlation_id=correlation, client_id=self.client_id)
        self.socket.sendall(bytes(request.encode(framed=True, header=True)))

    def answer(self) -> tuple[int, bytes]:
        """The next answer: its correlation id, and all of it without its length."""
        raw = self.frame()
        return struct.unpack_from(">i", raw)[0], raw

    def code(self) -> int:
        """The error code of the next answer to a write."""
        _, raw = self.answer()
        response = ProduceResponse.decode(raw, version=8, header=True)
        return int(response.responses[0].partition_responses[0].error_code)


@pytest.fixture
def client(proxied: Proxied) -> Iterator[Client]:
    made = Client(proxied)
    yield made
    made.socket.close()


def stored(server: FakeKafka) -> list[str]:
    return [value.decode() for value in server.values() if value is not None]


def await_stored(server: FakeKafka, values: list[str]) -> None:
    until = time.monotonic() + WITHIN_S
    while stored(server) != values and time.monotonic() < until:
        time.sleep(0.02)
    assert stored(server) == values


def test_without_a_rule_everything_passes(server: FakeKafka, client: Client) -> None:
    for number in range(3):
        client.produce(f"v{number}", correlation=number)
        assert client.answer()[0] == number
    assert stored(server) == ["v0", "v1", "v2"]


def test_a_rule_that_counts_changes_nothing(
    server: FakeKafka, client: Client, proxied: Proxied
) -> None:
    with proxied.rule(act="count", side="request", apis=("Produce",)):
        client.produce("a")
        assert client.code() == 0
        client.begin()
        client.answer()
        assert proxied.hits(2) == {PRODUCE: 1}
    assert stored(server) == ["a"]


@pytest.mark.parametrize(("side", "done"), [("answer", ["a"]), ("request", [])])
def test_what_is_reset_was_done_or_not(
    server: FakeKafka, client: Client, proxied: Proxied, side: str, done: list[str]
) -> None:
    with proxied.rule(act="reset", side=side, apis=("Produce",)):
        client.produce("a")
        with pytest.raises(ConnectionResetError):
            client.answer()
        assert proxied.hits(1) == {PRODUCE: 1}
    assert stored(server) == done


@pytest.mark.parametrize(("side", "done"), [("answer", ["a"]), ("request", [])])
def test_nothing_follows_what_was_dropped_until_the_connection_is_reset(
    server: FakeKafka, client: Client, proxied: Proxied, side: str, done: list[str]
) -> None:
    with proxied.rule(act="drop", side=side, apis=("Produce",), first=1):
        client.produce("a")
        assert client.silent()
        client.produce("b", correlation=2)
        assert client.silent()
        assert stored(server) == done
    with pytest.raises(ConnectionResetError):
        client.answer()
    assert stored(server) == done


def test_a_delayed_answer_comes_late_and_what_follows_waits_behind_it(
    server: FakeKafka, client: Client, proxied: Proxied
) -> None:
    with proxied.rule(act="delay", ms=600, apis=("Produce",), first=1):
        begun = time.monotonic()
        client.produce("a", correlation=1)
        client.produce("b", correlation=2)
        await_stored(server, ["a", "b"])
        assert time.monotonic() - begun < 0.5
        assert [client.answer()[0], client.answer()[0]] == [1, 2]
        assert time.monotonic() - begun >= 0.6


def test_a_delay_without_an_end_lasts_until_it_is_undone(
    server: FakeKafka, client: Client, proxied: Proxied
) -> None:
    with proxied.rule(act="delay", side="request", apis=("Produce",)):
        client.produce("a")
        assert client.silent()
        assert stored(server) == []
    assert client.code() == 0
    assert stored(server) == ["a"]


def test_a_late_request_outlives_its_client(
    server: FakeKafka, client: Client, proxied: Proxied
) -> None:
    with proxied.rule(act="delay", side="request", apis=("Produce",)):
        client.produce("late")
        time.sleep(0.2)
        client.socket.close()
        time.sleep(0.2)
        assert stored(server) == []
    await_stored(server, ["late"])


def test_an_error_instead_of_success_was_done(
    server: FakeKafka, client: Client, proxied: Proxied
) -> None:
    with proxied.rule(act="error", code="NOT_ENOUGH_REPLICAS_AFTER_APPEND", apis=("Produce",)):
        client.produce("a")
        assert client.code() == 20
    client.produce("b")
    assert client.code() == 0
    assert stored(server) == ["a", "b"]


def test_a_refusal_never_reaches_the_server(
    server: FakeKafka, client: Client, proxied: Proxied
) -> None:
    """Its answer comes in its turn: clients pair answers by their order."""
    rule = {"act": "error", "side": "request", "code": "NOT_ENOUGH_REPLICAS", "first": 1}
    with proxied.rule(**rule, apis=("Produce",)):
        with proxied.rule(act="delay", apis=("InitProducerId",), fault="slow"):
            client.begin(correlation=7)
            client.produce("a", correlation=8)
            client.produce("b", correlation=9)
            await_stored(server, ["b"])
            assert client.silent()
        correlation, raw = client.answer()
        assert correlation == 7
        InitProducerIdResponse.decode(raw, version=1, header=True)
        assert client.code() == 19
        assert client.code() == 0
    assert stored(server) == ["b"]


def test_a_refusal_behind_a_write_without_an_answer_comes_before_the_next_answer(
    server: FakeKafka, client: Client, proxied: Proxied
) -> None:
    client.produce("a", correlation=1, acks=0)
    await_stored(server, ["a"])  # else the rule may meet this one
    rule = {"act": "error", "side": "request", "code": "NOT_ENOUGH_REPLICAS", "first": 1}
    with proxied.rule(**rule, apis=("Produce",)):
        client.produce("b", correlation=2)
        client.produce("c", correlation=3)
        assert [client.code(), client.code()] == [19, 0]


def test_a_write_without_an_answer_is_refused_in_silence(
    server: FakeKafka, client: Client, proxied: Proxied
) -> None:
    rule = {"act": "error", "side": "request", "code": "NOT_ENOUGH_REPLICAS"}
    with proxied.rule(**rule, apis=("Produce",)):
        client.produce("a", acks=0)
        client.begin(correlation=5)
        assert client.answer()[0] == 5
    client.produce("b", acks=0)
    await_stored(server, ["b"])


def test_errors_of_another_api_are_its_own(client: Client, proxied: Proxied) -> None:
    for side in ("request", "answer"):
        rule = {"act": "error", "side": side, "code": "COORDINATOR_NOT_AVAILABLE"}
        with proxied.rule(**rule, apis=("InitProducerId",)):
            client.begin()
            _, raw = client.answer()
            assert InitProducerIdResponse.decode(raw, version=1, header=True).error_code == 15


def test_what_is_sent_twice_is_stored_twice_and_answered_once(
    server: FakeKafka, client: Client, proxied: Proxied
) -> None:
    with proxied.rule(act="duplicate", side="request", apis=("Produce",)):
        client.produce("a")
        assert client.code() == 0
        assert client.silent()
    await_stored(server, ["a", "a"])


def test_what_cannot_be_sent_twice_is_no_hit(proxy_classes: str, tmp_path: Path) -> None:
    """A server that takes no second connection."""
    server, listener = FakeKafka(), socket.create_server(("127.0.0.1", 0))
    with proxy_before(listener.getsockname()[1], proxy_classes, tmp_path) as proxied:
        client = Client(proxied)
        peer, _ = listener.accept()
        listener.close()
        with peer, client.socket:
            threading.Thread(target=server.serve, args=[peer], daemon=True).start()
            with proxied.rule(act="duplicate", side="request", apis=("Produce",)):
                client.produce("a")
                assert client.code() == 0
                assert proxied.hits(1) == {}
            assert stored(server) == ["a"]


@pytest.mark.parametrize(
    ("of", "met"),
    [
        ({}, 4),
        ({"client_id": "tes"}, 2),
        ({"client_id": "nobody"}, 0),
        ({"topic": "ackloss"}, 4),
        ({"topic": "another"}, 0),
        ({"first": 3}, 3),
        ({"apis": ("Fetch",)}, 0),
    ],
)
def test_only_what_a_rule_names_is_met(
    server: FakeKafka, proxied: Proxied, of: dict[str, Any], met: int
) -> None:
    with proxied.rule(**{"act": "count", "side": "request", "apis": ("Produce",), **of}):
        for client_id in ("test", "other"):
            client = Client(proxied, client_id)
            for _ in range(2):
                client.produce("a")
                client.answer()
            client.socket.close()
        assert sum(proxied.hits(4).values()) == met


@pytest.mark.parametrize(("field", "met"), [("peers", True), ("others", False)])
def test_who_asks_is_known_by_the_address(
    client: Client, proxied: Proxied, field: str, met: bool
) -> None:
    from harness.faults.records import Peer

    peer = Peer(name="b2", address="127.0.0.1")
    with proxied.rule(act="count", side="request", **{field: (peer,)}):
        client.produce("a")
        client.answer()
        assert bool(proxied.hits(1)) == met
    stranger = Peer(name="b2", address="127.0.0.2")
    with proxied.rule(act="count", side="request", **{field: (stranger,)}):
        client.produce("a")
        client.answer()
        assert bool(proxied.hits(1)) == (not met)


def test_a_share_is_drawn_from_the_seed(server: FakeKafka, proxied: Proxied) -> None:
    def met(seed: int) -> int:
        with proxied.rule(act="count", side="request", share=0.3, seed=seed):
            client = Client(proxied)
            for _ in range(200):
                client.produce("a")
                client.answer()
            client.socket.close()
            return sum(proxied.hits(200).values())

    first = met(1)
    assert 30 <= first <= 90
    assert met(1) == first


def test_a_server_that_is_not_there_refuses(proxy_classes: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    with proxy_before(port, proxy_classes, tmp_path) as nothing:
        client = Client(nothing)
        with pytest.raises((ConnectionResetError, EOFError)):
            client.answer()


class Librdkafka:
    """A producer that has written once; its writes have four seconds each."""

    def __init__(self, proxied: Proxied) -> None:
        self.said: dict[str, str | None] = {}
        self.producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{proxied.port}",
                "message.timeout.ms": 4000,
                "socket.timeout.ms": 2000,
                "acks": "all",
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        while self.said.get("first", "unwritten") is not None:
            self.write("first")

    def write(self, *values: str) -> dict[str, str | None]:
        """What it says of these, once it has said it of all."""
        for value in values:
            self.producer.produce("ackloss", value.encode(), on_delivery=self._done)
        assert self.producer.flush(WITHIN_S) == 0
        return {value: self.said[value] for value in values}

    def _done(self, error: KafkaError | None, message: Any) -> None:
        self.said[message.value().decode()] = error.name() if error else None


VALUES = ("a", "b", "c")


def test_librdkafka_reports_stored_writes_as_timed_out(server: FakeKafka, proxied: Proxied) -> None:
    producer = Librdkafka(proxied)
    with proxied.rule(act="reset", apis=("Produce",)):
        said = producer.write(*VALUES)
    assert set(said.values()) == {"_MSG_TIMED_OUT"}
    assert set(stored(server)) == {"first", *VALUES}, "each is stored, some more than once"


def test_librdkafka_has_all_acknowledged_where_requests_are_only_counted(
    server: FakeKafka, proxied: Proxied
) -> None:
    producer = Librdkafka(proxied)
    with proxied.rule(act="count", side="request", apis=("Produce",)):
        said = producer.write(*VALUES)
        proxied.await_hit(PRODUCE)
    assert set(said.values()) == {None}
    assert sorted(stored(server)) == sorted(["first", *VALUES])
