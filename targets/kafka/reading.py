"""The final read: every partition from its log start to its end, with either client library.

The end of each partition, its leader and epoch are noted before and after; when they changed in
between, everything is read again. Reading is read_uncommitted and fails on an offset reset: what is
missing was not there. Progress is the consumer's position, since control records leave gaps.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PyTopicPartition
from kafka.errors import CorruptRecordError

from harness.errors import HarnessFailure
from harness.history import READS
from harness.observer import merge
from harness.plan import Plan
from harness.protocols import Cluster, End
from targets.kafka.brokers import EARLIEST, LATEST, offset
from targets.kafka.clients.library import (
    CONFLUENT,
    KAFKA_PYTHON,
    bootstrap,
    librdkafka_protocol,
)
from targets.kafka.eras import era_for
from targets.kafka.modes import mode_of

_TRIES = 3


@dataclass
class _Columns:
    """Records as columns; `leader_epoch` is -1 where the library tells none."""

    partition: array[int] = field(default_factory=lambda: array("i"))
    offset: array[int] = field(default_factory=lambda: array("q"))
    value: array[int] = field(default_factory=lambda: array("q"))
    leader_epoch: array[int] = field(default_factory=lambda: array("i"))
    time_ns: array[int] = field(default_factory=lambda: array("q"))

    def add(self, partition: int, offset: int, raw: bytes | None, epoch: int | None) -> None:
        self.partition.append(partition)
        self.offset.append(offset)
        self.value.append(_value(raw, offset))
        self.leader_epoch.append(-1 if epoch is None else epoch)
        self.time_ns.append(time.monotonic_ns())

    def table(self, reader: str) -> pa.Table:
        rows = len(self.offset)
        epochs = np.frombuffer(self.leader_epoch, dtype=np.int32)
        columns = {
            "reader": pa.array([reader] * rows, pa.string()).cast(READS.field("reader").type),
            "key": pa.nulls(rows, READS.field("key").type),
            "partition": pa.array(np.frombuffer(self.partition, dtype=np.int32)),
            "offset": pa.array(np.frombuffer(self.offset, dtype=np.int64)),
            "value": pa.array(np.frombuffer(self.value, dtype=np.int64)),
            "leader_epoch": pa.array(epochs, mask=epochs < 0),
            "time_ns": pa.array(np.frombuffer(self.time_ns, dtype=np.int64)),
        }
        return pa.table(columns)


def _value(raw: bytes | None, offset: int) -> int:
    """The integer that was written. What is no integer of ours can be no attempted value either:
    it becomes a negative number, which is never attempted, and so counts as unexpected."""
    try:
        return int(raw or b"")
    except ValueError:
        return -1 - offset


def read_all(
    cluster: Cluster, plan: Plan, *, reader: str, timeout_s: float
) -> tuple[pa.Table, list[End]]:
    """See `harness.protocols.Target.read_all`."""
    deadline = time.monotonic() + timeout_s
    library = {CONFLUENT: _confluent, KAFKA_PYTHON: _kafka_python}[reader]
    for _ in range(_TRIES):
        before = _ends(cluster, plan)
        columns = _Columns()
        position = {p: end.log_start_offset or 0 for p, end in before.items()}
        goals = {p: end.end_offset for p, end in before.items() if end.end_offset is not None}
        for reached in library(cluster, plan, before, columns, deadline):
            position = {p: max(was, reached.get(p, 0)) for p, was in position.items()}
            if all(position[p] >= goal for p, goal in goals.items()):
                break
        after = _ends(cluster, plan)
        unchanged = {
            p: end.end_offset is not None
            and (end.leader_epoch, end.end_offset) == (after[p].leader_epoch, after[p].end_offset)
            for p, end in before.items()
        }
        if all(unchanged.values()):
            break
    ends = [_with_position(end, position[p], unchanged[p]) for p, end in sorted(before.items())]
    return columns.table(reader), ends


def _with_position(end: End, position: int, unchanged: bool) -> End:
    reached = end.end_offset is not None and position >= end.end_offset
    return End(**{**vars(end), "position": position, "complete": reached and unchanged})


def _ends(cluster: Cluster, plan: Plan) -> dict[int, End]:
    """Log start and end of every partition as its leader tells them; the leader is whom all nodes'
    answers together name."""
    mode = mode_of(plan)
    answers = [mode.observe(node, plan, timeout_s=2) for node in cluster.nodes.values()]
    views = merge(0, [(0, view) for view in answers if view]).partitions
    ends = {}
    for partition in range(plan.topic.partitions):
        view = views.get(partition)
        leader = cluster.nodes[view.leader] if view and view.leader else None
        ends[partition] = End(
            partition=partition,
            log_start_offset=offset(leader, plan, partition, EARLIEST) if leader else None,
            end_offset=offset(leader, plan, partition, LATEST) if leader else None,
            position=None,
            leader=view.leader if view else None,
            leader_epoch=view.leader_epoch if view else None,
            isr=view.isr if view else (),
            complete=False,
        )
    return ends


def _confluent(
    cluster: Cluster, plan: Plan, ends: Mapping[int, End], columns: _Columns, deadline: float
) -> Iterator[Mapping[int, int]]:
    """Read with librdkafka; yields the next offset by partition as it goes on."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap(cluster),
            "group.id": "ackloss-final-read",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
            "auto.offset.reset": "error",
            "check.crcs": True,
            **librdkafka_protocol(plan),
        }
    )
    try:
        consumer.assign(
            [TopicPartition(plan.topic.name, p, e.log_start_offset or 0) for p, e in ends.items()]
        )
        while time.monotonic() < deadline:
            reached: dict[int, int] = {}
            for message in consumer.consume(10_000, timeout=0.2):
                error, partition, offset = message.error(), message.partition(), message.offset()
                if partition is None or offset is None:
                    continue  # an event of no partition, such as a broker that went away
                if error is None:
                    columns.add(partition, offset, message.value(), message.leader_epoch())
                    reached[partition] = offset + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    reached[partition] = offset
                elif error.code() == KafkaError._AUTO_OFFSET_RESET or error.fatal():
                    raise HarnessFailure(f"the final read lost its place: {error.str()}")
            yield reached
    finally:
        consumer.close()


def _kafka_python(
    cluster: Cluster, plan: Plan, ends: Mapping[int, End], columns: _Columns, deadline: float
) -> Iterator[Mapping[int, int]]:
    """Read with kafka-python; yields the next offset by partition as it goes on."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap(cluster).split(","),
        group_id=None,
        enable_auto_commit=False,
        isolation_level="read_uncommitted",
        auto_offset_reset="none",
        max_poll_records=10_000,
        api_version=era_for(plan).speaks,
    )
    try:
        places = {PyTopicPartition(plan.topic.name, p): end for p, end in ends.items()}
        consumer.assign(list(places))
        for place, end in places.items():
            consumer.seek(place, end.log_start_offset or 0)
        while time.monotonic() < deadline:
            for place, records in consumer.poll(timeout_ms=200).items():
                for record in records:
                    epoch = getattr(record, "leader_epoch", None)
                    columns.add(place.partition, record.offset, record.value, epoch)
            yield {place.partition: consumer.position(place) for place in places}
    except CorruptRecordError:
        return  # no reader gets past a batch with a wrong checksum: the read is not complete
    finally:
        consumer.close()
