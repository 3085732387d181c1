"""`cluster.kind = "memory"`: simulated nodes in this process, by default in virtual time.

Nothing real is tested on them. They exist so that ackloss can test itself, and so that plans,
workloads and checkers can be tried out in seconds, without Docker and without root.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from harness.clusters.memory.cluster import MemoryCluster
from harness.clusters.memory.levers import World, memory_levers
from harness.clusters.memory.simulation import Network, Simulation
from harness.plan import Plan
from harness.protocols import Cost, NodeOutline, Order, Provider, RunCluster, Target

PlanOf = TypeVar("PlanOf", bound=Plan, contravariant=True)

_MEMORY_MB = 300
_SPEED = 8.0
"""Virtual seconds that pass in a second, about, at some hundred operations a second."""


@runtime_checkable
class RunsSimulated(Protocol[PlanOf]):
    """A target whose nodes are programs of simulated nodes."""

    @abstractmethod
    def roles(self, plan: PlanOf) -> Mapping[str, frozenset[str]]:
        """The nodes of a cluster for this plan by name, with their roles."""
        ...

    @abstractmethod
    def start(self, cluster: MemoryCluster, plan: PlanOf) -> None:
        """Make the nodes, install their programs and start them."""
        ...


@dataclass(frozen=True)
class Memory(Provider):
    """Simulated nodes in this process: no Docker, no rights, and nothing real is tested.

    real_time  let time pass as it does outside, instead of as fast as it can be computed
    """

    plugin: ClassVar[str] = "memory"
    simulated: ClassVar[bool] = True

    real_time: bool = False

    @property
    def levers(self) -> Sequence[str]:
        simulation = Simulation(0)
        return tuple(memory_levers(World(simulation, Network(simulation))))

    def runs(self, target: type[Target[Any]]) -> bool:
        return issubclass(target, RunsSimulated)

    def outline(self, order: Order) -> list[NodeOutline]:
        cluster = MemoryCluster(0)
        cluster.create(_target(order).roles(order.plan))
        return [
            NodeOutline(name=node.name, roles=node.roles, address=node.address)
            for node in cluster.nodes.values()
        ]

    def cost(self, order: Order, *, kept: bool) -> Cost:
        """A run computes all the time, unless it has to wait for a real clock."""
        duration_s = order.plan.workload.duration_s
        seconds = duration_s if self.real_time else duration_s / _SPEED
        return Cost(memory_mb=_MEMORY_MB, seconds=seconds + 1, whole_cores=not self.real_time)

    def cluster(self, order: Order, run_id: str, say: Callable[[str], None]) -> RunCluster:
        return SimulatedRun(order, run_id, real_time=self.real_time)


class SimulatedRun(MemoryCluster, RunCluster):
    """A simulated cluster with the system of one run: the plan's seed decides all that happens
    there."""

    run_id: str = ""

    def __init__(self, order: Order, run_id: str, *, real_time: bool) -> None:
        super().__init__(order.plan.seed, real_time=real_time)
        self.order = order
        self.run_id = run_id

    def start(self) -> None:
        _target(self.order).start(self, self.order.plan)


def simulated_of(cluster: object) -> MemoryCluster:
    """The simulated cluster on which a run takes place."""
    assert isinstance(cluster, MemoryCluster)
    return cluster


def _target(order: Order) -> RunsSimulated[Any]:
    """The target as one that runs simulated: a plan whose target is not was refused."""
    target = order.target
    assert isinstance(target, RunsSimulated)
    return target
