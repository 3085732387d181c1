"""Faults of the target's process on the chosen nodes: it dies and is started again later, is
stopped as in a long garbage collection, or has a noisy neighbour that burns CPU or holds memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from harness.faults.records import PauseRecord, ProcessRecord, StressRecord
from harness.protocols import Act, NodeNemesis


@dataclass(frozen=True, kw_only=True)
class Kill(NodeNemesis):
    """A signal ends the processes of the chosen nodes in parallel; healing starts them again.

    The page cache survives, as it does when a process dies and the machine stays up.

    signal   KILL: without warning; TERM: a clean stop, as in a planned restart
    grace_s  how long a clean stop may take; then it is killed, and the fault is not proven
    """

    plugin: ClassVar[str] = "kill"

    signal: Literal["KILL", "TERM"] = "KILL"
    grace_s: Annotated[float, Field(ge=1, le=600)] = 30

    def act_on(self, node: str, pid: int | None) -> Act:
        return Act(
            "process", ProcessRecord(node=node, signal=self.signal, pid=pid, grace_s=self.grace_s)
        )


@dataclass(frozen=True, kw_only=True)
class Pause(NodeNemesis):
    """SIGSTOP on the processes of the chosen nodes in parallel; healing continues them.

    Connections stay open and nothing is refused: peers and clients notice by their timeouts alone.
    """

    plugin: ClassVar[str] = "pause"

    def act_on(self, node: str, pid: int | None) -> Act:
        return Act("pause", PauseRecord(node=node, pid=pid))


@dataclass(frozen=True, kw_only=True)
class Stress(NodeNemesis):
    """Busy loops and held memory on the chosen nodes, inside the node's own limits.

    Of memory beyond the node's limit the kernel ends the holder, not the target: the fault is then
    unproven.

    busy_count  how many busy loops
    memory_mb   how many MiB are held
    at_most_s   it ends after this time in any case
    """

    plugin: ClassVar[str] = "stress"

    busy_count: Annotated[int, Field(ge=0, le=64)] = 2
    memory_mb: Annotated[int, Field(ge=0, le=16384)] = 0
    at_most_s: Annotated[float, Field(ge=1, le=86_400)] = 600

    def __post_init__(self) -> None:
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
