"""One consumer that polls all partitions on the way, and reads some of them to the end at last.

A read_committed consumer takes the last stable offset for the end, and so gets nothing after an
open transaction. So the final read waits until both isolation levels name the same end of a
partition, and reads up to there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from harness.models.micro_ops import END, POLL, MicroOp, elements_of
from harness.protocols import FAIL, INFO, OK, Cluster, Completion, completion, with_role
from harness.protocols.transactions import NOT_AT_END, READ_COMMITTED
from targets.kafka import brokers
from targets.kafka.clients.library import bootstrap
from targets.kafka.consumers import Reading, read_with_librdkafka
from targets.kafka.plan import KafkaPlan
from targets.kafka.records import value_of
from targets.kafka.transactions.topics import Logs

# librdkafka's own log lines: where the command line sends them, and nowhere if it does not.
_LOG: Final = logging.getLogger("ackloss.kafka.consumer")
_LOG.addHandler(logging.NullHandler())

_BATCH: Final = 500
_WAIT_S: Final = 0.2
_AGAIN_S: Final = 0.2
_READ_S: Final = 30.0
_RESET: Final = "_AUTO_OFFSET_RESET"


class Poller:
    """A consumer with all logs assigned, made when it is needed. What it returns are
    micro-operations of `kind`. Used by one thread."""

    def __init__(self, settings: Mapping[str, Any], logs: Logs, kind: int = POLL) -> None:
        self._settings, self._logs, self._kind = settings, logs, kind
        self._positions = dict.fromkeys(range(len(logs)), 0)
        self._consumer: Consumer | None = None

    def poll(self) -> Completion:
        """The next records. Where the consumer's position is not in the log any more (a partition
        was truncated after it) it is info: the process that follows begins at 0."""
        try:
            messages = self._assigned().consume(_BATCH, timeout=_WAIT_S)
        except KafkaException as raised:
            self.close()
            return completion(FAIL, error=str(raised.args[0].name()))
        polled, why = [], None
        for message in messages:
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is not None:
                why = _RESET if error.code() == KafkaError._AUTO_OFFSET_RESET else error.name()
                if why == _RESET:
                    break
            elif partition is not None and offset is not None:
                value = value_of(message.value(), offset)
                key = self._logs.key(message.topic(), partition)
                polled.append(MicroOp(self._kind, key, offset, value))
                self._positions[key] = offset + 1
        if why == _RESET:
            self.close()
            self._positions = dict.fromkeys(self._positions, 0)
            return completion(INFO, error=why, result=elements_of(*polled))
        if why is not None and not polled:
            return completion(FAIL, error=why)
        return completion(OK, result=elements_of(*polled))

    def close(self) -> None:
        """Disconnect."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _assigned(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(dict(self._settings), logger=_LOG)
            self._consumer.assign(
                [TopicPartition(*self._logs.place(k), at) for k, at in self._positions.items()]
            )
        return self._consumer


def stable_ends(
    cluster: Cluster, logs: Logs, keys: Sequence[int], within_s: float
) -> dict[int, int] | None:
    """Where logs end, once both isolation levels name one end of each; `None`: one has none in
    time."""
    deadline = time.monotonic() + within_s
    ends: dict[int, int] = {}
    while missing := [key for key in keys if key not in ends]:
        for key in missing:
            if (end := _end(cluster, logs.topic(key).plan, key % logs.partitions)) is not None:
                ends[key] = end
        if time.monotonic() > deadline:
            return None
        if len(ends) < len(keys):
            time.sleep(_AGAIN_S)
    return ends


def read_to_the_end(
    cluster: Cluster, plan: KafkaPlan, goals: Mapping[int, int]
) -> list[MicroOp] | str:
    """All committed records of some partitions of a topic up to their ends; a text: why they were
    not read."""
    reading = Reading(starts=dict.fromkeys(goals, 0), goals=goals)
    more, deadline = {"isolation.level": READ_COMMITTED}, time.monotonic() + _READ_S
    read_with_librdkafka(bootstrap(cluster), plan, reading, deadline, more)
    if reading.errors or not reading.ended():
        return next(iter(reading.errors.values()), NOT_AT_END).partition(":")[0]
    return [*_records(reading), *(MicroOp(END, key, end) for key, end in goals.items())]


def _end(cluster: Cluster, plan: KafkaPlan, partition: int) -> int | None:
    """Where a partition ends, once no transaction is open in it, as its leader says."""
    for node in with_role(cluster, "broker"):
        ends = {
            brokers.offset(node, plan, partition, brokers.LATEST, isolation=level)
            for level in (brokers.READ_COMMITTED, brokers.READ_UNCOMMITTED)
        }
        if len(ends) == 1 and (end := ends.pop()) is not None:
            return end
    return None


def _records(reading: Reading) -> Iterator[MicroOp]:
    table = reading.table("")
    columns = (table[name].to_pylist() for name in ("partition", "offset", "value"))
    return (MicroOp(POLL, *each) for each in zip(*columns, strict=True))
