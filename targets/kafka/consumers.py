"""The two client libraries that read, each from a log's start to its end, with all that went wrong.

A consumer that meets an error may go on behind it as if nothing had been there: librdkafka tells of
a batch with a wrong checksum once, and hands over what follows. So every error is kept, by the
partition that it names or for all of them where it names none, and whoever reads the result takes
no partition with an error for complete. `HARMLESS` is the list of those that mean nothing here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PyTopicPartition
from kafka import errors as theirs

from targets.kafka.clients.library import librdkafka_protocol
from targets.kafka.eras import era_for
from targets.kafka.plan import KafkaPlan
from targets.kafka.records import Columns

HARMLESS: Final[Mapping[int, str]] = {
    KafkaError._TRANSPORT: "a connection broke: it connects and fetches again where it was",
    KafkaError._ALL_BROKERS_DOWN: "every connection broke: the same",
    KafkaError._RESOLVE: "a connection could not be made: the same",
    KafkaError._TIMED_OUT: "a request was not answered in time: it is sent again",
}
"""librdkafka's own codes for connections, and why they end no read: they move no position, and what
is fetched again is the same. The end of a partition (_PARTITION_EOF) is no
error at all. One that does name a partition counts, and so does every code of a broker: a settled
cluster has none."""

_BATCH: Final = 10_000
_WAIT_S: Final = 0.2


@dataclass
class Reading:
    """One consumer's way from `starts` to `goals`, offsets by partition: what it has read, the next
    offset, and the first error of each partition."""

    starts: Mapping[int, int]
    goals: Mapping[int, int]
    columns: Columns = field(default_factory=Columns)
    position: dict[int, int] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.position = dict(self.starts)

    def reach(self, partition: int, offset: int) -> None:
        """The next offset to be read is this, or a later one."""
        self.position[partition] = max(offset, self.position[partition])

    def fail(self, partition: int | None, error: str) -> None:
        """It met an error; null: one that names no partition."""
        for each in self.starts if partition is None else [partition]:
            self.errors.setdefault(each, error)

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
    consumer = Consumer(
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
    try:
        places = [TopicPartition(plan.topic.name, p, first) for p, first in reading.starts.items()]
        consumer.assign(places)
        while not reading.ended() and time.monotonic() < deadline:
            for message in consumer.consume(_BATCH, timeout=_WAIT_S):
                _take(message, reading)
    except KafkaException as error:
        reading.fail(None, _told(error.args[0]))
    finally:
        consumer.close()


def _take(message: Any, reading: Reading) -> None:
    error, partition, offset = message.error(), message.partition(), message.offset()
    if error is None:
        epoch = message.leader_epoch()
        reading.columns.add(partition, offset, message.key(), message.value(), epoch)
        reading.reach(partition, offset + 1)
    elif error.code() == KafkaError._PARTITION_EOF:
        reading.reach(partition, offset)
    elif error.fatal() or error.code() not in HARMLESS or partition in reading.starts:
        reading.fail(partition if partition in reading.starts else None, _told(error))


def _told(error: KafkaError) -> str:
    return f"{error.name()}: {error.str()}"


def read_with_kafka_python(
    addresses: str,
    plan: KafkaPlan,
    reading: Reading,
    deadline: float,
    more: Mapping[str, Any] = {},
) -> None:
    """Read on until it has ended, or the deadline. What it recovers from by itself it does not
    tell; anything that it raises ends the read: behind an error its next poll might never return.
    """
    try:
        consumer = KafkaConsumer(
            bootstrap_servers=addresses.split(","),
            bootstrap_timeout_ms=max(1, int(1000 * (deadline - time.monotonic()))),
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_uncommitted",
            auto_offset_reset="none",
            check_crcs=True,
            max_poll_records=_BATCH,
            api_version=era_for(plan).speaks,
            **more,
        )
    except theirs.KafkaError as error:
        reading.fail(None, f"{type(error).__name__}: {error}")
        return
    try:
        places = {PyTopicPartition(plan.topic.name, p): p for p in reading.starts}
        consumer.assign(list(places))
        for place, partition in places.items():
            consumer.seek(place, reading.starts[partition])
        while not reading.ended() and time.monotonic() < deadline:
            try:
                polled = consumer.poll(timeout_ms=int(1000 * _WAIT_S))
                positions = {places[place]: consumer.position(place) for place in places}
            except Exception as error:  # the library's, or whatever it makes of damaged bytes
                reading.fail(None, f"{type(error).__name__}: {error}")
                return
            _take_all(polled, positions, reading)
    finally:
        consumer.close()


def _take_all(
    polled: Mapping[Any, Any], positions: Mapping[int, int | None], reading: Reading
) -> None:
    for place, records in polled.items():
        for record in records:
            epoch = getattr(record, "leader_epoch", None)
            reading.columns.add(place.partition, record.offset, record.key, record.value, epoch)
    for partition, position in positions.items():
        if position is not None:  # not known for the moment
            reading.reach(partition, position)
