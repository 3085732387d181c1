"""What was removed from replicas' logs, copied as it vanishes:
`nodes/<node>/removed-<topic>-<partition>-<milliseconds>.bin`.

A log is cut in place, and has grown again when somebody looks. So the files of each replica are
read as they grow, several times a second and through this machine's view of the nodes' data, into a
copy without a name. Once a file no longer begins with its copy, what the copy has from the first
batch on that differs is kept; what comes and goes between two looks is not seen.
"""

from __future__ import annotations

import re
import struct
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

import orjson

from harness.history.run_folder import RunDir, write_atomically
from harness.protocols import STORED, Node, Removed, RemovedRecord
from harness.protocols.clock import RunClock
from targets.kafka.plan import KafkaPlan
from targets.kafka.reading import values
from targets.kafka.record_sets import (
    LOG_OVERHEAD,
    Batches,
    Damaged,
    Incompressible,
    Messages,
    NotARecord,
    format_at,
)

_PERIOD_S: Final = 0.2
_BYTES_AT_MOST: Final = 64 * 1024 * 1024
_BYTES_A_LOOK: Final = 4 * 1024 * 1024
_TAIL: Final = 256
_NOTE: Final = "removed.json"
_KEPT: Final = re.compile(r"removed-(.+)-(\d+)-(\d+)\.bin")
_HIDDEN: Final = "this machine does not see its files (over SSH they are not copied)"
_TOO_MUCH: Final = "it wrote more than 64 MiB, or more than 4 MiB between two looks"


class Copy:
    """Of one file that is only appended to, until it is cut or vanishes."""

    def __init__(self, source: Path, into: BinaryIO) -> None:
        self.source, self._into = source, into
        self.size, self._tail = 0, b""

    def look(self) -> tuple[int, bytes]:
        """How many bytes are new, and those that have been removed since the last look."""
        try:
            with self.source.open("rb") as file:
                file.seek(self.size)
                new = file.read(_BYTES_A_LOOK)
                file.seek(self.size - len(self._tail))
                if file.read(len(self._tail)) == self._tail:
                    self._into.seek(self.size)
                    self._into.write(new)
                    self.size, self._tail = self.size + len(new), (self._tail + new)[-_TAIL:]
                    return len(new), b""
                file.seek(0)
                return 0, self._cut(file.read(self.size))
        except FileNotFoundError:
            return 0, self._cut(b"")

    def close(self) -> None:
        self._into.close()

    def _cut(self, now: bytes) -> bytes:
        self._into.seek(0)
        before = self._into.read(self.size)
        self.size = end = 0
        while end <= len(before) and before[self.size : end] == now[self.size : end]:
            self.size = end
            if end + LOG_OVERHEAD > len(before):
                break
            end += LOG_OVERHEAD + max(0, struct.unpack_from(">i", before, end + 8)[0])
        self._tail = before[: self.size][-_TAIL:]
        return before[self.size :]


@dataclass
class Watch:
    """Of the replicas of these topics on one node, whose data are in a folder here. Each partition
    is watched until it has `too_much`."""

    data: Path
    topics: Mapping[str, int]
    copies: dict[Path, Copy] = field(default_factory=dict)
    copied: dict[str, int] = field(default_factory=dict)

    def look(self) -> Iterator[tuple[str, bytes]]:
        """What has been removed since the last look, by partition."""
        for topic, partitions in self.topics.items():
            for number in range(partitions):
                if not self.too_much(replica := f"{topic}-{number}"):
                    yield from ((replica, removed) for removed in self._look(replica))

    def too_much(self, replica: str) -> bool:
        return self.copied.get(replica, 0) > _BYTES_AT_MOST

    def _look(self, replica: str) -> Iterator[bytes]:
        folder = self.data / replica
        for path in sorted(folder.glob("*.log")):
            if path not in self.copies:
                self.copies[path] = Copy(path, tempfile.TemporaryFile())  # noqa: SIM115
        for path in [path for path in self.copies if path.parent == folder]:
            new, removed = self.copies[path].look()
            self.copied[replica] = self.copied.get(replica, 0) + new
            if new >= _BYTES_A_LOOK:
                self.copied[replica] = _BYTES_AT_MOST + 1
            if removed:
                yield removed
            if removed and not self.copies[path].size:
                self.copies.pop(path).close()

    def close(self) -> None:
        for copy in self.copies.values():
            copy.close()


