"""A consumer's process over confluent-kafka (librdkafka): `python -m ... SETUP`, SETUP in JSON.

Which member of a group it is, it hands to others in bytes: its magic, the generation or member
epoch (32 bits, little endian), the group and the member, each with a 0 after it
(`rd_kafka_consumer_group_metadata_write` in rdkafka_cgrp.c).
"""

from __future__ import annotations

import json
import logging
import struct
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from targets.kafka.groups.loop import Answer, ConsumerLoop, Offsets, Record, end_with_the_harness

_MAGIC: Final = b"CGMDv2:"
_GENERATION: Final = struct.Struct("<i")


class Membership(NamedTuple):
    """A member of a group; a generation below 0: not a member yet."""

    generation: int
    group: str
    member: str


def membership(metadata: object) -> Membership | None:
    """What `Consumer.consumer_group_metadata` states; `None` for anything else."""
    if not isinstance(metadata, bytes) or not metadata.startswith(_MAGIC):
        return None
    (generation,) = _GENERATION.unpack_from(metadata, len(_MAGIC))
    group, member, *_ = metadata[len(_MAGIC) + _GENERATION.size :].split(b"\0")
    return Membership(generation, group.decode(), member.decode())


REFUSED: Final = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError._NO_OFFSET,
    }
)
"""Answers to a commit that say that it was not kept."""

_POLL_S: Final = 0.1
_COMMITTED_S: Final = 10.0


class Librdkafka(ConsumerLoop):
    """See `targets.kafka.groups.loop`."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        self._consumer: Consumer | None = None
        self._known: tuple[str | None, int | None] = None, None
        super().__init__(setup)
        logger = logging.getLogger("consumer")
        logger.addHandler(logging.StreamHandler(sys.stderr))
        settings = {**setup["settings"], "on_commit": self._committed}
        self._consumer = consumer = Consumer(settings, logger=logger)
        self.report.say("start")
        if (own := setup["partitions"]) is None:
            consumer.subscribe(
                [self.topic],
                on_assign=self._assigned,
                on_revoke=lambda _, places: self.revoked(each.partition for each in places),
                on_lost=lambda _, places: self.revoked((p.partition for p in places), "lost"),
            )
        else:
            places = [TopicPartition(self.topic, partition) for partition in own]
            self._assigned(consumer, places)
            consumer.assign(places)

    def poll(self) -> list[Record]:
        """See `ConsumerLoop`; errors go to the log."""
        records: list[Record] = []
        found = self._one.consume(self.batch, timeout=_POLL_S)
        self._identify()
        for message in found:
            partition, offset = message.partition(), message.offset()
            if (error := message.error()) is not None:
                print(error, file=sys.stderr, flush=True)
            elif partition is not None and offset is not None:
                records.append((partition, offset, int(message.value() or b"")))
        return records

    def commit_and_wait(self, offsets: Offsets) -> Iterable[Answer]:
        places = self._places(offsets)
        try:
            answered = self._one.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            return _answers(places, error.args[0])
        return _answers(answered or [], None)

    def commit_soon(self, offsets: Offsets) -> None:
        places = self._places(offsets)
        try:
            self._one.commit(offsets=places, asynchronous=True)
        except KafkaException as error:
            self.answered(_answers(places, error.args[0]))

    def close(self) -> None:
        self._one.close()

    def identity(self) -> tuple[str | None, int | None]:
        """See `ConsumerLoop`: as it was at the last poll or assignment. To ask within a callback of
        `close` would wait for what waits for it."""
        return self._known

    def _identify(self) -> None:
        if (known := membership(self._one.consumer_group_metadata())) is not None:
            generation = known.generation if known.generation >= 0 else None
            self._known = known.member or None, generation

    @property
    def _one(self) -> Consumer:
        assert self._consumer is not None
        return self._consumer

    def _places(self, offsets: Offsets) -> list[TopicPartition]:
        return [TopicPartition(self.topic, p, offset) for p, offset in offsets.items()]

    def _committed(self, error: KafkaError | None, places: list[TopicPartition]) -> None:
        """librdkafka's report of a commit that was not waited for, its own ones too."""
        self.answered(_answers(places, error))

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        begun_ns = time.monotonic_ns()
        if self._consumer is not None:
            self._identify()
        try:
            known = consumer.committed(places, timeout=_COMMITTED_S)
        except KafkaException as error:
            unknown = dict.fromkeys((each.partition for each in places), None)
            self.assigned(unknown, begun_ns, error.args[0].name())
        else:
            starts = {p.partition: p.offset if p.offset >= 0 else None for p in known}
            self.assigned(starts, begun_ns)


def _answers(places: Iterable[TopicPartition], error: KafkaError | None) -> Iterable[Answer]:
    """How each partition's commit ended; without an offset there was none."""
    for place in places:
        if place.offset < 0:
            continue
        why = place.error or error
        name = None if why is None else why.name()
        refused = why is not None and why.code() in REFUSED
        yield Answer(place.partition, place.offset, name, refused)


def main() -> None:
    """Run the process."""
    end_with_the_harness()
    Librdkafka(json.loads(sys.argv[1])).run()


if __name__ == "__main__":
    main()
