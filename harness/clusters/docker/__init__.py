"""`cluster.kind = "docker"`: pods of containers on this machine's Docker daemon.

cluster  a pod for each node, and the removal of a run's objects
checkup  what `ackloss doctor` looks at

Here is the plug-in. Everything that imports Docker's client is imported when it is first needed:
plans are validated with this module, and not with that library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from harness.errors import EnvironmentFailure
from harness.images.recipe import INFRA_MB
from harness.levers import all_levers
from harness.levers.process import ProgramLever
from harness.machine import loop_disks
from harness.machine.checks import DISK_MIN_BYTES, free_bytes, gib, memory_available
from harness.protocols import OWN_DISK, Cost, Finding, Order, Provider, RunCluster, Target

# Measured on two cores: the time of a run beside its workload, on a kept and on a new cluster.
_KEPT_S, _NEW_S = 5.0, 22.0
_FURTHER_CELL_S = 0.5
"""What a cell adds that shares a run: its topic, its final read, its judgement."""


@dataclass(frozen=True)
class Docker(Provider):
    """Real processes in containers of this machine, on a network of their own."""

    plugin: ClassVar[str] = "docker"
    outlives: ClassVar[bool] = True

    @property
    def levers(self) -> Sequence[str]:
        return (*all_levers({}), ProgramLever.name)

    @property
    def trouble(self) -> tuple[type[Exception], ...]:
        from harness.images.daemon import DAEMON_TROUBLE

        return DAEMON_TROUBLE

    def runs(self, target: type[Target[Any]]) -> bool:
        return target.does("prepare")

    def cost(self, order: Order, *, kept: bool) -> Cost:
        nodes = len(order.target.names(order.plan))
        return Cost(
            memory_mb=nodes * (order.plan.target.memory_mb + INFRA_MB),
            seconds=order.plan.workload.duration_s + (_KEPT_S if kept else _NEW_S),
            further_cell_s=_FURTHER_CELL_S,
        )

    def reach(self) -> None:
        from harness.images.daemon import connect

        connect()

    def require(self, order: Order) -> None:
        """A daemon, room on its disk, memory for nodes, and, if needed, disks that lose power."""
        from harness.images.daemon import docker_info

        root = docker_info().root
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
        nodes, each_mb = len(order.target.names(order.plan)), order.plan.target.memory_mb
        needed, free = nodes * each_mb << 20, memory_available()
        if free < needed:
            raise EnvironmentFailure(
                f"{gib(free)} of memory are available, but {nodes} nodes of {each_mb} MiB "
                f"may use {gib(needed)}",
                key="target.memory_mb",
                hint="stop other programs, or configure fewer or smaller nodes",
            )

    def checkup(self) -> Sequence[Finding]:
        from harness.clusters.docker import checkup

        return checkup.examine()

    def prepare(self, order: Order, say: Callable[[str], None]) -> None:
        from harness.images.building import infra_image

        infra_image(say)
        for plan in (order.plan, *order.target.programs(order.plan).values()):
            order.target.prepare(plan, say)

    def cluster(self, order: Order, run_id: str, say: Callable[[str], None]) -> RunCluster:
        from harness.clusters.docker.cluster import PodsOfRun
        from harness.images.building import infra_image
        from harness.images.daemon import connect

        client = connect()
        infra = infra_image(say)
        target = order.target
        made = target.prepare(order.plan, say)
        later = {n: target.prepare(plan, say) for n, plan in target.programs(order.plan).items()}
        return PodsOfRun(run_id, client, infra.id, order=order, ingredients=made, later=later)

    def remove(self, run_id: str, *, dry_run: bool = False) -> list[str]:
        from harness.clusters.docker.cluster import remove_run
        from harness.images.daemon import connect

        return remove_run(connect(), run_id, dry_run=dry_run)

    def unknown_runs(self, known: set[str]) -> set[str]:
        """Runs whose label something of this daemon carries, or of which a disk is there."""
        from harness.clusters.docker.cluster import unknown_runs
        from harness.images.daemon import connect

        return unknown_runs(connect(), known)
