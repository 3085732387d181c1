"""Pauses: the processes of the chosen nodes are stopped, as in a long garbage collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.faults.records import PauseRecord
from harness.protocols import Act, NodeNemesis


@dataclass(frozen=True, kw_only=True)
class Pause(NodeNemesis):
    """SIGSTOP on the processes of the chosen nodes in parallel; healing continues them.

    Connections stay open and nothing is refused: peers and clients notice by their timeouts alone,
    and a process that continues believes that no time has passed.
    """

    plugin: ClassVar[str] = "pause"

    def act_on(self, node: str, pid: int | None) -> Act:
        return Act("pause", PauseRecord(node=node, pid=pid))
