"""Ballast: what is decoded of brokers' answers, which changes are reported, and how many partitions
are too many."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from harness.errors import PlanError
from harness.plan import parse_plan
from harness.protocols import Completed
from targets.kafka import ballast, brokers
from targets.kafka.plan import KafkaPlan

Led = Mapping[int, tuple[int, int]]
"""By partition, its leader's id and the leader epoch."""


def plan(number: int, **topic: int) -> KafkaPlan:
    document = {"schema": 1, "name": "p", "target": {"version": "4.4.0"}, "topic": topic}
    made = parse_plan({**document, "target": {"version": "4.4.0", "ballast_partitions": number}})
    assert isinstance(made, KafkaPlan)
    return made


def answer(led: Led, number: int, isr: int) -> bytes:
    """As a broker answers, encoded by kafka-python."""
    kind, of_broker = (
        MetadataResponse.MetadataResponseTopic,
        MetadataResponse.MetadataResponseBroker,
    )
    topics = [
        kind(
            error_code=0,
            name=f"{ballast.PREFIX}{topic}",
            is_internal=False,
            partitions=[
                kind.MetadataResponsePartition(
                    error_code=0 if leader >= 0 else 5,
                    partition_index=number % ballast.PER_TOPIC,
                    leader_id=leader,
                    leader_epoch=epoch,
                    replica_nodes=[1, 2, 3],
                    isr_nodes=[1, 2, 3][:isr],
                    offline_replicas=[1, 2, 3][isr:],
                )
                for number, (leader, epoch) in led.items()
                if number // ballast.PER_TOPIC == topic
            ],
        )
        for topic in sorted({number // ballast.PER_TOPIC for number in led})
    ]
    response: Any = MetadataResponse[7](
        throttle_time_ms=0,
        brokers=[of_broker(node_id=n, host="h" * n, port=9092, rack=None) for n in range(number)],
        cluster_id="fake",
        controller_id=1,
        topics=topics,
    )
    response.with_header(correlation_id=0)
    return bytes(response.encode(framed=True, header=True))


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """The answers that a broker gives, one after the other; then it closes the connection."""
    answers: list[bytes] = []
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(brokers, "connected", lambda *_, **__: ours)

    def serve() -> None:
        while size := theirs.recv(4):
            request = theirs.recv(int.from_bytes(size, "big"))
            asked = MetadataRequest.decode(request, version=7, header=True)
            assert [each.name for each in asked.topics] == ["ballast-0", "ballast-1"]
            if not answers:
                break
            theirs.sendall(answers.pop(0))
        theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    yield answers
    ours.close()
    thread.join()


def test_only_changes_are_reported(broker: list[bytes]) -> None:
    led = dict.fromkeys(range(1_500), (1, 0))
    moved = {**led, 3: (2, 1), 1_400: (-1, 1)}
    broker += [answer(led, 3, 3), answer(led, 2, 3), answer(moved, 2, 2), answer(moved, 2, 3)]
    view = ballast.BallastView("nowhere", plan(1_500))
    first, same, second, in_sync = (view.changes(timeout_s=5) for _ in range(4))
    assert first is not None
    assert {(p.leader, p.leader_epoch) for p in first} == {("b1", 0)}
    assert [p.partition for p in first] == list(range(1_500))
    assert same == in_sync == []
    assert second is not None
    assert [(p.partition, p.leader, p.leader_epoch) for p in second] == [
        (3, "b2", 1),
        (1_400, None, 1),
    ]
    assert view.changes(timeout_s=5) is None


def test_who_is_in_sync_is_decoded(broker: list[bytes]) -> None:
    broker += [answer({0: (1, 0), 1_000: (3, 4)}, 3, 2)]
    rows = ballast.BallastView("nowhere", plan(1_500)).rows(timeout_s=5)
    assert list(rows) == [(0, 1, 0, 2), (1_000, 3, 4, 2)]


def test_topics_have_all_partitions_and_leaders_in_turn() -> None:
    made = ballast.topics(plan(2_100, replication_factor=2))
    assert [each.topic.partitions for each in made] == [1_000, 1_000, 100]
    assert {each.topic.replication_factor for each in made} == {2}
    assert ballast.topics(plan(0)) == []


class Limited:
    name = "b1"

    def __init__(self, files: int, maps: int) -> None:
        self.files, self.maps = files, maps

    def pid(self) -> int:
        return 7

    def admin(self, argv: list[str]) -> Completed:
        assert "/proc/7/limits" in argv[-1]
        return Completed(
            0, f"Max open files   {self.files}  {self.files}  files\nmaps {self.maps}\n"
        )


@pytest.mark.parametrize(
    ("files", "maps", "most", "what"),
    [
        (20_000, 65_530, 27_750, "20000 open files"),
        (1_048_576, 65_530, 48_022, "65530 mapped files"),
        (1_024, 65_530, 0, "1024 open files"),
    ],
)
def test_more_partitions_than_a_node_can_hold_are_refused(
    files: int, maps: int, most: int, what: str
) -> None:
    node: Any = Limited(files, maps)
    ballast.refuse_too_many(node, plan(most, replication_factor=2))
    with pytest.raises(PlanError) as refused:
        ballast.refuse_too_many(node, plan(most + 2, replication_factor=2))
    assert refused.value.key == "target.ballast_partitions"
    assert what in str(refused.value)
    assert f"use at most {most:,}" in str(refused.value.hint)