@contextmanager
def copying(
    nodes: Sequence[Node], plans: Sequence[KafkaPlan], rundir: RunDir, clock: RunClock
) -> Iterator[None]:
    """Copies what brokers' logs lose meanwhile. `removed.json` of each node states what could not
    be copied."""
    topics = {plan.topic.name: plan.topic.partitions for plan in plans}
    seen = {node.name: node.here(STORED) for node in nodes if "broker" in node.roles}
    watches = {name: Watch(data, topics) for name, data in seen.items() if data is not None}
    stop, used_s = threading.Event(), [0.0]

    def look() -> None:
        begun_s = time.thread_time()
        for name, watch in watches.items():
            for replica, removed in watch.look():
                at_ms = clock.now_ns() // 1_000_000
                write_atomically(rundir.node(name) / f"removed-{replica}-{at_ms}.bin", removed)
        used_s[0] += time.thread_time() - begun_s

    def go_on() -> None:
        while not stop.is_set():
            look()
            clock.wait(stop, _PERIOD_S)
        look()

    for name in seen:
        rundir.node(name).mkdir(parents=True, exist_ok=True)
    task = clock.spawn("removed", go_on)
    try:
        yield
    finally:
        stop.set()
        task.join(timeout_s=5)
        failed = f"copying failed: {task.failure!r}" if task.failure or not task.done() else None
        for name in seen:
            why, copied = failed, {}
            if (watch := watches.get(name)) is None:
                why = _HIDDEN
            else:
                watch.close()
                copied = {"copied_bytes": sum(watch.copied.values())}
                if any(map(watch.too_much, watch.copied)):
                    why = why or _TOO_MUCH
            note = {"schema": 1, "cpu_s": round(used_s[0], 3), "why_not": why, **copied}
            write_atomically(rundir.node(name) / _NOTE, orjson.dumps(note))


def removed(rundir: RunDir) -> Removed | None:
    """What was removed from the logs of a run, or of a cell's topic, as it was copied. `None` for a
    run that did not try. Raises HistoryError."""
    root = rundir.of_run
    notes = {file.parent.name: root.read_json(file) for file in root.path.glob(f"nodes/*/{_NOTE}")}
    if not notes:
        return None
    topic = rundir.read_json(rundir.plan)["topic"]["name"]
    records, damaged = list[RemovedRecord](), list[str]()
    for file in sorted(root.path.glob("nodes/*/removed-*.bin")):
        if (named := _KEPT.fullmatch(file.name)) and named[1] == topic:
            node, at_s, partition = file.parent.name, int(named[3]) / 1e3, int(named[2])
            try:
                for each in _records(file.read_bytes()):
                    records.append(RemovedRecord(node, at_s, partition, *each))
            except (NotARecord, Incompressible, Damaged, struct.error) as error:
                damaged.append(f"{file.parent.name}/{file.name}: {error}")
    whys = [f"{node}: {note['why_not']}" for node, note in notes.items() if note.get("why_not")]
    return Removed(records=tuple(records), why_not=tuple(sorted(whys + damaged)))


def _records(raw: bytes) -> Iterator[tuple[int, int, int]]:
    """The offset, epoch and value of each record; an entry that is not complete ends them."""
    at, by_format = 0, dict[bool, Batches | Messages]()
    while (magic := format_at(raw, at)) is not None:
        batches = magic == 2
        if batches not in by_format:
            by_format[batches] = Batches(raw) if batches else Messages(raw)
        at = by_format[batches].take(at)
    for some in (each for entries in by_format.values() for each in entries.records()):
        numbers = values(some.buffer, some.value, some.offset)
        yield from zip(
            some.offset.tolist(), some.leader_epoch.tolist(), numbers.tolist(), strict=True
        )
