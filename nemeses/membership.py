"""Planned work: leaders are moved, or members removed, while every node is healthy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from harness.faults.records import LeadershipRecord, MembersRecord
from harness.protocols import Act, Nemesis, Node, Select


@dataclass(frozen=True, kw_only=True)
class Membership(Nemesis):
    """Move leaders or remove members as an operator does, on request; no node fails.

    form  move: every partition that a chosen node leads gets another leader, and another order of
          its replicas; healing restores both; elect: the preferred leaders among the chosen nodes
          are elected where they do not lead; proven only if some leader has changed, and never
          undone; remove: the chosen nodes leave the members but keep running; healing makes them
          members again
    """

    plugin: ClassVar[str] = "membership"

    form: Literal["move", "elect", "remove"] = "move"

    @property
    def lasts(self) -> bool:
        return self.form != "elect"

    def requires(self, node: str) -> list[Act]:
        """Leaders that can be moved, or members that can be removed."""
        if self.form == "remove":
            return [Act("members", MembersRecord(node=node))]
        return [Act("leadership", LeadershipRecord(node=node, form=self.form))]

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:
        """One act for all nodes: one request changes all of it."""
        names = ",".join(node.name for node in nodes)
        return self.requires(names) if names else []
