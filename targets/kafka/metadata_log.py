"""What the log of KRaft's metadata says of a topic's partitions, as controllers leave it at the end
of a run: `nodes/<node>/metadata.bin`.

A record is committed that more than half of the controllers have; one that was isolated may end
with others. Records are decoded by kafka-python, from Kafka's schemas (`targets.kafka.messages`).
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from targets.kafka import wire
from targets.kafka.record_sets import Damaged, batches, records

KEPT_AS: Final = "metadata.bin"
BYTES_AT_MOST: Final = 4 * 1024 * 1024

_KINDS: Final[Mapping[int, str]] = {
    2: "TopicRecord",
    3: "PartitionRecord",
    5: "PartitionChangeRecord",
}
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

    @property
    def in_words(self) -> str:
        """The state after the record."""
        known = self._asdict() | {"unclean": str(self.unclean).lower()}
        return ", ".join(f"{name} {value}" for name, value in known.items())


def assigned(logs: Mapping[str, bytes], topic: str) -> tuple[str, list[Assigned]]:
    """A node with the longest committed log, of these logs by node, and the states of the topic's
    partitions in their order; none where a log does not begin at 0 or is damaged before its end."""
    node, raw = _committed(logs)
    try:
        return node, list(_states(raw, topic))
    except (Damaged, ValueError, struct.error, LookupError):  # ours, or of kafka-python's decoding
        return node, []


def _committed(logs: Mapping[str, bytes]) -> tuple[str, bytes]:
    """The batches that more than half of the logs have, from the first one on."""
    stored = {node: batches(raw) for node, raw in logs.items()}
    having = Counter(batch for each in stored.values() for batch in each)
    best, kept = "", 0
    for node, each in stored.items():
        behind = 0
        for batch in each if each and not each[0].first else ():
            if 2 * having[batch] <= len(logs):
                break
            behind = batch.place + batch.size_bytes
        if behind > kept:
            best, kept = node, behind
    return best, logs.get(best, b"")[:kept]


def _states(raw: bytes, topic: str) -> Iterator[Assigned]:
    topic_id, now = "", dict[int, Assigned]()
    for found in records(raw):
        buffer = found.buffer.tobytes()
        columns = (found.offset, found.timestamp_ms, found.value.at, found.value.size)
        for offset, at_ms, start, size in zip(*(c.tolist() for c in columns), strict=True):
            record = _record(buffer[start : start + max(size, 0)])
            if isinstance(record, wire.TopicRecord) and record.name == topic:
                topic_id, now = record.topic_id, {}
            elif isinstance(record, wire.PartitionRecord) and record.topic_id == topic_id:
                now[record.partition_id] = state = Assigned(
                    at_ms=at_ms,
                    offset=offset,
                    partition=record.partition_id,
                    leader=None if record.leader == _NOBODY else record.leader,
                    epoch=record.leader_epoch,
                    in_sync=tuple(record.isr),
                    eligible=tuple(record.eligible_leader_replicas or ()),
                    last_known=tuple(record.last_known_elr or ()),
                )
                yield state
            elif isinstance(record, wire.PartitionChangeRecord) and record.topic_id == topic_id:
                state = _changed(record, now[record.partition_id])
                now[record.partition_id] = state = state._replace(at_ms=at_ms, offset=offset)
                yield state


def _record(value: bytes) -> Any:
    """One of the kinds that are read; `None`: another. Before its fields are a frame, its kind and
    its version, of a byte each."""
    _, kind, version = value[0], value[1], value[2]
    if (name := _KINDS.get(kind)) is None:
        return None
    made = getattr(wire, name)
    return made.decode(value[3:], version=min(version, made.max_version), header=False)


def _changed(record: Any, before: Assigned) -> Assigned:
    """A partition after a change; a leader that is stated begins an epoch."""
    leader, stated = record.leader, record.leader != _UNCHANGED
    known = leader in (*before.in_sync, *before.eligible)
    recovers = record.leader_recovery_state == _RECOVERING

    def of(numbers: Sequence[int] | None, so_far: tuple[int, ...]) -> tuple[int, ...]:
        return so_far if numbers is None else tuple(numbers)

    return before._replace(
        leader=None if leader == _NOBODY else leader if stated else before.leader,
        epoch=before.epoch + stated,
        in_sync=of(record.isr, before.in_sync),
        eligible=of(record.eligible_leader_replicas, before.eligible),
        last_known=of(record.last_known_elr, before.last_known),
        unclean=stated and leader != _NOBODY and (recovers or not known),
    )
