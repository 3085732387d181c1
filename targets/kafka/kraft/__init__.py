"""Kafka that keeps its own metadata: a quorum of controllers (KIP-500).

layout      nodes and their files
admin       brokers, topics, features, the active controller
voters      who the controllers are
leadership  moves of leaders
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.protocols import Cluster, ImageRef, Ingredients, Node, NodeSpec, NodeView
from targets.kafka.kraft import admin, layout
from targets.kafka.kraft.leadership import KraftLeadership
from targets.kafka.levers.leaders import Leadership
from targets.kafka.placements import of_commits
from targets.kafka.plan import KafkaPlan


@dataclass(frozen=True)
class Kraft:
    """See `targets.kafka.modes`."""

    def defaults(self, plan: KafkaPlan) -> Mapping[str, Any]:
        """Short time-outs, and what a small cluster can do with."""
        return layout.defaults(plan)

    def ingredients(
        self, plan: KafkaPlan, image: ImageRef, say: Callable[[str], None]
    ) -> Ingredients:
        """A class-data archive for the image, and a formatted bootstrap checkpoint."""
        return layout.ingredients(plan, image, say)

    def specs(
        self, plan: KafkaPlan, ingredients: Ingredients, addresses: Mapping[str, str]
    ) -> list[NodeSpec]:
        """Brokers b1 ... and controllers c1 ..., formatted without starting a JVM."""
        return layout.specs(plan, ingredients, addresses)

    def await_brokers(self, cluster: Cluster, plan: KafkaPlan, deadline: float) -> None:
        """Every broker itself knows every broker."""
        admin.await_brokers(cluster, plan, deadline)

    def create_topic(self, cluster: Cluster, plan: KafkaPlan, deadline: float) -> None:
        """By CreateTopics; that of the groups' commits too where the plan says who leads it."""
        if plan.target.coordinator is not None:
            commits = of_commits(plan, layout.DEFAULTS["offsets.topic.num.partitions"])
            admin.create_topic(cluster, commits, deadline)
        admin.create_topic(cluster, plan, deadline)

    def forget(self, cluster: Cluster, topics: Sequence[str]) -> None:
        """Topics by DeleteTopics, all in one request; nothing else."""
        admin.delete_topics(cluster, topics)

    def observe(self, node: Node, plan: KafkaPlan, *, timeout_s: float) -> NodeView | None:
        """A broker's partitions, a controller's idea of who is active."""
        return admin.observe(node, plan, timeout_s=timeout_s)

    def observe_each(
        self, node: Node, plans: Sequence[KafkaPlan], *, timeout_s: float
    ) -> list[NodeView | None]:
        """See `observe`."""
        return admin.observe_each(node, plans, timeout_s=timeout_s)

    def features(self, cluster: Cluster) -> dict[str, int]:
        """As a broker finalized them."""
        return admin.features(cluster)

    def leadership(self, nodes: Mapping[str, Node], plan: KafkaPlan) -> Leadership:
        """By reassignments and elections that any broker forwards."""
        return KraftLeadership(nodes, plan)
