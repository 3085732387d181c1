"""`cluster.kind = "ssh"`: nodes on hosts of the user's, over SSH.

inventory    the file that names the hosts: never a plan
connection   one connection to a host, kept, shared by channels, made again when it is lost
scripts      what runs on a host: a node's namespaces, its process, the lease, the removal
host         a host: commands, files, and what of ours is on it; a node on it
equipment    what a host must have, has and lacks; a system that it has already
cluster      the nodes of one run, and the removal of what dead runs left

Here is the plug-in. A plan names no host: the inventory comes from the command line. What imports
paramiko is imported when it is first needed: plans are validated with this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from harness import registry
from harness.clusters.ssh.inventory import KIND, HostEntry, Inventory, read_inventory
from harness.errors import EnvironmentFailure, PlanError
from harness.levers import all_levers
from harness.levers.process import PowerLever, ProgramLever
from harness.machine.checks import maven
from harness.protocols import (
    Cost,
    Finding,
    NodeOutline,
    Order,
    Provider,
    RunCluster,
    Status,
    Target,
)
from harness.protocols.clusters import example_addresses, outlined

# Beside its workload: uploads are kept, a JVM starts without class data.
_KEPT_S, _NEW_S = 5.0, 30.0


@dataclass(frozen=True)
class Ssh(Provider):
    """Real processes on hosts of an inventory (`--inventory FILE`), over SSH."""

    plugin: ClassVar[str] = KIND
    outlives: ClassVar[bool] = True
    named_by: ClassVar[str] = "inventory"

    def with_file(self, file: Path) -> Ssh:
        """This kind of cluster on the hosts of a file. Raises PlanError for a wrong one."""
        content = read_inventory(file)
        for name in content.systems:
            registry.check_name("targets", name, key=f"systems.{name}", file=str(file))
        return self.stating(inventory=file, content=content)

    def gateways(self, order: Order) -> frozenset[str]:
        """The nodes on hosts that are jump hosts of others."""
        if self.inventory is None or not self._hosts().jumps:
            return frozenset()
        assigned = self._assigned(order)
        hosts = self._hosts().gateways({host.name for host in assigned.values()})
        return frozenset(node for node, host in assigned.items() if host.name in hosts)

    @property
    def levers(self) -> Sequence[str]:
        """Every lever of the core but the loss of power: no node on a host has a disk for that."""
        return [name for name in all_levers({}) if name != PowerLever.name]

    def why_no_lever(self, lever: str) -> str | None:
        if lever == ProgramLever.name:
            return "ackloss replaces no program on a host, only in containers of its own"
        return None

    def runs(self, target: type[Target[Any]]) -> bool:
        return target.does("for_hosts")

    def outline(self, order: Order) -> list[NodeOutline]:
        hosts = self._assigned(order)
        addresses = {name: host.cluster_address or host.address for name, host in hosts.items()}
        return outlined(order, addresses)

    def cost(self, order: Order, *, kept: bool) -> Cost:
        seconds = order.plan.workload.duration_s + (_KEPT_S if kept else _NEW_S)
        return Cost(memory_mb=0, seconds=seconds)

    def reach(self) -> None:
        from harness.clusters.ssh.host import Host, hosts_of, side_by_side

        hosts = hosts_of(self._hosts())
        try:
            side_by_side(Host.admit, hosts)
        finally:
            for host in hosts:
                host.close()

    def require(self, order: Order) -> None:
        """A host for every node. What a host lacks is found when it is claimed."""
        self._assigned(order)

    def checkup(self) -> Sequence[Finding]:
        """What fetches the jars of systems, and what the hosts have and lack for nodes."""
        if self.content is None:
            fix = "ackloss doctor --inventory FILE"
            return maven(), Finding("hosts", Status.WARN, "none named, none examined", fix)
        from harness.clusters.ssh.equipment import examine

        return maven(), *examine(self.content)

    def prepare(self, order: Order, say: Callable[[str], None]) -> None:
        order.target.for_hosts(order.plan, say)

    def cluster(self, order: Order, run_id: str, say: Callable[[str], None]) -> RunCluster:
        from harness.clusters.ssh.cluster import HostsOfRun
        from harness.clusters.ssh.equipment import installation
        from harness.clusters.ssh.host import hosts_of

        assigned, inventory, file = self._assigned(order), self._hosts(), self.inventory
        assert file is not None
        made = order.target.for_hosts(order.plan, say)
        by_name = {host.name: host for host in hosts_of(inventory)}
        hosts = {node: by_name[entry.name] for node, entry in assigned.items()}
        installed = installation(inventory, file, order.plan.target.system, made)
        return HostsOfRun(
            run_id, hosts, order.needs, installed, order=order, ingredients=made, file=file
        )

    def remove(self, run_id: str, *, dry_run: bool = False) -> list[str]:
        """Processes, mounts, rules and folders, by the run's id, on the hosts that it used."""
        from harness.clusters.ssh.cluster import remove_run

        return remove_run(run_id, dry_run=dry_run)

    def clean_hosts(self, known: set[str], *, dry_run: bool) -> tuple[list[str], list[str]]:
        """Remove what dead runs of any machine left on these hosts."""
        from harness.clusters.ssh.cluster import clean_inventory

        return clean_inventory(self._hosts(), known, dry_run=dry_run)

    def _hosts(self) -> Inventory:
        content: Inventory | None = self.content
        if content is None:
            raise PlanError(
                "a cluster of kind 'ssh' needs to know its hosts",
                key="cluster.kind",
                hint="name them with --inventory FILE",
            )
        return content

    def _assigned(self, order: Order) -> dict[str, HostEntry]:
        """The host of each node: the first that is free and takes its role."""
        target, hosts = order.target, list(self._hosts().hosts)
        names = target.names(order.plan)
        if len(names) > len(hosts):
            raise EnvironmentFailure(
                f"the plan has {len(names)} nodes ({', '.join(names)}), "
                f"but the inventory has {len(hosts)} hosts",
                file=str(self.inventory),
                hint="add hosts, or make the plan's cluster smaller",
            )
        outline = outlined(order, example_addresses(order))
        roles = {node.name: node.roles for node in outline}
        assigned = {}
        for name in names:
            takes = [h for h in hosts if not h.roles or set(h.roles) & roles[name]]
            if not takes:
                raise EnvironmentFailure(
                    f"no host is left for {name} ({', '.join(sorted(roles[name]))})",
                    file=str(self.inventory),
                    key="hosts.roles",
                    hint="add a host, or another role to one",
                )
            # first a host that takes few roles: other nodes cannot use it
            assigned[name] = chosen = min(takes, key=lambda h: (not h.roles, hosts.index(h)))
            hosts.remove(chosen)
        return assigned
