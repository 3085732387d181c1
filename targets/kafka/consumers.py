"""How far a reader got, with all errors; and the client library that is the second reader.

A consumer that meets an error may continue after it as if nothing had happened: librdkafka reports
a batch with a wrong checksum once, and hands over what follows. So every error is kept, by the
partition that it names or for all partitions if it names none, and no reader of the result takes a
partition with an error for complete. `HARMLESS` is the list of those that mean nothing here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from numpy.typing import NDArray

from harness.protocols import Range
from targets.kafka.clients.library import librdkafka_protocol
from targets.kafka.log_reader.columns import Chunks
from targets.kafka.log_reader.records import Span
from targets.kafka.plan import KafkaPlan
from targets.kafka.records import Columns

HARMLESS: Final[Mapping[int, str]] = {
    KafkaError._TRANSPORT: "a connection broke: it connects and fetches again where it was",
    KafkaError._ALL_BROKERS_DOWN: "every connection broke: the same",
    KafkaError._RESOLVE: "a connection could not be made: the same",
    KafkaError._TIMED_OUT: "a request was not answered in time: it is sent again",
}
"""librdkafka's own codes for connections, and why they end no read: they move no position, and what
is fetched again is the same. The end of a partition (_PARTITION_EOF) is not an error. One that does
name a partition counts, and so does every code of a broker: a fully replicated cluster has none."""

_BATCH: Final = 10_000
_WAIT_S: Final = 0.2


@dataclass
class Reading:
    """One reader's progress from `starts` to `goals`, offsets by partition: what it has read, the
    next offset, and the first error of each partition. Records come one by one (`columns`) or many
    at a time (`chunks`). `spans`: batches of transactions, of a reader that hands them over; one
    may come twice. `brokers`: which ones records came from, of a reader that knows."""

    starts: Mapping[int, int]
    goals: Mapping[int, int]
    columns: Columns = field(default_factory=Columns)
    chunks: Chunks = field(default_factory=Chunks)
    position: dict[int, int] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    spans: dict[int, list[Span]] = field(default_factory=dict)
    brokers: dict[int, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.position = dict(self.starts)

    def reach(self, partition: int, offset: int) -> None:
        """The next offset to be read is this, or a later one."""
        self.position[partition] = max(offset, self.position[partition])

    def fail(self, partition: int | None, error: str) -> None:
        """It met an error; null: one that names no partition."""
        for each in self.starts if partition is None else [partition]:
            self.errors.setdefault(each, error)

    def offsets(self, partition: int) -> NDArray[np.int64]:
        """Those of a partition's records, in the order in which they came."""
        return np.concatenate([self.columns.offsets(partition), self.chunks.offsets(partition)])

    def table(self, reader: str) -> pa.Table:
        """All records as rows of READS without their run."""
        chunks = self.chunks.table(reader)
        columns = self.columns.table(reader).select(chunks.column_names).cast(chunks.schema)
        return pa.concat_tables([columns, chunks])

    def ended(self) -> bool:
        """Whether there is nothing to wait for: each partition is at its goal, or has an error."""
        return all(
            self.position[partition] >= goal or partition in self.errors
            for partition, goal in self.goals.items()
        )


def read_with_librdkafka(
    addresses: str,
    plan: KafkaPlan,
    reading: Reading,
    deadline: float,
    more: Mapping[str, Any] = {},
) -> None:
    """Read on until it has ended, or the deadline. `more`: how the cluster is reached, beside its
    addresses."""
    consumer = _consumer(addresses, plan, more)
    try:
        places = [TopicPartition(plan.topic.name, p, first) for p, first in reading.starts.items()]
        consumer.assign(places)
        while not reading.ended() and time.monotonic() < deadline:
            for message in consumer.consume(_BATCH, timeout=_WAIT_S):
                _take(message, reading)
    except KafkaException as error:
        reading.fail(None, _named(error.args[0]))
    finally:
        consumer.close()


def read_ranges_with_librdkafka(
    addresses: str,
    plan: KafkaPlan,
    ranges: Mapping[int, Sequence[Range]],
    deadline: float,
    more: Mapping[str, Any] = {},
) -> tuple[Reading, dict[int, int]]:
    """Read these ranges of partitions, and where each partition ends, as the library itself
    determines. Each partition's position is the end of the last range that was read."""
    starts = {partition: each[0].first for partition, each in ranges.items() if each}
    reading = Reading(
        starts=starts, goals={p: each[-1].behind for p, each in ranges.items() if each}
    )
    consumer, ends = _consumer(addresses, plan, more), dict[int, int]()
    try:
        for partition, of_partition in ranges.items():
            for each in of_partition:
                _read_range(consumer, plan.topic.name, partition, each, reading, deadline)
            place = TopicPartition(plan.topic.name, partition)
            left_s = max(0.1, deadline - time.monotonic())
            _, ends[partition] = consumer.get_watermark_offsets(place, timeout=left_s)
    except KafkaException as error:
        reading.fail(None, _named(error.args[0]))
    finally:
        consumer.close()
    return reading, ends


def _read_range(
    consumer: Consumer, topic: str, partition: int, each: Range, reading: Reading, deadline: float
) -> None:
    """Read on in one partition until the range has ended, an error, or the deadline."""
    consumer.assign([TopicPartition(topic, partition, each.first)])
    one = Reading(starts={partition: each.first}, goals={partition: each.behind})
    while not one.ended() and time.monotonic() < deadline:
        room = min(_BATCH, each.behind - one.position[partition])
        for message in consumer.consume(room, timeout=_WAIT_S):
            offset = message.offset()
            if message.error() or (offset is not None and each.first <= offset < each.behind):
                _take(message, one)
    reading.columns.extend(one.columns)
    reading.reach(partition, one.position[partition])
    for _, error in one.errors.items():
        reading.fail(partition, error)


def _consumer(addresses: str, plan: KafkaPlan, more: Mapping[str, Any]) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": addresses,
            "group.id": "ackloss-final-read",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
            "auto.offset.reset": "error",
            "check.crcs": True,
            **librdkafka_protocol(plan),
            **more,
        }
    )


def _take(message: Any, reading: Reading) -> None:
    error, partition, offset = message.error(), message.partition(), message.offset()
    if error is None:
        epoch = message.leader_epoch()
        reading.columns.add(partition, offset, message.key(), message.value(), epoch)
        reading.reach(partition, offset + 1)
    elif error.code() == KafkaError._PARTITION_EOF:
        reading.reach(partition, offset)
    elif error.fatal() or error.code() not in HARMLESS or partition in reading.starts:
        reading.fail(partition if partition in reading.starts else None, _named(error))


def _named(error: KafkaError) -> str:
    return f"{error.name()}: {error.str()}"
