"""The pods of one run: a target's nodes, prepared for the faults of a plan, in Docker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.pod import DockerNode
from harness.clusters.docker.preparing import prepared
from harness.clusters.specs import specs_of
from harness.protocols import (
    ImageRef,
    Ingredients,
    Lever,
    Node,
    Order,
    RunCluster,
    RunsInContainers,
)
from harness.protocols.clock import Clock, RealClock


@dataclass
class PodsOfRun(RunCluster):
    """See `harness.protocols.RunCluster`."""

    order: Order
    ingredients: Ingredients
    pods: DockerCluster
    real_clock: Clock = field(default_factory=RealClock)

    @property
    def run_id(self) -> str:
        return self.pods.run_id

    @property
    def clock(self) -> Clock:
        return self.real_clock

    @property
    def image(self) -> ImageRef:
        return self.ingredients.image

    @property
    def nodes(self) -> Mapping[str, DockerNode]:
        return self.pods.nodes

    @property
    def levers(self) -> Mapping[str, Lever[Any]]:
        return self.pods.levers

    def start(self) -> None:
        """Make the network and start every node, prepared for the plan's faults."""
        target, plan = self.order.target, self.order.plan
        assert isinstance(target, RunsInContainers)
        addresses = self.pods.create_network(target.names(plan))
        specs = specs_of(self.order, self.ingredients, addresses)
        specs = prepared(specs, self.order.needs, holder_id=self.pods.infra_image)
        self.pods.start(specs, self.ingredients.image.id, addresses)

    def output(self, node: Node) -> bytes:
        """What the target's process has printed."""
        return self.pods.output(self.pods.nodes[node.name])

    def down(self) -> list[str]:
        """Remove everything of this run."""
        return self.pods.down()
