"""Nemeses: which of the chosen nodes are killed, and which acknowledge too early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ackloss.plugins import Act, Nemesis, Node, ProcessRecord, Select
from ackloss_toy.lever import TOY_MODE, ModeRecord


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


@dataclass(frozen=True, kw_only=True)
class Loosen(Nemesis):
    """The chosen servers of the toy store acknowledge what they have received, and store it later;
    healing has them acknowledge as before."""

    plugin: ClassVar[str] = "loosen"

    def requires(self, node: str) -> list[Act]:
        """The toy store's own lever."""
        return [Act(TOY_MODE, ModeRecord(node=node, mode="received"))]

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:
        """One act a node."""
        return [act for node in nodes for act in self.requires(node.name)]
