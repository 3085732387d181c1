"""Power loss, whatever the system and its files: what was not fsynced is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from harness.faults.records import PowerRecord
from harness.protocols import OWN_DISK, Act, Nemesis, Node, Select


@dataclass(frozen=True, kw_only=True)
class PowerLoss(Nemesis):
    """The chosen nodes lose power: their processes are killed, and what they had written without
    fsync is gone from their disks. Healing starts the processes again; what was lost stays lost.

    Every node of such a plan stores on a file system of its own, in a loop device, which is shut
    down without being flushed. It needs no knowledge of the system's files; `nemesis = "disk"` with
    `form = "unsynced"` estimates the same where loop devices are not to be had. The kernel writes
    back by itself what is some 5 to 35 s old: a loss is shown best within 30 s of the writes. What
    was written before the first operation is on the disks.
    """

    plugin: ClassVar[str] = "power-loss"
    single_use: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({OWN_DISK})

    def requires(self, node: str) -> list[Act]:
        """A disk that can lose power."""
        return [Act("power", PowerRecord(node=node, signal="KILL", pid=None))]

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:  # noqa: ARG002
        """One act per node."""
        return [Act("power", PowerRecord(node=n.name, signal="KILL", pid=n.pid())) for n in nodes]
