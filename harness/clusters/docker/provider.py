"""`cluster.kind = "docker"`: pods of containers on this machine's Docker daemon.

Everything that imports Docker's client is imported when it is first needed: plans are validated
with this module, and not with that library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.pod import DockerNode
from harness.clusters.specs import specs_of
from harness.errors import EnvironmentFailure
from harness.images import faketime
from harness.images.recipe import INFRA_MB
from harness.levers import all_levers, clock
from harness.machine import loop_disks
from harness.machine.space import DISK_MIN_BYTES, free_bytes, gib, memory_available
from harness.protocols import (
    BOUNDED_DISK,
    FAKETIME,
    OWN_DISK,
    Cost,
    Finding,
    ImageRef,
    Ingredients,
    LeavesObjects,
    Lever,
    Node,
    NodeOutline,
    NodeSpec,
    Order,
    Provider,
    RunCluster,
    RunsInContainers,
    Target,
)
from harness.protocols.clock import Clock, RealClock

# The pods of one run: a target's nodes, prepared for the faults of a plan, in Docker.

# What nodes must have from their start for the faults of a plan, and only of such a plan.
#
# A nemesis that needs something says so by name (`Nemesis.needs`).

_DATA_MB = 128
"""Holds what a log stores in some minutes at 2,000 small writes a second."""
_OWN_DISK_MB = 1024
"""Sparse: it takes what is written. Some systems allocate files of 64 MB in advance."""


def prepared(specs: Sequence[NodeSpec], needs: frozenset[str], *, holder_id: str) -> list[NodeSpec]:
    """The nodes with what is needed, the same when nothing is; libraries are the holder image's."""
    specs = list(specs)
    if OWN_DISK in needs:  # one that is small may be filled, too
        size_mb = _DATA_MB if BOUNDED_DISK in needs else _OWN_DISK_MB
        specs = [replace(spec, own_disk_mb=size_mb) for spec in specs]
    elif BOUNDED_DISK in needs:
        specs = [replace(spec, data_mb=_DATA_MB) for spec in specs]
    if FAKETIME in needs:
        library = faketime.library(holder_id)
        specs = [clock.prepared(spec, library) for spec in specs]
    return specs


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


EXAMPLE_SUBNET = "198.18.0"
# Measured on two cores: the time of a run beside its workload, on a kept and on a new cluster.
_KEPT_S, _NEW_S = 5.0, 22.0
_FURTHER_CELL_S = 0.5
"""What a cell adds that shares a run: its topic, its final read, its judgement."""


@dataclass(frozen=True)
class Docker(Provider, LeavesObjects):
    """Real processes in containers of this machine, on a network of their own."""

    plugin: ClassVar[str] = "docker"
    simulated: ClassVar[bool] = False

    @property
    def levers(self) -> Sequence[str]:
        """Every lever of the core: a pod is a separate Linux host."""
        return tuple(all_levers({}))

    @property
    def trouble(self) -> tuple[type[Exception], ...]:
        """What Docker's client raises."""
        from harness.images.daemon import DAEMON_TROUBLE

        return DAEMON_TROUBLE

    def runs(self, target: type[Target[Any]]) -> bool:
        """A target that names its nodes and prepares their image."""
        return issubclass(target, RunsInContainers)

    def outline(self, order: Order) -> list[NodeOutline]:
        """The target's nodes, at the addresses of an example subnet."""
        target, plan = _target(order), order.plan
        version = plan.target.version
        reference = plan.target.image or f"{plan.target.system} {version}"
        image = ImageRef(reference=reference, id="", version=version)
        names = target.names(plan)
        addresses = {name: f"{EXAMPLE_SUBNET}.{11 + n}" for n, name in enumerate(names)}
        return [
            NodeOutline(
                name=spec.name,
                roles=spec.roles,
                address=addresses[spec.name],
                command=" ".join(spec.argv),
                files=tuple(sorted(spec.files)),
            )
            for spec in specs_of(order, Ingredients(image=image), addresses)
        ]

    def cost(self, order: Order, *, kept: bool) -> Cost:
        """Memory limits of both containers of each node."""
        nodes = len(_target(order).names(order.plan))
        return Cost(
            memory_mb=nodes * (order.plan.target.memory_mb + INFRA_MB),
            seconds=order.plan.workload.duration_s + (_KEPT_S if kept else _NEW_S),
            further_cell_s=_FURTHER_CELL_S,
        )

    def reach(self) -> None:
        """Connect to the daemon."""
        from harness.images.daemon import connect

        connect()

    def require(self, order: Order) -> None:
        """A daemon that answers, room on its disk, memory for the nodes, disks that can lose
        power where they are needed."""
        from harness.images.daemon import docker_root

        root = docker_root()
        if (free := free_bytes(root)) < DISK_MIN_BYTES:
            raise EnvironmentFailure(
                f"{gib(free)} are free on the disk of Docker, "
                f"but a run needs {gib(DISK_MIN_BYTES)}",
                file=str(root),
                hint="free some space",
            )
        if OWN_DISK in order.needs and (why := loop_disks.why_none()):
            raise EnvironmentFailure(
                f"the plan's faults need nodes with disks that can lose power, but {why}",
                hint='`nemesis = "disk"` with `form = "unsynced"` needs none',
            )
        nodes, each_mb = len(_target(order).names(order.plan)), order.plan.target.memory_mb
        needed, free = nodes * each_mb << 20, memory_available()
        if free < needed:
            raise EnvironmentFailure(
                f"{gib(free)} of memory are available, but {nodes} nodes of {each_mb} MiB "
                f"may use {gib(needed)}",
                key="target.memory_mb",
                hint="stop other programs, or configure fewer or smaller nodes",
            )

    def checkup(self) -> Sequence[Finding]:
        """See `harness.clusters.docker.checkup`."""
        from harness.clusters.docker import checkup

        return checkup.examine()

    def prepare(self, order: Order, say: Callable[[str], None]) -> None:
        """The infrastructure image, and the target's."""
        from harness.images.building import infra_image

        infra_image(say)
        _target(order).prepare(order.plan, say)

    def cluster(self, order: Order, run_id: str, say: Callable[[str], None]) -> RunCluster:
        """Pods that are not started yet; their images are there."""
        from harness.clusters.docker.cluster import DockerCluster
        from harness.images.building import infra_image
        from harness.images.daemon import connect

        client = connect()
        infra = infra_image(say)
        ingredients = _target(order).prepare(order.plan, say)
        return PodsOfRun(order, ingredients, DockerCluster(run_id, client, infra.id))

    def remove(self, run_id: str, *, dry_run: bool = False) -> list[str]:
        """Containers, networks and volumes, by label, and disks."""
        from harness.clusters.docker.removal import remove_run
        from harness.images.daemon import connect

        return remove_run(connect(), run_id, dry_run=dry_run)

    def unknown_runs(self, known: set[str]) -> set[str]:
        """Runs whose label something of this daemon carries, or of which a disk is there."""
        from harness.clusters.docker.removal import unknown_runs
        from harness.images.daemon import connect

        return unknown_runs(connect(), known)


def _target(order: Order) -> RunsInContainers[Any]:
    """The target as one that runs in containers: a plan whose target is not was refused."""
    target = order.target
    assert isinstance(target, RunsInContainers)
    return target
