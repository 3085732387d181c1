"""Kafka whose metadata ZooKeeper keeps: every version before 4.0.

layout      nodes and their files     admin       brokers, the topic, who leads
asking      one query to one ZooKeeper server
leadership  moves of leaders
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import PlanError
from harness.protocols import Cluster, ImageRef, Ingredients, Node, NodeSpec, NodeView
from targets.kafka.levers.leaders import Leadership
from targets.kafka.plan import KafkaPlan
from targets.kafka.support import version_of
from targets.kafka.versions import DEFAULT_VERSION, ZOOKEEPER, release_line
from targets.kafka.zookeeper import admin, layout
from targets.kafka.zookeeper.leadership import ZooKeeperLeadership


@dataclass(frozen=True)
class ZooKeeper:
    """See `targets.kafka.modes`."""

    def defaults(self, plan: KafkaPlan) -> Mapping[str, Any]:
        """Short time-outs, and what a small cluster can do with."""
        return layout.defaults(plan, version_of(plan) or DEFAULT_VERSION)

    def ingredients(
        self, plan: KafkaPlan, image: ImageRef, say: Callable[[str], None]
    ) -> Ingredients:
        """The image alone: these JVMs are small and start fast."""
        if ZOOKEEPER not in release_line(image.version or DEFAULT_VERSION).metadata:
            raise PlanError(
                f"Kafka {image.version} has no ZooKeeper mode any more",
                key="target.metadata",
                hint="remove it",
            )
        if plan.target.coordinator is not None:
            raise PlanError(
                "who coordinates groups first can be chosen with KRaft only",
                key="target.coordinator",
                hint="remove it",
            )
        return Ingredients(image=image)

    def specs(
        self, plan: KafkaPlan, ingredients: Ingredients, addresses: Mapping[str, str]
    ) -> list[NodeSpec]:
        """Brokers b1 ... and ZooKeeper servers z1 ... ."""
        return layout.specs(plan, ingredients, addresses)

    def await_brokers(self, cluster: Cluster, plan: KafkaPlan, deadline: float) -> None:
        """ZooKeeper knows every broker."""
        admin.await_brokers(cluster, plan, deadline)

    def create_topic(self, cluster: Cluster, plan: KafkaPlan, deadline: float) -> None:
        """By the znodes that Kafka's own tool writes."""
        admin.create_topic(cluster, plan, deadline)

    def forget(self, cluster: Cluster, topics: Sequence[str]) -> None:
        """Topics by the znodes that Kafka's own tool writes; a controller is elected again."""
        admin.forget(cluster, topics)

    def observe(self, node: Node, plan: KafkaPlan, *, timeout_s: float) -> NodeView | None:
        """A broker's partitions as it reports them to clients; what ZooKeeper has of them."""
        return admin.observe(node, plan, timeout_s=timeout_s)

    def observe_each(
        self, node: Node, plans: Sequence[KafkaPlan], *, timeout_s: float
    ) -> list[NodeView | None]:
        """See `observe`."""
        return admin.observe_each(node, plans, timeout_s=timeout_s)

    def features(self, cluster: Cluster) -> dict[str, int]:
        """There are none."""
        return {}

    def leadership(self, nodes: Mapping[str, Node], plan: KafkaPlan) -> Leadership:
        """By the znodes that request it from the controller."""
        return ZooKeeperLeadership(nodes, plan)
