"""The nodes of one run: a target's nodes, prepared for the faults of a plan, on hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.clusters.specs import specs_of
from harness.clusters.ssh.cluster import SshCluster
from harness.clusters.ssh.host import hosts_of
from harness.clusters.ssh.installation import installation
from harness.clusters.ssh.inventory import HostEntry, Inventory
from harness.clusters.ssh.node import SshNode
from harness.clusters.ssh.register import remember_hosts
from harness.protocols import (
    EndsByItself,
    ImageRef,
    Ingredients,
    Lever,
    LosesHosts,
    Node,
    Order,
    RunCluster,
)
from harness.protocols.clock import Clock, RealClock


@dataclass
class HostsOfRun(RunCluster, EndsByItself, LosesHosts):
    """See `harness.protocols.RunCluster`."""

    order: Order
    ingredients: Ingredients
    file: Path
    cluster: SshCluster
    real_clock: Clock = field(default_factory=RealClock)

    @classmethod
    def on(
        cls,
        inventory: Inventory,
        file: Path,
        assigned: Mapping[str, HostEntry],
        order: Order,
        made: Ingredients,
        run_id: str,
    ) -> HostsOfRun:
        """On these hosts, by node."""
        by_name = {host.name: host for host in hosts_of(inventory)}
        hosts = {node: by_name[entry.name] for node, entry in assigned.items()}
        installed = installation(inventory, file, order.plan.target.system, made)
        return cls(order, made, file, SshCluster(run_id, hosts, order.needs, installed))

    @property
    def run_id(self) -> str:
        return self.cluster.run_id

    @property
    def clock(self) -> Clock:
        return self.real_clock

    @property
    def image(self) -> ImageRef:
        image, installed = self.ingredients.image, self.cluster.installed
        return replace(image, reference=installed.image) if installed else image

    @property
    def nodes(self) -> Mapping[str, SshNode]:
        return self.cluster.nodes

    @property
    def levers(self) -> Mapping[str, Lever[Any]]:
        return self.cluster.levers

    def when_lost(self, tell: Callable[[str], None]) -> None:
        """Have `tell` called when a host could not be reached for the time of its lease."""
        self.cluster.tell_lost = tell

    def start(self) -> None:
        """Claim the hosts and start every node, prepared for the plan's faults."""
        made = self.ingredients
        addresses = self.cluster.admit()
        remember_hosts(self.run_id, self.file)
        specs = specs_of(self.order, made, addresses)
        self.cluster.start(specs, folders=made.folders, programs=made.programs)

    def output(self, node: Node) -> bytes:
        """What the system's process has printed."""
        return self.cluster.output(self.cluster.nodes[node.name])

    def keep(self) -> None:
        """Have it go on without this process."""
        self.cluster.keep()

    def down(self) -> list[str]:
        """Remove everything of this run."""
        return self.cluster.down()
