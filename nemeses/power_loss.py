"""Power loss, whatever the system and its files: what was not fsynced is gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.faults.records import PowerRecord
from harness.protocols import OWN_DISK, Act, NodeNemesis


@dataclass(frozen=True, kw_only=True)
class PowerLoss(NodeNemesis):
    """The chosen nodes lose power: their processes are killed, and what they had written without
    fsync is gone from their disks. Healing starts the processes again; what was lost stays lost.

    It needs root and loop devices; without them, `form = "unsynced"` of `disk` approximates it. The
    kernel writes back data that is 5 to 35 s old, so place the fault within 30 s of the writes.
    Everything written before the first operation is flushed.
    """

    plugin: ClassVar[str] = "power-loss"
    single_use: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({OWN_DISK})

    def act_on(self, node: str, pid: int | None) -> Act:
        return Act("power", PowerRecord(node=node, signal="KILL", pid=pid))
