"""The two ways in which a cluster keeps its metadata: how it is laid out, queried and changed.

kraft      controllers of Kafka's own, 3.3 and later
zookeeper  ZooKeeper servers, before 4.0
migration  from the second to the first, in 3.9

Each is a module with the functions of `Mode`. What cannot be queried raises HarnessFailure, what
does not come in time TimeoutError, and a topic's setting that is refused PlanError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from harness.protocols import Cluster, ImageRef, Ingredients, Node, NodeSpec, NodeView
from targets.kafka import kraft, migration, zookeeper
from targets.kafka.brokers import Leadership
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import KRAFT, metadata_of


class Mode(Protocol):
    """What differs between the two."""

    def defaults(self, plan: KafkaPlan) -> dict[str, Any]:
        """What ackloss sets unless the plan does."""

    def ingredients(
        self, plan: KafkaPlan, image: ImageRef, say: Callable[[str], None]
    ) -> Ingredients:
        """What nodes need besides the plan."""

    def specs(
        self, plan: KafkaPlan, made: Ingredients, addresses: Mapping[str, str]
    ) -> list[NodeSpec]:
        """Every node with its files."""

    def await_brokers(self, cluster: Cluster, plan: KafkaPlan, deadline: float) -> None:
        """Wait until every broker has joined."""

    def create_topic(self, cluster: Cluster, plan: KafkaPlan, deadline: float) -> None:
        """Make the plan's topic."""

    def forget(self, cluster: Cluster, topics: Sequence[str]) -> None:
        """Delete topics, so that the cluster can be used for another run."""

    def observe_each(
        self, node: Node, plans: Sequence[KafkaPlan], *, timeout_s: float
    ) -> list[NodeView | None]:
        """One node's own view of the topics of several plans; null when it does not answer."""

    def leadership(self, nodes: Mapping[str, Node], plan: KafkaPlan) -> Leadership:
        """Moves of leaders."""


def mode_of(plan: KafkaPlan) -> Mode:
    """The mode of a plan's cluster."""
    if plan.migrates:
        return migration
    return kraft if metadata_of(plan) == KRAFT else zookeeper


def observe(node: Node, plan: KafkaPlan, *, timeout_s: float) -> NodeView | None:
    """One node's own view of the plan's topic."""
    return mode_of(plan).observe_each(node, [plan], timeout_s=timeout_s)[0]
