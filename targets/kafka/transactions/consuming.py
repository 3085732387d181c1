"""One member of the group that consumes inputs, whose offsets transactions take along.

It reads what has committed, from the offset that the group has stored. Where a transaction did not
certainly commit, it goes back to what is stored: a consumer's own position has gone past what is
not processed yet.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from harness.models.micro_ops import POLL, REBALANCED, MicroOp
from targets.kafka.records import value_of
from targets.kafka.transactions.librdkafka import named
from targets.kafka.transactions.producing import Consumed

_LOG: Final = logging.getLogger("ackloss.kafka.consumer")

_WAIT_S: Final = 0.3
_STORED_S: Final = 5.0


class GroupConsumer:
    """A consumer of the first topic that is made when it is needed. Used by one thread."""

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        self._settings, self._topic = settings, topic
        self._consumer: Consumer | None = None
        self._moved: set[int] = set()
        self._back = False

    def poll(self, at_most: int) -> list[MicroOp]:
        """The next records, and which partitions came or went meanwhile. Raises ClientError."""
        with named():
            return self._poll(at_most)

    def _poll(self, at_most: int) -> list[MicroOp]:
        consumer = self._subscribed()
        self._moved.clear()
        if self._back:
            self._go_back(consumer)
        polled: list[MicroOp] = []
        for message in consumer.consume(at_most, timeout=_WAIT_S):
            partition, offset = message.partition(), message.offset()
            if (error := message.error()) is not None:
                raise KafkaException(error)
            if partition is not None and offset is not None:
                value = value_of(message.value(), offset)
                polled.append(MicroOp(POLL, partition, offset, value))
        return [*(MicroOp(REBALANCED, each) for each in sorted(self._moved)), *polled]

    def consumed(self, polled: Iterable[MicroOp]) -> Consumed:
        """How far this member of the group has consumed with these records. Raises ClientError."""
        behind = {each.key: each.offset + 1 for each in polled if each.kind == POLL}
        with named():
            return Consumed(self._subscribed().consumer_group_metadata(), self._topic, behind)

    def commit(self, consumed: Consumed) -> None:
        """Store offsets outside of any transaction. Raises ClientError."""
        places = [TopicPartition(consumed.topic, *each) for each in consumed.offsets.items()]
        with named():
            self._subscribed().commit(offsets=places, asynchronous=False)

    def go_back(self) -> None:
        """Begin the next poll where the group has stored."""
        self._back = True

    def close(self) -> None:
        """Leave the group."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def crash(self) -> None:
        """Be gone without a word: without `close` it neither leaves the group nor commits, and the
        group waits for it until its session ends."""
        self._consumer = None

    def _subscribed(self) -> Consumer:
        if self._consumer is None:
            self._consumer, self._back = Consumer(dict(self._settings), logger=_LOG), False
            self._consumer.subscribe(
                [self._topic], on_assign=self._dealt, on_revoke=self._dealt, on_lost=self._dealt
            )
        return self._consumer

    def _dealt(self, _: Consumer, places: list[TopicPartition]) -> None:
        self._moved.update(each.partition for each in places)

    def _go_back(self, consumer: Consumer) -> None:
        """To what is stored, which waits for transactions that have stored and not ended."""
        try:
            own = consumer.assignment()
            for place in consumer.committed(own, timeout=_STORED_S) if own else ():
                if place.error is not None:
                    raise KafkaException(place.error)
                place.offset = max(0, place.offset)
                consumer.seek(place)
        except KafkaException:
            self.close()  # the next one begins there
            raise
        self._back = False
