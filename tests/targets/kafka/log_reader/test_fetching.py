"""What the reader does with a broker's answers: a scripted one, then one behind a socket."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest

from harness.faults.own_traffic import NoAnswer
from targets.kafka import reading as final_read
from targets.kafka.brokers import Connections
from targets.kafka.reading import HIGHEST_VERSION, Reading, read_log
from tests.fixtures.fake_kafka import FakeKafka, fake_kafka, record_set

NOT_LEADER, OUT_OF_RANGE = 6, 1


def log(*values: int, first: int = 0) -> bytes:
    return record_set(2, [(None, b"%010d" % value) for value in values], first=first)


@dataclass
class Brokers:
    """Answers from a script: bytes, an error's code, or null for no answer. `leads` names the
    leader, as often as it is looked up."""

    answers: list[bytes | int | None]
    leads: list[str | None] = field(default_factory=lambda: ["b1"])
    asked: list[tuple[str, int, int]] = field(default_factory=list)
    looked_up: int = 0

    def ask(self, node: str, request: Any, *, timeout_s: float) -> Any:
        assert timeout_s > 0
        part = request.topics[0].partitions[0]
        self.asked.append((node, part.fetch_offset, part.partition_max_bytes))
        answer = self.answers.pop(0) if self.answers else b""
        if answer is None:
            raise NoAnswer("nobody")
        code, raw = (answer, b"") if isinstance(answer, int) else (0, answer)
        reported = SimpleNamespace(error_code=code, records=raw[: part.partition_max_bytes])
        return SimpleNamespace(responses=[SimpleNamespace(partitions=[reported])])

    def leaders(self) -> Mapping[int, str | None]:
        self.looked_up += 1
        return {0: self.leads.pop(0) if len(self.leads) > 1 else self.leads[0]}


def read(brokers: Brokers, *, goal: int, start: int = 0, within_s: float = 5) -> Reading:
    reading = Reading(starts={0: start}, goals={0: goal})
    read_log(brokers.ask, brokers.leaders, "t", reading, time.monotonic() + within_s)
    return reading


def values(reading: Reading) -> list[int]:
    found: list[int] = reading.table("r")["value"].to_pylist()
    return found


def test_one_fetch_begins_where_the_other_ended() -> None:
    brokers = Brokers([log(0, 1, 2), log(3, 4, first=3)])
    reading = read(brokers, goal=5)
    assert values(reading) == [0, 1, 2, 3, 4]
    assert [position for _, position, _ in brokers.asked] == [0, 3]
    assert (reading.position, reading.errors) == ({0: 5}, {})


def test_what_lies_before_the_position_is_left_out() -> None:
    reading = read(Brokers([log(0, 1, 2, 3)]), start=2, goal=4)
    assert (values(reading), reading.offsets(0).tolist()) == ([2, 3], [2, 3])


@pytest.mark.parametrize("trouble", [None, *sorted(final_read._LATER)])
def test_a_leader_that_changes_is_followed_at_the_same_position(trouble: int | None) -> None:
    brokers = Brokers([log(0, 1), trouble, log(2, first=2)], leads=["b1", None, "b2"])
    reading = read(brokers, goal=3)
    assert values(reading) == [0, 1, 2]
    assert reading.errors == {}
    assert [(node, position) for node, position, _ in brokers.asked] == [
        ("b1", 0),
        ("b1", 2),
        ("b2", 2),
    ]


@pytest.mark.parametrize("code", [OUT_OF_RANGE, 2, 29, 76])
def test_another_error_of_a_broker_ends_the_partition(code: int) -> None:
    brokers = Brokers([log(0, 1), code, log(2, first=2)])
    reading = read(brokers, goal=3)
    assert values(reading) == [0, 1]
    assert "at offset 2" in reading.errors[0]
    assert reading.position == {0: 2}


def test_where_nobody_answers_the_time_ends_it() -> None:
    begun = time.monotonic()
    brokers = Brokers([None] * 1000)
    reading = read(brokers, goal=1, within_s=0.5)
    assert 0.4 < time.monotonic() - begun < 3
    assert (values(reading), reading.position, reading.errors) == ([], {0: 0}, {})
    assert brokers.looked_up > 1


def test_a_batch_that_is_larger_than_a_fetch_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before version 3 of Fetch brokers cut it off."""
    monkeypatch.setattr(final_read, "_BYTES", 64)
    whole = log(*range(100))
    brokers = Brokers([whole] * 10)
    assert values(read(brokers, goal=100)) == list(range(100))
    sizes = [size for *_, size in brokers.asked]
    assert sizes == [64 << n for n in range(len(sizes))]
    assert sizes[-2] < len(whole) <= sizes[-1]


