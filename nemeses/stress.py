"""Load beside the target's process: a noisy neighbour that burns CPU or holds memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.faults.records import StressRecord
from harness.protocols import Act, NodeNemesis


@dataclass(frozen=True, kw_only=True)
class Stress(NodeNemesis):
    """Busy loops and held memory on the chosen nodes, inside the node's own limits.

    Where memory beyond the node's limit is requested, the kernel ends the process that holds it and
    not the target; the fault is then unproven.

    busy_count  how many busy loops
    memory_mb   how many MiB are held
    at_most_s   it ends after this time in any case
    """

    plugin: ClassVar[str] = "stress"

    busy_count: int = 2
    memory_mb: int = 0
    at_most_s: float = 600

    def __post_init__(self) -> None:
        if not 0 <= self.busy_count <= 64:
            raise ValueError(f"busy_count is from 0 to 64, not {self.busy_count}")
        if not 0 <= self.memory_mb <= 16384:
            raise ValueError(f"memory_mb is from 0 to 16384, not {self.memory_mb}")
        if not 1 <= self.at_most_s <= 86_400:
            raise ValueError(f"at_most_s is from 1 to 86400, not {self.at_most_s:g}")
        if not (self.busy_count or self.memory_mb):
            raise ValueError("busy_count and memory_mb are both 0: there is nothing to do")

    @property
    def limit(self) -> tuple[str, float] | None:
        return "at_most_s", self.at_most_s

    def act_on(self, node: str, pid: int | None) -> Act:
        record = StressRecord(
            node=node,
            busy_count=self.busy_count,
            memory_mb=self.memory_mb,
            at_most_s=self.at_most_s,
        )
        return Act("stress", record)
