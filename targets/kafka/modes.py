"""The two ways in which a Kafka cluster keeps its metadata, and what each must provide.

kraft      controllers of Kafka's own, 3.3 and later
zookeeper  ZooKeeper servers, before 4.0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from harness.protocols import Cluster, ImageRef, Ingredients, Node, NodeSpec, NodeView
from targets.kafka.kraft import Kraft
from targets.kafka.levers.leaders import Leadership
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import KRAFT, metadata_of
from targets.kafka.zookeeper import ZooKeeper


class Mode(Protocol):
    """How a cluster is laid out, configured and queried. What cannot be queried raises
    HarnessFailure."""

    def defaults(self, plan: KafkaPlan) -> Mapping[str, Any]:
        """What ackloss sets of brokers unless the plan does."""
        ...

    def ingredients(
        self, plan: KafkaPlan, image: ImageRef, say: Callable[[str], None]
    ) -> Ingredients:
        """What nodes need besides their image."""
        ...

    def specs(
        self, plan: KafkaPlan, ingredients: Ingredients, addresses: Mapping[str, str]
    ) -> list[NodeSpec]:
        """Brokers, and who keeps the metadata."""
        ...

    def await_brokers(self, cluster: Cluster, plan: KafkaPlan, deadline: float) -> None:
        """Wait until every broker has joined. Raises TimeoutError."""
        ...

    def create_topic(self, cluster: Cluster, plan: KafkaPlan, deadline: float) -> None:
        """Create the plan's topic. Raises PlanError if one of its settings is refused."""
        ...

    def forget(self, cluster: Cluster, topics: Sequence[str]) -> None:
        """Delete a run's topics, and undo what else it has decided for later runs. Raises
        HarnessFailure if a topic stays."""
        ...

    def observe(self, node: Node, plan: KafkaPlan, *, timeout_s: float) -> NodeView | None:
        """A node's own view; null when it does not answer."""
        ...

    def observe_each(
        self, node: Node, plans: Sequence[KafkaPlan], *, timeout_s: float
    ) -> list[NodeView | None]:
        """A node's own view of the topic of each plan."""
        ...

    def features(self, cluster: Cluster) -> dict[str, int]:
        """Finalized features and their levels."""
        ...

    def leadership(self, nodes: Mapping[str, Node], plan: KafkaPlan) -> Leadership:
        """The leaders of the plan's topic."""
        ...


def mode_of(plan: KafkaPlan) -> Mode:
    """The mode of a plan's cluster."""
    return Kraft() if metadata_of(plan) == KRAFT else ZooKeeper()
