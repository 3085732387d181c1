"""The power lever: a node loses power, whatever system runs on it.

Its process is killed, and the disk on which it stores loses what was not fsynced (`OwnDisk`). The
undo starts the process again; what was lost stays lost. Nodes get such a disk for plans that need
it (`harness.protocols.OWN_DISK`); any other disk is left alone.

Our own file on the disk, half of which was fsynced, shows that the disk really lost what was only
in memory. The sizes of the files before and after show what else is gone. Data that was written
longer ago than the kernel keeps it in memory may survive without fsync: the evidence states how
long that is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.errors import HarnessFailure
from harness.faults.records import PowerRecord
from harness.levers.process import end_process, ended, runs_again, start_again
from harness.protocols import Lever, Node, OwnDisk, PowerLoss, Proof

_SHOWN: Final = 4


@dataclass(frozen=True)
class PowerLever(Lever[PowerRecord]):
    """Cuts the power of nodes; undone by starting their processes again."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "power"

    def unavailable(self, node: Node, record: PowerRecord) -> str | None:
        """If the node has no disk of its own, or no process that can be killed."""
        disk = node.own_disk
        if disk is None:
            return f"{node.name}: it does not store on its own disk, so it cannot lose power"
        if why := disk.why_not():
            return f"{node.name}: {why}"
        return None if node.process().running else f"{node.name}: its process does not run"

    def apply(self, record: PowerRecord) -> None:
        """Kill the process, then make its disk lose what was not fsynced. Once for each fault."""
        node = self.nodes[record.node]
        end_process(node, record)
        if node.process().running:
            raise HarnessFailure(f"{node.name}: its process still runs: the disk is left alone")
        _own(node).lose_power(record.fault)

    def undo(self, record: PowerRecord) -> None:
        node = self.nodes[record.node]
        _own(node).restore(record.fault)
        start_again(node, record)

    def probe(self, record: PowerRecord, *, applied: bool) -> Proof:
        """In force: the process ended by the signal, and our own file on the disk lost some of what
        was not fsynced, and nothing else: a busy kernel may have written a part of it. Undone:
        another process runs, or another fault keeps it dead."""
        node = self.nodes[record.node]
        if not applied:
            return runs_again(node, record)
        disk, process = _own(node), ended(node, record)
        lost = disk.power_loss(record.fault)
        if lost is None:
            return Proof(False, [*process.evidence, f"{node.name}: its disk has not lost power"])
        gone = lost.canary_synced <= lost.canary_left < lost.canary_written
        dead = process.proven or record.pid is None
        lines = [f"{node.name}: {line}" for line in described(lost, disk.written_back_s())]
        return Proof(gone and dead, [*process.evidence, *lines])

    def leftover_state(self, node: Node) -> list[str]:
        disk = node.own_disk
        faults = disk.power_losses() if disk is not None else []
        return [f"{node.name}: its disk has lost power by {fault}" for fault in faults]


def described(lost: PowerLoss, written_back_s: tuple[float, float]) -> list[str]:
    """What a loss of power did, in sentences."""
    bytes_before = sum(each.size_bytes for each in lost.before.values())
    bytes_after = sum(each.size_bytes for each in lost.after.values())
    kept_before = sum(each.allocated_bytes for each in lost.before.values())
    kept_after = sum(each.allocated_bytes for each in lost.after.values())
    early_s, late_s = written_back_s
    ours = f"of {lost.canary_written:,} bytes in our file, {lost.canary_synced:,} of them fsynced"
    was = f"{len(lost.before)} files of {bytes_before:,} bytes ({kept_before:,} on the disk)"
    now = f"{len(lost.after)} of {bytes_after:,} ({kept_after:,} on the disk) after"
    return [
        f"{lost.device}, a loop device over our image, lost power: {ours}, {lost.canary_left:,} "
        "are left",
        f"{was} before, {now}{_changed(lost)}",
        f"the kernel writes back by itself what is {early_s:g} to {late_s:g} s old: that may be "
        "left without having been fsynced",
    ]


def _changed(lost: PowerLoss) -> str:
    """The files that are smaller or gone, the largest loss first."""
    losses = []
    for path, was in lost.before.items():
        now = lost.after.get(path)
        if now is None:
            losses.append((was.allocated_bytes, f"{path} is gone"))
        elif now != was:
            sizes = f"{was.size_bytes:,} to {now.size_bytes:,} bytes"
            kept = f"{was.allocated_bytes:,} to {now.allocated_bytes:,} on the disk"
            losses.append((was.allocated_bytes - now.allocated_bytes, f"{path}: {sizes} ({kept})"))
    shown = [text for _, text in sorted(losses, reverse=True)[:_SHOWN]]
    more = [f"and {len(losses) - _SHOWN} more"] if len(losses) > _SHOWN else []
    return "".join(f"; {text}" for text in [*shown, *more])


def _own(node: Node) -> OwnDisk:
    disk = node.own_disk
    if disk is None:
        raise HarnessFailure(f"{node.name}: it does not store on its own disk")
    return disk
