"""A nemesis: which of the chosen nodes are killed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ackloss.plugins import Act, Nemesis, Node, ProcessRecord, Select


@dataclass(frozen=True, kw_only=True)
class KillFirst(Nemesis):
    """SIGKILL on the first of the chosen nodes; healing starts their processes again.

    killed_count  how many are killed
    """

    plugin: ClassVar[str] = "kill-first"

    killed_count: int = 1

    def __post_init__(self) -> None:
        if self.killed_count < 1:
            raise ValueError(f"killed_count is {self.killed_count}; use 1 or more")

    def requires(self, node: str) -> list[Act]:
        """A process that can be signalled."""
        return [Act("process", ProcessRecord(node=node, signal="KILL", pid=None))]

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:
        """One act a node."""
        return [
            Act("process", ProcessRecord(node=node.name, signal="KILL", pid=node.pid()))
            for node in nodes[: self.killed_count]
        ]
