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

    signal  KILL: without warning; TERM: a clean stop, as in a planned restart
    """

    plugin: ClassVar[str] = "kill"

    signal: Literal["KILL", "TERM"] = "KILL"

    def act_on(self, node: str, pid: int | None) -> Act:
        return Act("process", ProcessRecord(node=node, signal=self.signal, pid=pid))
