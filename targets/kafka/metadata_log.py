"""What the log of KRaft's metadata says of a topic's partitions, as controllers leave it at the end
of a run: `nodes/<node>/metadata.bin`.

A record is committed that more than half of the controllers have; one that was isolated may end
with others. Records are in Kafka's own format: a frame, the type, the version, then its fields.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from targets.kafka.record_sets import BATCH, LOG_OVERHEAD, Batches, Incompressible, NotARecord

KEPT_AS: Final = "metadata.bin"
BYTES_AT_MOST: Final = 4 * 1024 * 1024

_TOPIC, _PARTITION, _CHANGE = 2, 3, 5
_UNCHANGED, _NOBODY = -2, -1
_RECOVERING: Final = 1


class Assigned(NamedTuple):
    """The state of a partition from a record on. `leader`: its id; `None`: none. `unclean`: with it
    a leader was elected who may lack what was committed."""

    at_ms: int
    offset: int
    partition: int
    leader: int | None
    epoch: int
    in_sync: tuple[int, ...]
    eligible: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()
    unclean: bool = False


def assigned(logs: Mapping[str, bytes], topic: str) -> tuple[str, list[Assigned]]:
    """A node with the longest committed log, of these logs by node, and the states of the topic's
    partitions in their order; none where a log does not begin at 0 or is damaged before its end."""
    node, raw = _committed(logs)
    try:
        return node, list(_states(raw, topic))
    except (NotARecord, Incompressible, struct.error, IndexError, UnicodeDecodeError):
        return node, []


def _committed(logs: Mapping[str, bytes]) -> tuple[str, bytes]:
    """The batches that more than half of the logs have, from the first one on."""
    places = {node: list(_places(raw)) for node, raw in logs.items()}
    having = Counter(key for each in places.values() for key, _ in each)
    best, kept = "", 0
    for node, each in places.items():
        behind = 0
        for key, end in each:
            if 2 * having[key] <= len(logs):
                break
            behind = end
        if behind > kept:
            best, kept = node, behind
    return best, logs.get(best, b"")[:kept]


def _places(raw: bytes) -> Iterator[tuple[tuple[int, int, int], int]]:
    """Of each complete batch what names it, and where it ends."""
    at = 0
    while at + BATCH.size <= len(raw):
        first, length, epoch, magic, checksum = BATCH.unpack_from(raw, at)[:5]
        end = at + LOG_OVERHEAD + length
        if magic != 2 or not at + BATCH.size <= end <= len(raw) or (at == 0 and first):
            return
        yield (first, epoch, checksum), end
        at = end


def _states(raw: bytes, topic: str) -> Iterator[Assigned]:
    batches, at = Batches(raw), 0
    while at < len(raw):
        at = batches.take(at)
    topic_id, now = b"", dict[int, Assigned]()
    for records in batches.records():
        buffer = records.buffer.tobytes()
        columns = (records.offset, records.timestamp_ms, records.value.at, records.value.size)
        for offset, at_ms, start, size in zip(*(c.tolist() for c in columns), strict=True):
            fields = _Fields(buffer, start, start + max(size, 0))
            _, kind, version = fields.unsigned(), fields.unsigned(), fields.unsigned()
            if kind == _TOPIC and fields.text() == topic:
                topic_id, now = fields.take(16), {}
            elif kind in (_PARTITION, _CHANGE):
                partition, of = fields.number(), fields.take(16)
                before = now.get(partition)
                if of != topic_id or (kind == _CHANGE and before is None):
                    continue
                place = Assigned(at_ms, offset, partition, None, 0, ())
                if before is None:
                    now[partition] = _first(fields, version, place)
                else:
                    now[partition] = _changed(fields, before, place)
                yield now[partition]


def _first(fields: _Fields, version: int, place: Assigned) -> Assigned:
    """A partition as it is made."""
    _, in_sync, _, _ = (fields.numbers() for _ in range(4))
    leader, epoch, _ = (fields.number() for _ in range(3))
    if version >= 1:
        fields.skip(16)
    tags = fields.tags()
    return place._replace(
        leader=None if leader == _NOBODY else leader,
        epoch=epoch,
        in_sync=in_sync,
        eligible=tags[1].numbers() if 1 in tags else (),
        last_known=tags[2].numbers() if 2 in tags else (),
    )


def _changed(fields: _Fields, before: Assigned, place: Assigned) -> Assigned:
    """A partition after a change; a leader that is stated begins an epoch."""
    tags = fields.tags()
    leader = tags[1].number() if 1 in tags else _UNCHANGED
    begins = leader not in (_UNCHANGED, _NOBODY)
    known = leader in (*before.in_sync, *before.eligible)
    recovers = 5 in tags and tags[5].number(1) == _RECOVERING
    return before._replace(
        at_ms=place.at_ms,
        offset=place.offset,
        leader=before.leader if leader == _UNCHANGED else None if leader == _NOBODY else leader,
        epoch=before.epoch + (leader != _UNCHANGED),
        in_sync=tags[0].numbers() if 0 in tags else before.in_sync,
        eligible=tags[6].numbers() if 6 in tags else before.eligible,
        last_known=tags[7].numbers() if 7 in tags else before.last_known,
        unclean=begins and (recovers or not known),
    )


@dataclass
class _Fields:
    """The fields of a record, from a place to its end."""

    raw: bytes
    at: int
    end: int

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > self.end:
            raise NotARecord("a field goes on behind its record")
        self.at += size
        return self.raw[self.at - size : self.at]

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self) -> str:
        return self.take(self.unsigned() - 1).decode()

    def numbers(self) -> tuple[int, ...]:
        count = self.unsigned() - 1
        return tuple(self.number() for _ in range(count))

    def skip(self, size: int) -> None:
        """Skip a list of items of this size."""
        self.take(max(0, self.unsigned() - 1) * size)

    def tags(self) -> dict[int, _Fields]:
        """The optional fields, by number."""
        found = {}
        for _ in range(self.unsigned()):
            tag, size = self.unsigned(), self.unsigned()
            found[tag] = _Fields(self.raw, self.at, self.at + size)
            self.take(size)
        return found
