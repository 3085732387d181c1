"""How Kafka stores a log, and therefore what a power loss or a new disk leaves of it.

A folder `TOPIC-PARTITION` holds segments, each named by its first offset and made of record batches
(format v2). Beside the folders is `recovery-point-offset-checkpoint`, the offset up to which each
log was fsynced when Kafka last wrote that file, which it does once a minute
(`log.flush.offset.checkpoint.interval.ms`). Without settings that flush, Kafka leaves fsync to the
kernel, and nothing above need survive a power loss. With them more survives than the file says, so
`check_flushes` refuses to cut there.

Pure functions of names, sizes and bytes (see `harness.levers.disk`).
"""

from __future__ import annotations

import base64
import hashlib
import random
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness.errors import PlanError
from harness.faults.records import DiskRecord
from harness.levers.disk import Change, Read, Sizes, Storage, check_size
from targets.kafka.definitions import of_topic
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import FIRST_SNAPSHOT

CHECKPOINT = "recovery-point-offset-checkpoint"
_FLUSH = {"flush.messages", "flush.ms"}
_NEVER = 2**63 - 1
"""How Kafka says that it does not flush."""

_SEGMENT = re.compile(r"\d{20}\.log$")
_HEADER_BYTES, _OVERHEAD_BYTES = 61, 12
_META = "data/meta.properties"
_KEPT_BY_FORMAT = (_META, "data/bootstrap.checkpoint", f"data/{FIRST_SNAPSHOT}")


@dataclass(frozen=True)
class KafkaStorage(Storage):
    """See `harness.levers.disk.Storage`."""

    def segments(self, folder: str, sizes: Sizes) -> list[str]:
        found = [path for path in sizes if path.rpartition("/")[0] == folder]
        return sorted(path for path in found if _SEGMENT.match(path.rpartition("/")[2]))

    def unsynced(
        self, folder: str, record: DiskRecord, sizes: Sizes, read: Read, draw: random.Random
    ) -> list[Change]:
        """A log as a power loss could leave it: everything below its checkpoint, and of the batches
        above only the first ones, `keep_share` of them."""
        above, name = folder.rpartition("/")[::2]
        if name.startswith("__cluster_metadata"):
            return []  # each of its writes is fsynced
        synced = recovery_points(read(f"{above}/{CHECKPOINT}")).get(name, 0)
        logs = self.segments(folder, sizes)
        ends = [*(_base(path) for path in logs[1:]), None]
        logs = [path for path, end in zip(logs, ends, strict=True) if end is None or end > synced]
        check_size({path: sizes[path] for path in logs})
        loose = [(path, b) for path in logs for b in batches(read(path)) if b.first >= synced]
        share = draw.random() if record.keep_share == "random" else record.keep_share
        kept = int(share * len(loose))
        if kept == len(loose):
            return []
        path, lost = loose[kept]
        summary = (
            f"cut at offset {lost.first:,}, its end was {loose[-1][1].last + 1:,}, "
            f"checkpointed up to {synced:,}"
        )
        torn = draw.randint(1, lost.size_bytes - 1) if record.tail == "torn" else 0
        return [
            Change(
                how="zero" if record.tail == "zeros" else "resize",
                path=path,
                summary=summary,
                size_bytes=lost.place + torn,
            ),
            *_deleted([later for later in logs if _base(later) > _base(path)], sizes),
        ]

    def reformatted(self, record: DiskRecord, sizes: Sizes, read: Read) -> list[Change]:
        """Only what formatting writes, with another directory id. It is made from the old one and
        the fault, so both are known afterwards."""
        kept = {path for path in _KEPT_BY_FORMAT if path in sizes}
        folders = {path.rpartition("/")[0] for path in kept}
        deleted = {
            path if path.rpartition("/")[0] in folders else "/".join(path.split("/")[:2])
            for path in sizes
            if path.startswith("data/") and path not in kept
        }
        old = read(_META).decode()
        if not old:
            return []
        digest = hashlib.sha256(f"{record.seed}/{record.fault}/{old}".encode()).digest()
        new_id = base64.urlsafe_b64encode(digest[:16]).decode().rstrip("=")
        return [
            *(Change(how="delete", path=path, summary="deleted") for path in sorted(deleted)),
            Change(
                how="write",
                path=_META,
                summary=f"written again with directory.id {new_id}",
                content=re.sub(r"(?m)^directory\.id=.*$", f"directory.id={new_id}", old),
            ),
        ]


def check_flushes(plan: KafkaPlan) -> None:
    """Refuse to cut logs at their checkpoint where Kafka itself flushes what is above."""
    settings: dict[str, tuple[str, Any]] = {}
    for name, value in plan.target.settings.items():
        if (of := of_topic(name, str(value))) and of[0] in _FLUSH:
            settings[of[0]] = (name, value)
    settings |= {
        name: (name, plan.topic.settings[name]) for name in _FLUSH & plan.topic.settings.keys()
    }
    flushing = [f"{name} = {value}" for name, value in settings.values() if int(value) < _NEVER]
    for key, options in plan.faults_of("disk") if flushing else ():
        if options.get("form", "unsynced") == "unsynced":
            raise PlanError(
                "cuts logs at a checkpoint that Kafka writes once a minute, and with "
                f"{flushing[0]} more than that is fsynced",
                key=f"{key}.form",
                hint='use nemesis = "power-loss", or leave that setting out',
            )


class Batch(NamedTuple):
    """A record batch: its first and last offset, where it lies in its segment, and its length."""

    first: int
    last: int
    place: int
    size_bytes: int


def batches(segment: bytes) -> list[Batch]:
    """The complete batches of a segment, up to its end or to the first other bytes."""
    found, place = [], 0
    while place + _HEADER_BYTES <= len(segment):
        first, length = struct.unpack_from(">qi", segment, place)
        size_bytes = length + _OVERHEAD_BYTES
        complete = _HEADER_BYTES <= size_bytes <= len(segment) - place
        if not complete or segment[place + 16] != 2:
            break
        (delta,) = struct.unpack_from(">i", segment, place + 23)
        found.append(Batch(first, first + delta, place, size_bytes))
        place += size_bytes
    return found


def recovery_points(checkpoint: bytes) -> dict[str, int]:
    """The offset up to which each log was checkpointed, by folder name; empty while there is no
    file."""
    rows = (line.rsplit(" ", 2) for line in checkpoint.decode().splitlines()[2:])
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in rows}


def _deleted(logs: Sequence[str], sizes: Sizes) -> list[Change]:
    """Segments that are entirely above a cut, with their indexes and snapshots."""
    stems = {path.rpartition(".")[0] for path in logs}
    return [
        Change(how="delete", path=path, summary="deleted, it began above the cut")
        for path in sorted(sizes)
        if path.rpartition(".")[0] in stems
    ]


def _base(segment: str) -> int:
    return int(segment.rpartition("/")[2].partition(".")[0])
