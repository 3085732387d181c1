"""Reads partitions one after the other, each from its leader, by Fetch requests.

What is tried again until the deadline, at the same position and with leaders looked up again: a
connection that breaks, no answer, and the errors of `_LATER`, which are those of a broker that does
not lead (any more). Every other error of a broker ends its partition's read, as damaged bytes do.
Reading is read_uncommitted. Markers of transactions are not records, but have offsets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from kafka.errors import for_code
from kafka.protocol.consumer import FetchRequest

from harness.faults.own_traffic import NoAnswer
from targets.kafka.consumers import Reading
from targets.kafka.log_reader.record_set import records
from targets.kafka.log_reader.records import Damaged

HIGHEST_VERSION: Final = 10
"""Of Fetch: what comes later names topics by their ids, and knows no message format besides."""

_BYTES: Final = 8 << 20
_MOST_BYTES: Final = 64 << 20
_WAIT_MS: Final = 200
_ANSWER_S: Final = 10.0
_PAUSE_S: Final = 0.1
_READ_UNCOMMITTED: Final = 0
_LATER: Final = frozenset({3, 5, 6, 7, 8, 9, 13, 56, 74, 75, 78})
"""UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT,
BROKER_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE, NETWORK_EXCEPTION, KAFKA_STORAGE_ERROR,
FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE."""


class Ask(Protocol):
    """Queries a broker."""

    def __call__(self, node: str, request: Any, *, timeout_s: float) -> Any:
        """The response of this broker, to a request whose version is as high as the
        broker's, and the request's `max_version`, allow. Raises NoAnswer."""
        ...


def read_log(
    ask: Ask,
    leaders: Callable[[], Mapping[int, str | None]],
    topic: str,
    reading: Reading,
    deadline: float,
) -> None:
    """Read on until each partition is at its goal or has an error, or the deadline."""
    known = leaders()
    for partition, goal in sorted(reading.goals.items()):
        while reading.position[partition] < goal and partition not in reading.errors:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return
            try:
                _read_on(ask, known.get(partition), topic, partition, reading, left_s)
            except NoAnswer:
                time.sleep(min(_PAUSE_S, left_s))
                known = leaders()


def _read_on(
    ask: Ask,
    leader: str | None,
    topic: str,
    partition: int,
    reading: Reading,
    left_s: float,
) -> None:
    """One fetch, larger ones where it does not hold a single batch. Raises NoAnswer."""
    if leader is None:
        raise NoAnswer(f"partition {partition} has no leader")
    position, size_bytes = reading.position[partition], _BYTES
    while True:
        request = _request(topic, partition, position, size_bytes)
        answer = ask(leader, request, timeout_s=min(_ANSWER_S, left_s))
        part = answer.responses[0].partitions[0]
        if part.error_code in _LATER:
            raise NoAnswer(f"{leader}: {_named(part.error_code)}")
        if part.error_code:
            reading.fail(partition, f"{_named(part.error_code)} at offset {position}")
            return
        reading.brokers.setdefault(partition, set()).add(leader)
        raw = bytes(part.records or b"")
        _take(raw, partition, reading)
        if not raw or partition in reading.errors or reading.position[partition] > position:
            return
        if len(raw) < size_bytes or size_bytes >= _MOST_BYTES:
            reading.fail(partition, _stuck(partition, position, len(raw)))
            return
        size_bytes *= 2


def _take(raw: bytes, partition: int, reading: Reading) -> None:
    """The records of one answer, and what is wrong with them."""
    first = reading.position[partition]
    try:
        for found in records(raw):
            reading.chunks.add(partition, found, first=first)
            reading.spans.setdefault(partition, []).extend(found.spans)
            reading.reach(partition, found.next_offset)
    except Damaged as error:
        reading.fail(partition, f"damaged: partition {partition}, {error}")


def _stuck(partition: int, position: int, size_bytes: int) -> str:
    return (
        f"damaged: partition {partition}, offset {position}: no complete batch, nor one that goes "
        f"on behind it, in the {size_bytes:,} bytes that are stored there"
    )


def _request(topic: str, partition: int, position: int, size_bytes: int) -> Any:
    of_partition = FetchRequest.FetchTopic.FetchPartition(
        partition=partition, fetch_offset=position, partition_max_bytes=size_bytes
    )
    return FetchRequest(
        max_version=HIGHEST_VERSION,
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=size_bytes,
        isolation_level=_READ_UNCOMMITTED,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[of_partition])],
    )


def _named(code: int) -> str:
    return str(for_code(code).message)
