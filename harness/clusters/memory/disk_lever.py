"""The disk lever of simulated nodes: a loss of power, a lost disk, a file that lost its end.

The process is killed first; undoing starts it again. What was lost stays lost.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.clusters.memory.cluster import MemoryCluster
from harness.clusters.memory.disk import Disk
from harness.clusters.memory.process_levers import MemoryProcessLever, in_force, started_again
from harness.protocols import Node, Proof, Token

DISK_FORMS: Final = ("unsynced", "wipe", "truncate")


@dataclass(frozen=True)
class MemoryDiskLever:
    """Damages what a node has stored, under a dead process."""

    cluster: MemoryCluster
    name: ClassVar[str] = "disk"

    def apply(self, token: Token) -> None:
        """Kill the process and damage its files; applied before: only the first."""
        node = self.cluster.nodes[token["node"]]
        MemoryProcessLever(self.cluster).apply(token)
        with self.cluster.simulation.held():
            if token["fault"] not in node.damage:
                node.damage[token["fault"]] = damaged(node.disk, token)

    def undo(self, token: Token) -> None:
        """Start the process again, if it was running before, and forget the damage."""
        node = self.cluster.nodes.get(token["node"])
        if node is None:
            return
        if token["pid"] is not None:
            MemoryProcessLever(self.cluster).undo(token)
        node.damage.pop(token["fault"], None)

    def probe(self, token: Token, *, applied: bool) -> Proof:
        """In force: the process is dead and something was lost. Undone: another process runs."""
        node = self.cluster.nodes[token["node"]]
        if not applied:
            return started_again(node, token)
        changes = node.damage.get(token["fault"], [])
        process = in_force(node, token)
        told = [f"{node.name}: {change}" for change in changes]
        if not changes:
            told = [f"{node.name}: there was nothing to change ({token['form']})"]
        return Proof(process.proven and bool(changes), [*process.evidence, *told])

    def leftover_state(self, node: Node) -> list[str]:
        """Damage that was not undone."""
        faults = self.cluster.nodes[node.name].damage
        return [f"{node.name}: files were damaged by {fault}" for fault in faults]


def damaged(disk: Disk, token: Token) -> list[str]:
    """Damage the folders that the record names; in sentences, what changed."""
    changes = []
    for folder in disk.folders(token["folders"]):
        if token["form"] == "wipe":
            sizes = [disk.files[path].size_bytes for path in disk.below(folder)]
            disk.wipe(folder)
            changes.append(f"{folder}: {len(sizes)} files with {sum(sizes):,} bytes before, 0 now")
            continue
        if token["form"] == "unsynced":
            share = token["keep_share"]
            if share == "random":
                role = f"{token['seed']}/{token['fault']}/{token['node']}/{folder}"
                share = random.Random(role).random()
            lost = disk.lose_power(folder, share)
        else:
            lost = disk.shorten(folder, token["cut_bytes"])
        for path, count in lost.items():
            changes.append(f"{path}: its last {count:,} records are gone")
    return changes
