"""What was removed from replicas' logs, copied as it vanishes:
`nodes/<node>/removed-<topic>-<partition>-<milliseconds>-<segment>.bin`.

A log is cut in place, and has grown again when somebody looks. So the files of each replica are
read as they grow, several times a second and through this machine's view of the nodes' data (over
SSH by SFTP), into a copy in memory. Once a file no longer begins with its copy, what the copy has
from the first batch on that differs is kept; what comes and goes between two looks is not seen.
"""

from __future__ import annotations

import re
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import orjson

from harness.history.run_folder import RunDir, write_atomically
from harness.models import GROUP, LOG
from harness.protocols import STORED, Node, Place, Removed, RemovedRecord
from harness.protocols.clock import RunClock
from targets.kafka.definitions import model_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.reading import values
from targets.kafka.record_sets import LOG_OVERHEAD, Damaged, records

_PERIOD_S: Final = 0.2
_BYTES_AT_MOST: Final = 64 * 1024 * 1024
_BYTES_A_LOOK: Final = 4 * 1024 * 1024
_TAIL: Final = 256
_NOTE: Final = "removed.json"
_KEPT: Final = re.compile(r"removed-(.+)-(\d+)-(\d+)-\d+\.bin")
_HIDDEN: Final = "this machine does not see its files (a disk that may lose power, or your cluster)"
_TOO_MUCH: Final = "it wrote more than 64 MiB, or more than 4 MiB between two looks"


class Copy:
    """Of one file that is only appended to, until it is cut or vanishes."""

    def __init__(self, source: Place) -> None:
        self.source, self.copied = source, bytearray()

    def look(self) -> bytes:
        """What has been removed since the last look; if nothing, what is new is copied."""
        size, tail = len(self.copied), self.copied[-_TAIL:]
        try:
            with self.source.open("rb") as file:
                file.seek(size)
                new = file.read(_BYTES_A_LOOK)
                file.seek(size - len(tail))
                if file.read(len(tail)) != tail:
                    file.seek(0)
                    return self._cut(file.read(size))
        except FileNotFoundError:
            return self._cut(b"")
        self.copied += new
        if len(new) == _BYTES_A_LOOK:
            raise OverflowError(_TOO_MUCH)
        return b""

    def _cut(self, now: bytes) -> bytes:
        """A log is cut between two entries."""
        before, kept, end = bytes(self.copied), 0, 0
        while end <= len(before) and before[kept:end] == now[kept:end]:
            kept = end
            if end + LOG_OVERHEAD > len(before):
                break
            end += LOG_OVERHEAD + max(0, struct.unpack_from(">i", before, end + 8)[0])
        del self.copied[kept:]
        return before[kept:]


@contextmanager
def copying(
    nodes: Sequence[Node], plans: Sequence[KafkaPlan], rundir: RunDir, clock: RunClock
) -> Iterator[None]:
    """Copies what brokers' logs lose meanwhile. `removed.json` of each node has what could not be
    copied. (Transactions and metadata have other checks.)"""
    logs = all(model_of(plan.workload.name) in (LOG.name, GROUP.name) for plan in plans)
    names = [node.name for node in nodes if logs and "broker" in node.roles]
    seen = {n.name: data for n in nodes if n.name in names and (data := n.here(STORED))}
    why_not = dict.fromkeys(set(names) - seen.keys(), _HIDDEN)
    copies: dict[str, dict[Place, Copy]] = {name: {} for name in seen}
    places = [f"{p.topic.name}-{n}" for p in plans for n in range(p.topic.partitions)]
    stop, used_s = threading.Event(), 0.0

    def look(node: str, replica: str) -> None:
        folder, copied = seen[node] / replica, copies[node]
        for path in {*folder.glob("*.log"), *(path for path in copied if path.parent == folder)}:
            if path not in copied:
                copied[path] = Copy(path)
            if lost := copied[path].look():
                name = f"removed-{replica}-{clock.now_ns() // 1_000_000}-{path.stem}.bin"
                write_atomically(rundir.node(node) / name, lost)
        if sum(len(each.copied) for each in copied.values()) > _BYTES_AT_MOST:
            raise OverflowError(_TOO_MUCH)

    def watch() -> None:
        nonlocal used_s
        while copies:
            last, begun_s = stop.is_set(), time.thread_time()
            for node in [*copies]:
                try:
                    for replica in places:
                        look(node, replica)
                except Exception as error:
                    why_not[node] = f"copying ended: {error}"
                    del copies[node]
            used_s += time.thread_time() - begun_s
            if last:
                break
            clock.wait(stop, _PERIOD_S)

    for name in names:
        rundir.node(name).mkdir(parents=True, exist_ok=True)
    task = clock.spawn("removed", watch)
    try:
        yield
    finally:
        stop.set()
        task.join(timeout_s=5)
        cpu_s = round(used_s, 3)
        for name in names:
            size = sum(len(copy.copied) for copy in copies.get(name, {}).values())
            note = {"schema": 1, "why_not": why_not.get(name), "bytes": size, "cpu_s": cpu_s}
            write_atomically(rundir.node(name) / _NOTE, orjson.dumps(note))


def removed(rundir: RunDir) -> Removed | None:
    """What was removed from the logs of a run, or of a cell's topic, as it was copied. `None` for a
    run that did not try. Raises HistoryError."""
    root = rundir.of_run
    notes = {file.parent.name: root.read_json(file) for file in root.path.glob(f"nodes/*/{_NOTE}")}
    if not notes:
        return None
    topic = rundir.read_json(rundir.plan)["topic"]["name"]
    copied, damaged = list[RemovedRecord](), list[str]()
    for file in sorted(root.path.glob("nodes/*/removed-*.bin")):
        if (named := _KEPT.fullmatch(file.name)) and named[1] == topic:
            node, at_s, partition = file.parent.name, int(named[3]) / 1e3, int(named[2])
            try:
                for each in _records(file.read_bytes()):
                    copied.append(RemovedRecord(node, at_s, partition, *each))
            except (Damaged, struct.error) as error:
                damaged.append(f"{file.parent.name}/{file.name}: {error}")
    whys = [f"{node}: {note['why_not']}" for node, note in notes.items() if note.get("why_not")]
    return Removed(records=tuple(copied), why_not=tuple(sorted(whys + damaged)))


def _records(raw: bytes) -> Iterator[tuple[int, int, int]]:
    """The offset, epoch and value of each record: of all of them, or of none where one is damaged.
    An entry that is not complete ends them."""
    for some in [*records(raw)]:
        numbers = values(some.buffer, some.value, some.offset)
        yield from zip(
            some.offset.tolist(), some.leader_epoch.tolist(), numbers.tolist(), strict=True
        )
