"""`cluster.kind = "ssh"`: nodes on hosts of the user's, over SSH.

A plan names no host: the inventory comes from the command line. What imports paramiko is imported
when it is first needed: plans are validated with this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from harness import registry
from harness.clusters.ssh.inventory import HostEntry, Inventory, read_inventory
from harness.clusters.ssh.levers import host_levers
from harness.errors import EnvironmentFailure, PlanError
from harness.machine.checks import maven
from harness.protocols import (
    Cost,
    Finding,
    ImageRef,
    Ingredients,
    LeavesObjects,
    NodeOutline,
    Order,
    Provider,
    RunCluster,
    RunsOnHosts,
    Status,
    TakesInventory,
    Target,
)

# Beside its workload: uploads are kept, a JVM starts without class data.
_KEPT_S, _NEW_S = 5.0, 30.0


@dataclass(frozen=True)
class Ssh(Provider, LeavesObjects, TakesInventory):
    """Real processes on hosts of an inventory (`--inventory FILE`), over SSH."""

    plugin: ClassVar[str] = "ssh"
    simulated: ClassVar[bool] = False

    @property
    def inventory(self) -> Path | None:
        """The file that names the hosts."""
        return None

    def with_inventory(self, inventory: Path) -> Ssh:
        """This kind of cluster on the hosts of a file. Raises PlanError for a wrong one."""
        content = read_inventory(inventory)
        for name in content.systems:
            registry.check_name("targets", name, key=f"systems.{name}", file=str(inventory))
        return _OnHosts(inventory, content)

    def gateways(self, order: Order) -> frozenset[str]:
        """The nodes on hosts that are jump hosts of others."""
        if self.inventory is None or not self._hosts().jumps:
            return frozenset()
        assigned = self._assigned(order)
        hosts = self._hosts().gateways({host.name for host in assigned.values()})
        return frozenset(node for node, host in assigned.items() if host.name in hosts)

    @property
    def levers(self) -> Sequence[str]:
        """See `host_levers`: a host is a Linux host."""
        return tuple(host_levers({}))

    @property
    def trouble(self) -> tuple[type[Exception], ...]:
        """None but those of ackloss itself."""
        return ()

    def runs(self, target: type[Target[Any]]) -> bool:
        """A target that says what a host needs to run it."""
        return issubclass(target, RunsOnHosts)

    def outline(self, order: Order) -> list[NodeOutline]:
        """The nodes, each with its host."""
        hosts = self._assigned(order)
        addresses = {name: host.cluster_address or host.address for name, host in hosts.items()}
        return [
            NodeOutline(
                name=spec.name,
                roles=spec.roles,
                address=addresses[spec.name],
                command=" ".join(spec.argv),
                files=tuple(sorted(spec.files)),
            )
            for spec in _target(order).nodes(order.plan, _ingredients(order), addresses)
        ]

    def cost(self, order: Order, *, kept: bool) -> Cost:
        """Nothing of this machine's memory."""
        seconds = order.plan.workload.duration_s + (_KEPT_S if kept else _NEW_S)
        return Cost(memory_mb=0, seconds=seconds)

    def reach(self) -> None:
        """Connect to every host."""
        from harness.clusters.ssh.cluster import side_by_side
        from harness.clusters.ssh.host import hosts_of

        hosts = hosts_of(self._hosts())
        try:
            side_by_side(lambda host: host.admit(), hosts)
        finally:
            for host in hosts:
                host.close()

    def require(self, order: Order) -> None:
        """A host for every node. What a host lacks is found when it is claimed."""
        self._assigned(order)

    def checkup(self) -> Sequence[Finding]:
        """What fetches the jars of systems, and what the hosts have and lack for nodes."""
        if self.inventory is None:
            fix = "ackloss doctor --inventory FILE"
            return maven(), Finding("hosts", Status.WARN, "none named, none examined", fix)
        from harness.clusters.ssh.checkup import examine

        return maven(), *examine(self.inventory)

    def prepare(self, order: Order, say: Callable[[str], None]) -> None:
        """What the target needs on hosts, on this machine."""
        _target(order).for_hosts(order.plan, say)

    def cluster(self, order: Order, run_id: str, say: Callable[[str], None]) -> RunCluster:
        """Nodes that are not started yet; what is uploaded to their hosts is here."""
        from harness.clusters.ssh.hosts_of_run import HostsOfRun

        assigned, inventory = self._assigned(order), self._hosts()
        made = _target(order).for_hosts(order.plan, say)
        assert self.inventory is not None
        return HostsOfRun.on(inventory, self.inventory, assigned, order, made, run_id)

    def remove(self, run_id: str, *, dry_run: bool = False) -> list[str]:
        """Processes, mounts, rules and folders, by the run's id, on the hosts that it used."""
        from harness.clusters.ssh.removal import remove_run

        return remove_run(run_id, dry_run=dry_run)

    def unknown_runs(self, known: set[str]) -> set[str]:
        """None: hosts are queried only if an inventory names them."""
        return set()

    def clean_hosts(self, known: set[str], *, dry_run: bool) -> tuple[list[str], list[str]]:
        """Remove what dead runs of any machine left on these hosts."""
        from harness.clusters.ssh.removal import clean_inventory

        self._hosts()
        assert self.inventory is not None
        return clean_inventory(self.inventory, known, dry_run=dry_run)

    def _hosts(self) -> Inventory:
        raise PlanError(
            "a cluster of kind 'ssh' needs to know its hosts",
            key="cluster.kind",
            hint="name them with --inventory FILE",
        )

    def _assigned(self, order: Order) -> dict[str, HostEntry]:
        """The host of each node: the first that is free and takes its role."""
        target, hosts = _target(order), list(self._hosts().hosts)
        names = target.names(order.plan)
        if len(names) > len(hosts):
            raise EnvironmentFailure(
                f"the plan has {len(names)} nodes ({', '.join(names)}), "
                f"but the inventory has {len(hosts)} hosts",
                file=str(self.inventory),
                hint="add hosts, or make the plan's cluster smaller",
            )
        roles = _roles(order, names)
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
            # a host that takes few roles is of no use to other nodes
            assigned[name] = chosen = min(takes, key=lambda h: (not h.roles, hosts.index(h)))
            hosts.remove(chosen)
        return assigned


@dataclass(frozen=True)
class _OnHosts(Ssh):
    """The kind `ssh` with an inventory: not a separate plug-in."""

    file: Path
    content: Inventory

    @property
    def inventory(self) -> Path:
        return self.file

    def _hosts(self) -> Inventory:
        return self.content


def _roles(order: Order, names: Sequence[str]) -> Mapping[str, frozenset[str]]:
    addresses = {name: f"198.18.0.{11 + n}" for n, name in enumerate(names)}
    specs = _target(order).nodes(order.plan, _ingredients(order), addresses)
    return {spec.name: spec.roles for spec in specs}


def _ingredients(order: Order) -> Ingredients:
    """Ingredients for an outline, of which nothing is made."""
    version = order.plan.target.version
    image = ImageRef(reference=f"{order.plan.target.system} {version}", id="", version=version)
    return Ingredients(image=image)


def _target(order: Order) -> RunsOnHosts[Any]:
    """The target as one that runs on hosts: a plan whose target is not was refused."""
    target = order.target
    assert isinstance(target, RunsOnHosts)
    return target
