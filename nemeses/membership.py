"""Planned work: leaders are moved on request, while every node is healthy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from harness.faults.records import LeadershipRecord
from harness.protocols import Act, Nemesis, Node, Select


@dataclass(frozen=True, kw_only=True)
class Membership(Nemesis):
    """Move leaders as an operator does, by reassignment or election; no node fails.

    form  move: every partition that a chosen node leads gets another leader: the order of its
          replicas is changed, then its preferred leader is elected; healing restores both;
          elect: the preferred leaders among the chosen nodes (`nodes = "all"`) are elected where
          they do not lead; proven only if some leader has changed; there is nothing to undo
    """

    plugin: ClassVar[str] = "membership"

    form: Literal["move", "elect"] = "move"

    def requires(self, node: str) -> list[Act]:
        """Leaders that can be moved."""
        return [Act("leadership", LeadershipRecord(node=node, form=self.form))]

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:  # noqa: ARG002
        """One act for all nodes: one request moves all of it."""
        names = ",".join(node.name for node in nodes)
        return [Act("leadership", LeadershipRecord(node=names, form=self.form))] if names else []
