"""A consumer's process over kafka-python: `python -m ... SETUP`, SETUP in JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    IllegalGenerationError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

from targets.kafka.groups.loop import Answer, ConsumerLoop, Offsets, Record, end_with_the_harness

REFUSED: Final = (
    CommitFailedError,
    FencedInstanceIdError,
    IllegalGenerationError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
"""Answers to a commit that say that it was not kept."""

_STRATEGY: Final = "partition_assignment_strategy"
_ASSIGNORS: Final = {
    "range": RangePartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
_POLL_MS: Final = 100


class KafkaPython(ConsumerLoop, ConsumerRebalanceListener):  # type: ignore[misc]  # untyped
    """See `targets.kafka.groups.loop`."""

    sends_again = False

    def __init__(self, setup: Mapping[str, Any]) -> None:
        self._consumer: Any = None
        self._new: list[TopicPartition] = []
        super().__init__(setup)
        self._consumer = KafkaConsumer(
            **_settings(setup["settings"]), default_offset_commit_callback=self._committed
        )
        self.report.say("start")
        if (own := setup["partitions"]) is None:
            self._consumer.subscribe([self.topic], listener=self)
        else:
            places = [TopicPartition(self.topic, partition) for partition in own]
            self._consumer.assign(places)
            self._new = places

    def poll(self) -> list[Record]:
        found = self._consumer.poll(timeout_ms=_POLL_MS, max_records=self.batch)
        if self._new:
            self._ask_committed()
        return [
            (place.partition, record.offset, int(record.value))
            for place, records in found.items()
            for record in records
        ]

    def commit_and_wait(self, offsets: Offsets) -> Iterable[Answer]:
        try:
            self._consumer.commit(self._places(offsets))
        except KafkaError as error:
            return list(_answers(offsets, error))
        return list(_answers(offsets, None))

    def commit_soon(self, offsets: Offsets) -> None:
        self._consumer.commit_async(self._places(offsets), callback=self._committed)

    def close(self) -> None:
        self._consumer.close()

    def identity(self) -> tuple[str | None, int | None]:
        coordinator = getattr(self._consumer, "_coordinator", None)
        generation = getattr(coordinator, "_generation", None)
        if generation is None or generation.generation_id < 0:
            return None, None
        return generation.member_id or None, generation.generation_id

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Note them: nothing can be queried in here, because this is the library's own thread."""
        self._new += assigned

    def _ask_committed(self) -> None:
        """Ask what is committed of what was assigned, before any record of it is reported."""
        begun_ns, places = time.monotonic_ns(), self._new
        self._new = []
        try:
            starts = {place.partition: self._consumer.committed(place) for place in places}
        except KafkaError as error:
            unknown = dict.fromkeys((place.partition for place in places), None)
            self.assigned(unknown, begun_ns, type(error).__name__)
        else:
            self.assigned(starts, begun_ns)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.revoked(place.partition for place in revoked)

    def _committed(self, offsets: Any, answer: object) -> None:
        """The report of a commit that was not waited for: an exception, or that it was kept."""
        error = answer if isinstance(answer, Exception) else None
        by_partition = {place.partition: kept.offset for place, kept in (offsets or {}).items()}
        self.answered(_answers(by_partition, error))

    def _places(self, offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            TopicPartition(self.topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }


def _answers(offsets: Offsets, error: Exception | None) -> Iterable[Answer]:
    name = None if error is None else type(error).__name__
    for partition, offset in offsets.items():
        yield Answer(partition, offset, name, isinstance(error, REFUSED))


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    made = {key: tuple(v) if isinstance(v, list) else v for key, v in given.items()}
    strategy = given.get(_STRATEGY)
    return made | ({_STRATEGY: [_ASSIGNORS[strategy]]} if strategy else {})


def main() -> None:
    """Run the process."""
    end_with_the_harness()
    KafkaPython(json.loads(sys.argv[1])).run()


if __name__ == "__main__":
    main()
