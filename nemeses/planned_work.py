"""Planned work, while every node is healthy: leaders are moved, members removed, nodes get another
version, and the cluster uses what is new in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from harness.faults.records import (
    FeaturesRecord,
    LeadershipRecord,
    Level,
    MembersRecord,
    ProgramRecord,
    StageRecord,
)
from harness.protocols import Act, Nemesis, Node, Select


@dataclass(frozen=True, kw_only=True)
class Membership(Nemesis):
    """Move leaders or remove members as an operator does, on request; no node fails.

    form  move: every partition that a chosen node leads gets another leader, and another order of
          its replicas; healing restores both; elect: the preferred leaders among the chosen nodes
          are elected; never undone; remove: the chosen nodes leave the members but keep running;
          healing makes them members again
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


@dataclass(frozen=True, kw_only=True)
class Upgrade(Nemesis):
    """Each chosen node is stopped, and started with another version on what it has stored: one
    after the other, each once everything is fully replicated again. Nothing is undone.

    to       the version, newer or older, such as 4.3.1
    at_once  true: all nodes at the same time
    kill     true: a node is killed, not stopped
    """

    plugin: ClassVar[str] = "upgrade"
    single_use: ClassVar[bool] = True

    to: str = ""
    at_once: bool = False
    kill: bool = False

    def in_turn(self, acts: Sequence[Act]) -> list[Sequence[Act]]:
        return [acts] if self.at_once else [[act] for act in acts]

    def requires(self, node: str) -> list[Act]:
        return [Act("program", ProgramRecord(node=node, to=self.to, kill=self.kill))]

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:
        return [act for node in nodes for act in self.requires(node.name)]


@dataclass(frozen=True, kw_only=True)
class Features(Nemesis):
    """The levels of the cluster's features are raised, as the last step of an upgrade, or lowered
    before a downgrade. Nothing is undone.

    levels  of features by name; none: the highest that every node supports
    unsafe  true: levels may be lowered though metadata may be lost by it
    """

    plugin: ClassVar[str] = "features"
    single_use: ClassVar[bool] = True

    levels: dict[str, int] = field(default_factory=dict)
    unsafe: bool = False

    def requires(self, node: str) -> list[Act]:
        levels = tuple(Level(feature=name, level=n) for name, n in self.levels.items())
        return [Act("features", FeaturesRecord(node=node, levels=levels, unsafe=self.unsafe))]

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:
        """One act: the request is about the cluster."""
        return self.requires(",".join(node.name for node in nodes)) if nodes else []


@dataclass(frozen=True, kw_only=True)
class Migrate(Upgrade):
    """Kafka 3.9 goes from ZooKeeper to KRaft under load, one step for each stage: `provisioned`,
    `dual-write`, `kraft`, `final`, `deprovisioned`; or back from `kraft`: `dual-write`,
    `deprovisioned`, `zookeeper`. Each chosen node is stopped, and started as the stage has it.

    to       the stage
    at_once  true: all nodes at the same time
    kill     true: a node is killed, not stopped
    remove   znodes that are deleted at the end of the stage, such as /controller and /migration
    """

    plugin: ClassVar[str] = "migrate"

    remove: list[str] = field(default_factory=list)

    def requires(self, node: str) -> list[Act]:
        stage = StageRecord(node=node, to=self.to, remove=tuple(self.remove))
        return [*super().requires(node), Act("stage", stage)]

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:
        """Each node, and at last the cluster."""
        own = [self.requires(node.name)[0] for node in nodes]
        return [*own, *self.requires(",".join(node.name for node in nodes))[1:]] if own else []

    def in_turn(self, acts: Sequence[Act]) -> list[Sequence[Act]]:
        return [*super().in_turn(acts[:-1]), acts[-1:]]
