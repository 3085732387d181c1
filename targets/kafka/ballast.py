"""Partitions that only weigh on the cluster (`target.ballast_partitions`): topics that no client
writes to, created before the run, and who leads each of their partitions during it.

What a failover costs may depend on how many partitions there are, so observing them must not be
what is measured. A broker is queried for all of them in one request (Metadata), on a connection
that is kept; an answer that equals the one before is compared and not decoded. Of an answer of
20,000 partitions, 0.9 MB, only who leads is decoded, without kafka-python, which takes 50 times as
long.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from harness.errors import HarnessFailure, PlanError
from harness.faults.own_traffic import NoAnswer
from harness.protocols import Cluster, Node, PartitionView, with_role
from harness.servers import await_none
from targets.kafka import brokers
from targets.kafka.configuration import BROKER_PORT, assignment
from targets.kafka.plan import KafkaPlan

PREFIX: Final = "ballast-"
PER_TOPIC: Final = 1_000
"""Partitions of one topic, which is one request: a controller refuses one of 10,000 changes."""

CREATED_S: Final = 0.03
"""How long the creation of one partition may take."""

_SPARE_FILES: Final = 1_500
"""What a broker opens besides its partitions: jars, sockets, Kafka's own topics and the run's."""

_OPEN, _MAPPED = 1, 2
"""Files that a broker keeps open and maps for each replica: the log; its two indexes."""


def topics(plan: KafkaPlan) -> list[KafkaPlan]:
    """The plan with each of these topics for its own: leaders in turn, so that every broker leads
    as many."""
    left = range(0, plan.target.ballast_partitions, PER_TOPIC)
    return [
        plan.with_topic(
            name=f"{PREFIX}{number}",
            partitions=min(PER_TOPIC, plan.target.ballast_partitions - first),
            leaders="spread",
            first_leader=1,
            settings={},
        )
        for number, first in enumerate(left)
    ]


def create(
    cluster: Cluster,
    plan: KafkaPlan,
    make: Callable[[KafkaPlan, float], None],
    leadership: Callable[[KafkaPlan], brokers.Leadership],
    deadline: float,
) -> None:
    """Make one topic after the other by `make`, and wait until every broker reports every replica
    in sync. Where an earlier run on this cluster has made them, its faults have moved leaders: they
    are moved back. Raises PlanError for more partitions than the nodes can hold, TimeoutError."""
    if not plan.target.ballast_partitions:
        return
    nodes = with_role(cluster, "broker")
    for node in nodes:
        refuse_too_many(node, plan)
    deadline += plan.target.ballast_partitions * CREATED_S
    views = {node.name: BallastView(node.address, plan) for node in nodes}
    for topic in topics(plan):
        make(topic, deadline)
    await_none(cluster, lambda: _missing(views, plan), deadline)
    rows = next(iter(views.values())).rows(timeout_s=brokers.ASK_S)
    leads = {number: leader for number, leader, *_ in rows}
    for number, topic in enumerate(topics(plan)):
        placed = assignment(topic)
        moved = [p for p, ids in placed.items() if leads[number * PER_TOPIC + p] != ids[0]]
        if moved and (refused := leadership(topic).elect(moved)):
            raise HarnessFailure(f"{topic.topic.name}: no election: {next(iter(refused.values()))}")
    for view in views.values():
        view.close()


def _missing(views: Mapping[str, BallastView], plan: KafkaPlan) -> str | None:
    """What the first broker that lacks something does not report, or `None`."""
    for name, view in views.items():
        try:
            rows = view.rows(timeout_s=brokers.ASK_S)
        except NoAnswer:
            return f"{name} does not answer"
        whole = sum(isr == plan.topic.replication_factor for *_, isr in rows)
        if whole < plan.target.ballast_partitions:
            wanted = f"{plan.target.ballast_partitions:,} ballast partitions"
            return f"{name} reports {whole:,} of {wanted} as fully replicated"
    return None


def refuse_too_many(node: Node, plan: KafkaPlan) -> None:
    """Raise PlanError where a node's broker may not open, or not map, as many files as it would
    have to."""
    status = f"cat /proc/{node.pid()}/limits; echo maps $(cat /proc/sys/vm/max_map_count)"
    found = node.admin(["sh", "-c", status]).output
    most = {
        "open files": (_OPEN, re.search(r"Max open files\s+(\d+)", found)),
        "mapped files (vm.max_map_count)": (_MAPPED, re.search(r"maps (\d+)", found)),
    }
    for what, (each, limit) in most.items():
        if limit is None:
            continue
        replicas, number = plan.topic.replication_factor, plan.target.ballast_partitions
        files = max(0, int(limit[1]) - _SPARE_FILES)
        room = files // each * plan.target.brokers // replicas
        if number > room:
            raise PlanError(
                f"{number:,} partitions of {replicas} replicas on {plan.target.brokers} brokers "
                f"are more than this machine carries: {node.name} is limited to {limit[1]} {what}",
                key="target.ballast_partitions",
                hint=f"use at most {room:,}, or raise the limit",
            )


Row = tuple[int, int, int, int]
"""A partition by its number over all topics, its leader's id (-1: none), the leader epoch, and how
many replicas are in sync."""

_REQUEST: Final = struct.Struct(">hhih")
_SHORT, _INT = struct.Struct(">h"), struct.Struct(">i")
_PARTITION: Final = struct.Struct(">hiiii")
_METADATA, _VERSION = 3, 7
"""The oldest version with leader epochs; Kafka has had it since 2.1."""


@dataclass
class BallastView:
    """One broker's view of these partitions, query after query."""

    address: str
    plan: KafkaPlan
    _connection: brokers.Connection | None = None
    _answer: bytes = b""
    _known: dict[int, tuple[int, int]] = field(default_factory=dict)

    def changes(self, *, timeout_s: float) -> list[PartitionView] | None:
        """The partitions whose leader or leader epoch differ from what the last call found; `None`
        if the broker does not answer."""
        before = self._answer
        try:
            rows = self.rows(timeout_s=timeout_s)
        except NoAnswer:
            return None
        if self._answer == before:
            return []
        changed = [row for row in rows if self._known.get(row[0]) != row[1:3]]
        self._known.update((number, (leader, epoch)) for number, leader, epoch, _ in changed)
        return [
            PartitionView(
                partition=number,
                leader=brokers.broker_name(leader) if leader >= 0 else None,
                leader_epoch=epoch,
                members=(),
            )
            for number, leader, epoch, _ in changed
        ]

    def rows(self, *, timeout_s: float) -> Iterator[Row]:
        """All of them, decoded as far as they are used. Raises NoAnswer."""
        deadline = time.monotonic() + timeout_s
        names = [topic.topic.name.encode() for topic in topics(self.plan)]
        body = _INT.pack(len(names)) + b"".join(_SHORT.pack(len(n)) + n for n in names) + b"\0"
        request = _REQUEST.pack(_METADATA, _VERSION, 0, 7) + b"ackloss" + body
        try:
            if self._connection is None:
                self._connection = brokers.Connection(
                    self.address, BROKER_PORT, timeout_s=timeout_s
                )
            left_s = max(0.001, deadline - time.monotonic())
            framed = _INT.pack(len(request)) + request
            self._answer = _topics_in(self._connection.exchange(framed, timeout_s=left_s))
            return _rows(self._answer)
        except (NoAnswer, struct.error) as error:
            self.close()
            raise NoAnswer(f"{self.address}: {error}") from error

    def close(self) -> None:
        """End the connection; the next query makes another."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _topics_in(answer: bytes) -> bytes:
    """The part of an answer that is about topics: behind its size, correlation id, throttle time,
    brokers, cluster id and controller."""
    (count,), at = _INT.unpack_from(answer, 12), 16
    for _ in range(count):
        at = _behind_text(answer, at + 4) + 4
        at = _behind_text(answer, at)
    return answer[_behind_text(answer, at) + 4 :]


def _behind_text(answer: bytes, at: int) -> int:
    (length,) = _SHORT.unpack_from(answer, at)
    return at + 2 + max(0, int(length))


def _rows(answer: bytes) -> Iterator[Row]:
    """The partitions of the topics that the broker knows."""
    (count,), at = _INT.unpack_from(answer, 0), 4
    for _ in range(count):
        (length,) = _SHORT.unpack_from(answer, at + 2)
        name = answer[at + 4 : at + 4 + length].decode()
        first = int(name.removeprefix(PREFIX)) * PER_TOPIC
        at += 4 + length + 1
        (partitions,) = _INT.unpack_from(answer, at)
        at += 4
        for _ in range(partitions):
            _, index, leader, epoch, replicas = _PARTITION.unpack_from(answer, at)
            at += _PARTITION.size + 4 * replicas
            (in_sync,) = _INT.unpack_from(answer, at)
            at += 4 + 4 * in_sync
            (offline,) = _INT.unpack_from(answer, at)
            at += 4 + 4 * offline
            yield first + index, leader, epoch, in_sync
