"""Reads partitions one after the other, each from its leader, by Fetch requests.

What is tried again until the deadline, at the same position and with leaders looked up again: a
connection that breaks, no answer, and the errors of `_LATER`, which are those of a broker that does
not lead (any more). Every other error of a broker ends its partition's read, as damaged bytes do.
Reading is read_uncommitted. Markers of transactions are not records, but have offsets.
"""

from __future__ import annotations

import struct
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from crc32c import crc32c
from kafka.errors import for_code
from kafka.protocol.consumer import FetchRequest

from harness.faults.own_traffic import NoAnswer
from targets.kafka.consumers import Reading
from targets.kafka.log_reader.codecs import Incompressible, decompressed
from targets.kafka.log_reader.messages import Messages
from targets.kafka.log_reader.numbers import NotARecord, varint, varints
from targets.kafka.log_reader.records import (
    APPEND_TIME,
    CODEC,
    LOG_OVERHEAD,
    Damaged,
    Records,
    Span,
    format_at,
    joined,
    text,
)

# What a broker stores and a Fetch returns: batches (format 2), or messages (formats 0 and 1).

# Batches of format 2.
#
# One step a batch, where its checksum is verified, and one a record, where its length is read;
# everything else is done for all records at once (`numbers`). Records of one length follow each
# other mostly, so the places of a run of them come from one comparison.
#
# Format: https://kafka.apache.org/documentation/#recordbatch

_MARKER: Final = struct.Struct(">hh")
_BATCH: Final = struct.Struct(">qiibIhiqqqhii")
_CHECKED_AT: Final = 21
_MOST: Final = 2**63 - 1
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_COMMITS: Final = {0: False, 1: True}
"""What markers say, by the type of their key."""

_ALIKE: Final = 32
"""So many records of one length, one after the other, make a run likely."""
_WINDOW: Final = 256


@dataclass
class Batches:
    """Batches of format 2, one after the other in `raw`; what was decompressed is added to it."""

    raw: bytes
    unpacked: list[bytes] = field(default_factory=list)
    room: int = 0
    places: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    headers: list[tuple[int, int, int, int, bool]] = field(default_factory=list)
    next_offset: int = 0
    controls: int = 0
    spans: list[Span] = field(default_factory=list)

    def take(self, at: int) -> int:
        """The batch there, and where the next one begins. Raises NotARecord, Incompressible."""
        header = _BATCH.unpack_from(self.raw, at)
        offset, length, epoch, _, checksum, attributes, last_delta, first_ms, most_ms = header[:9]
        count, end = header[12], at + LOG_OVERHEAD + length
        if crc32c(memoryview(self.raw)[at + _CHECKED_AT : end]) != checksum:
            raise NotARecord("its checksum is wrong")
        if count < 0 or last_delta < 0 or offset + last_delta >= _MOST:
            raise NotARecord(f"it has {count} records up to {last_delta} behind its offset")
        if attributes & _CONTROL:
            self.controls += count
        elif count:
            self._take_records(at + _BATCH.size, end, count, attributes & CODEC)
            by_broker = bool(attributes & APPEND_TIME)
            self.headers.append(
                (count, offset, epoch, most_ms if by_broker else first_ms, by_broker)
            )
        self.next_offset = offset + last_delta + 1
        if attributes & _TRANSACTIONAL:
            marker = self._commits(at + _BATCH.size, end) if attributes & _CONTROL else None
            self.spans.append(Span(header[9], offset, self.next_offset, marker))
        return int(end)

    def _commits(self, at: int, end: int) -> bool:
        """What a marker says: the key of its one record is a version and a type, 16 bits each.
        Raises NotARecord."""
        _, at = varint(self.raw, at)
        at += 1  # its attributes
        for _ in ("time", "offset", "size of the key"):
            _, at = varint(self.raw, at)
        if at + _MARKER.size > end:
            raise NotARecord("a marker goes on behind its batch")
        _, kind = _MARKER.unpack_from(self.raw, at)
        if kind not in _COMMITS:
            raise NotARecord(f"its marker has the type {kind}, which is not known")
        return _COMMITS[kind]

    def _take_records(self, at: int, end: int, count: int, codec: int) -> None:
        found, base = array("q"), 0
        if codec:
            unpacked = decompressed(codec, self.raw[at:end], magic=2)
            base, end = len(self.raw) + self.room, len(unpacked)
            walk(unpacked, 0, end, count, found)
            self.unpacked.append(unpacked)
            self.room += end
            found = array("q", (np.frombuffer(found, np.int64) + base).tobytes())
        else:
            walk(self.raw, at, end, count, found)
        self.places.extend(found)
        self.ends.append(base + end)

    def records(self) -> Iterator[Records]:
        """What was taken. Raises Damaged where lengths contradict each other."""
        buffer = joined(self.raw, self.unpacked)
        headers = np.array(self.headers, np.int64).reshape(-1, 5)
        count, offset, epoch, time_ms, by_broker = headers.T
        place = np.frombuffer(self.places, np.int64)
        end = np.repeat(np.frombuffer(self.ends, np.int64), count)
        _, offset, epoch, time_ms, by_broker = np.repeat(headers, count, axis=0).T
        try:
            size, at = varints(buffer, place)
            end = np.minimum(end, at + size)
            delta_ms, at = varints(buffer, at + 1)  # behind the attributes, one byte
            delta, at = varints(buffer, at)
            key, at = text(*varints(buffer, at), end)
            value, _ = text(*varints(buffer, at), end)
        except NotARecord as error:
            raise Damaged(int(offset[0]), f"at or behind it, {error}") from error
        yield Records(
            buffer=buffer,
            offset=offset + delta,
            timestamp_ms=np.where(by_broker != 0, time_ms, time_ms + delta_ms),
            leader_epoch=epoch,
            key=key,
            value=value,
            next_offset=self.next_offset,
            controls=self.controls,
            spans=tuple(self.spans),
        )