def test_a_batch_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(final_read, "_BYTES", 64)
    monkeypatch.setattr(final_read, "_MOST_BYTES", 1024)
    reading = read(Brokers([log(*range(1000))] * 100), goal=9)
    assert "offset 0: no complete batch" in reading.errors[0]
    monkeypatch.undo()
    reading = read(Brokers([log(0, 1), log(2, 3, first=2)[:-3]]), goal=4)
    assert values(reading) == [0, 1]
    assert "partition 0, offset 2: no complete batch" in reading.errors[0]


def test_a_log_that_goes_back_ends_it() -> None:
    reading = read(Brokers([log(0, 1, 2), log(1, first=1)]), goal=9)
    assert values(reading) == [0, 1, 2]
    assert "offset 3: no complete batch, nor one that goes on behind it" in reading.errors[0]


def test_damage_is_named_by_partition_and_offset() -> None:
    bad = bytearray(log(2, first=2))
    bad[-1] ^= 1
    reading = read(Brokers([log(0, 1) + bytes(bad) + log(3, first=3)]), goal=4)
    assert values(reading) == [0, 1]
    assert reading.errors == {0: "damaged: partition 0, offset 2: its checksum is wrong"}


# --- connections ------------------------------------------------------------------------------


@contextmanager
def connected(**of: Any) -> Iterator[tuple[FakeKafka, Connections]]:
    with (
        fake_kafka(**of) as fake,
        Connections({"b1": fake.host}, fake.port) as connections,
    ):
        yield fake, connections


def versions_asked(fake: FakeKafka) -> list[tuple[str, int]]:
    """The requests that it answers from now on."""
    asked: list[tuple[str, int]] = []
    answer: Callable[[Any, int], Any] = fake.answer

    def noted(request: Any, version: int) -> Any:
        asked.append((type(request).__name__, version))
        return answer(request, version)

    fake.answer = noted  # type: ignore[method-assign]
    return asked


def fetch() -> Any:
    of = FetchRequest.FetchTopic.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=1000
    )
    topic = FetchRequest.FetchTopic(topic="ackloss", partitions=[of])
    return FetchRequest(max_version=HIGHEST_VERSION, max_wait_ms=0, min_bytes=1, topics=[topic])


def test_a_connection_is_kept_and_speaks_the_brokers_versions() -> None:
    with connected(stored={0: log(0)}) as (fake, connections):
        asked = versions_asked(fake)
        for _ in range(3):
            answer = connections.ask("b1", fetch(), timeout_s=5)
            assert answer.responses[0].partitions[0].records
    assert asked == [(FetchRequest.__name__, 10)] * 3


def test_an_old_broker_is_asked_as_it_speaks() -> None:
    with fake_kafka(stored={0: record_set(0, [(None, b"v")])}) as fake:
        asked = versions_asked(fake)
        for version in ("0.8.2.2", "0.9.0.1"):
            with Connections({"b1": fake.host}, fake.port, version) as connections:
                connections.ask("b1", fetch(), timeout_s=5)
    assert asked == [(FetchRequest.__name__, 0), (FetchRequest.__name__, 1)]


def test_a_connection_that_breaks_is_made_again() -> None:
    with connected(stored={0: log(0)}, drop_fetches=1) as (_, connections):
        with pytest.raises(NoAnswer):
            connections.ask("b1", fetch(), timeout_s=5)
        assert connections.ask("b1", fetch(), timeout_s=5)


def test_a_node_that_does_not_listen_or_speak() -> None:
    with fake_kafka() as fake:
        host, port = fake.host, fake.port
    with Connections({"b1": host}, port) as connections, pytest.raises(NoAnswer):
        connections.ask("b1", MetadataRequest(topics=[]), timeout_s=1)
