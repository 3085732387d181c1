"""Planned work: leaders are moved on request, while every node is well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from harness.levers.leadership import LeadershipRecord
from harness.protocols import Act, Cluster, Node, Select, with_role
from harness.protocols.leadership import LEADERSHIP


@dataclass(frozen=True, kw_only=True)
class Membership:
    """Move leaders as an operator does, by reassignment or election; no node fails.

    form  move: every partition that a chosen node leads gets another leader: the order of its
          replicas is changed, then its preferred leader elected; healing puts both back;
          elect: the preferred leaders among the chosen nodes (`nodes = "all"`) are elected where
          they do not lead; proven only if some leader changed, and nothing is left to be undone
    """

    plugin: ClassVar[str] = "membership"
    needs: ClassVar[frozenset[str]] = frozenset({LEADERSHIP})

    form: Literal["move", "elect"] = "move"

    def available(self, cluster: Cluster) -> str | None:
        """Null, or why no other node can lead."""
        return None if len(with_role(cluster, "broker")) > 1 else "there is only one broker"

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:  # noqa: ARG002
        """One act for all nodes: one request moves all of it."""
        names = ",".join(node.name for node in nodes)
        return [Act("leadership", LeadershipRecord(node=names, form=self.form))] if names else []
