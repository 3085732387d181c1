"""Process death: the target's process on the chosen nodes is ended and later started again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from harness.faults.records import ProcessRecord
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
    grace_s: float = 30

    def __post_init__(self) -> None:
        if not 1 <= self.grace_s <= 600:
            raise ValueError(f"grace_s is {self.grace_s:g}; use 1 to 600")

    def act_on(self, node: str, pid: int | None) -> Act:
        return Act(
            "process", ProcessRecord(node=node, signal=self.signal, pid=pid, grace_s=self.grace_s)
        )