def walk(raw: bytes, at: int, end: int, count: int, places: array[int]) -> None:
    """Append the places of `count` records that lie between `at` and `end`, each of which begins
    with its length. Raises NotARecord unless they fill that exactly."""
    left, size_before, alike = count, -1, 0
    while left and at < end:
        byte = raw[at]
        if byte < 0x80 and not byte & 1:
            size = 1 + (byte >> 1)
        elif byte >= 0x80 and at + 1 < end and (second := raw[at + 1]) < 0x80 and not byte & 1:
            size = 2 + (((byte & 0x7F) | second << 7) >> 1)
        else:
            length, behind = varint(raw, at)
            if length < 0:
                raise NotARecord(f"a record has the length {length}")
            size = behind - at + length
        alike = alike + 1 if size == size_before else 0
        size_before = size
        if alike < _ALIKE:
            places.append(at)
            at += size
            left -= 1
            continue
        run = _run(raw, at, size, min(left, (end - at) // size))
        if not run:
            break
        places.frombytes(np.arange(at, at + run * size, size).tobytes())
        at += run * size
        left -= run
        alike = 0
    if left or at != end:
        raise NotARecord(f"its {count} records do not fill it exactly")


def _run(raw: bytes, at: int, size: int, most: int) -> int:
    """How many records, `most` of them at most, begin with the length that the one at `at` has: of
    `size` bytes each."""
    run, window, leads = 0, _WINDOW, 1
    while raw[at + leads - 1] >= 0x80:
        leads += 1
    buffer = np.frombuffer(raw, np.uint8)
    while run < most:
        number = min(window, most - run)
        begin, behind = at + run * size, at + (run + number) * size
        same = np.ones(number, np.bool_)
        for lead in range(leads):
            same &= buffer[begin + lead : behind : size] == raw[at + lead]
        if not same.all():
            return run + int(same.argmin())
        run += number
        window *= 4
    return run


def records(raw: bytes) -> Iterator[Records]:
    """The records of all complete batches and messages, those of one format after the other; what
    is cut off at the end is left out. Raises Damaged, after all that comes before the damage."""
    for taken in _taken(raw):
        yield from taken.records()


def _taken(raw: bytes) -> Iterator[Batches | Messages]:
    """The same, taken but not decoded."""
    taken: Batches | Messages | None = None
    at, damage = 0, None
    while True:
        try:
            magic = format_at(raw, at)
            if magic is None:
                break
            kind = Batches if magic == 2 else Messages
            if not isinstance(taken, kind):
                if taken is not None:
                    yield taken
                taken = kind(raw)
            at = taken.take(at)
        except (NotARecord, Incompressible) as error:
            damage = Damaged(_offset(raw, at), str(error))
            break
    if taken is not None:
        yield taken
    if damage is not None:
        raise damage


def _offset(raw: bytes, at: int) -> int:
    (offset,) = struct.unpack_from(">q", raw, at)
    return int(offset)


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
