"""The disk lever of simulated nodes: a loss of power, a lost disk, a file that lost its end.

The process is killed first; undoing starts it again. What was lost stays lost.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.clusters.memory.disk import Disk
from harness.clusters.memory.process_levers import (
    end_process,
    ended,
    not_running,
    runs_again,
    start_again,
)
from harness.clusters.memory.world import World
from harness.faults.records import DiskRecord
from harness.protocols import Lever, Node, Proof, UndoRecord

DISK_FORMS: Final = ("unsynced", "wipe", "truncate")


@dataclass(frozen=True)
class MemoryDiskLever(Lever[DiskRecord]):
    """Damages what a node has stored, under a dead process."""

    world: World
    name: ClassVar[str] = "disk"
    record_type: ClassVar[type[UndoRecord]] = DiskRecord

    def unavailable(self, node: Node, record: DiskRecord) -> str | None:
        """For forms that need bytes, and under a running process."""
        if record.form not in DISK_FORMS or record.alive:
            known = ", ".join(DISK_FORMS)
            return f"{node.name}: a simulated disk has only the forms {known}, under a dead process"
        return not_running(node)

    def apply(self, record: DiskRecord) -> None:
        """Kill the process and damage its files; applied before: only the first."""
        node = self.world.nodes[record.node]
        end_process(self.world, record)
        with self.world.simulation.held():
            if record.fault not in node.damage:
                node.damage[record.fault] = damaged(node.disk, record)

    def undo(self, record: DiskRecord) -> None:
        """Start the process again, unless it was dead before or another fault keeps it dead, and
        forget the damage."""
        start_again(self.world, record)
        if (node := self.world.nodes.get(record.node)) is not None:
            node.damage.pop(record.fault, None)

    def probe(self, record: DiskRecord, *, applied: bool) -> Proof:
        """In force: the process is dead and something was lost. Undone: another process runs,
        or another fault keeps it dead."""
        node = self.world.nodes[record.node]
        if not applied:
            return runs_again(node, record)
        changes = node.damage.get(record.fault, [])
        process = ended(node, record)
        evidence = [f"{node.name}: {change}" for change in changes]
        if not changes:
            evidence = [f"{node.name}: there was nothing to change ({record.form})"]
        return Proof(process.proven and bool(changes), [*process.evidence, *evidence])

    def leftover_state(self, node: Node) -> list[str]:
        """Damage that was not undone."""
        faults = self.world.nodes[node.name].damage
        return [f"{node.name}: files were damaged by {fault}" for fault in faults]


def damaged(disk: Disk, record: DiskRecord) -> list[str]:
    """Damage the folders that the record names; in sentences, what changed."""
    changes = []
    for folder in disk.folders(record.folders):
        if record.form == "wipe":
            sizes = [disk.files[path].size_bytes for path in disk.below(folder)]
            disk.wipe(folder)
            changes.append(f"{folder}: {len(sizes)} files with {sum(sizes):,} bytes before, 0 now")
            continue
        if record.form == "unsynced":
            lost = disk.lose_power(folder, _kept_share(record, folder))
        else:
            lost = disk.shorten(folder, record.cut_bytes)
        for path, count in lost.items():
            changes.append(f"{path}: its last {count:,} records are gone")
    return changes


def _kept_share(record: DiskRecord, folder: str) -> float:
    if record.keep_share != "random":
        return record.keep_share
    return random.Random(f"{record.seed}/{record.fault}/{record.node}/{folder}").random()
