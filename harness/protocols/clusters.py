"""Cluster providers: one for each value of `cluster.kind`, found by name as all plug-ins are.

A provider decides where nodes are and which levers act on them. Its fields are the other keys of
the plan's section `cluster`. It must be quick to import: plans are validated with it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

from harness.plan import Plan
from harness.protocols.clock import Clock
from harness.protocols.external import Access, Finding
from harness.protocols.nodes import Cluster, ImageRef, Node
from harness.protocols.systems import Target

Say = Callable[[str], None]

SIMULATED: Final = "Simulated: no real system was tested."
"""What is shown beside every result of a simulated cluster."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a cluster is made for: a plan, its target, and what its faults need on nodes from their
    start (see `Nemesis.needs`)."""

    plan: Plan
    target: Target[Any]
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class NodeOutline:
    """A node as a dry run shows it. `command` is empty where no command is run."""

    name: str
    roles: frozenset[str]
    address: str
    command: str = ""
    files: tuple[str, ...] = ()

    def pid(self) -> int | None:
        """None: no process runs. Faults that are tried on it learn so."""
        return None


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a run costs: memory of its nodes, and time, on a cluster that is kept or on a new one.
    `further_cell_s`: what each cell after the first adds. `whole_cores`: it computes all the time,
    while others mostly wait."""

    memory_mb: int
    seconds: float
    further_cell_s: float = 0.0
    whole_cores: bool = False


@runtime_checkable
class RunCluster(Cluster, Protocol):
    """The cluster of a run. It does not exist before `start`; `down` removes it."""

    @property
    @abstractmethod
    def run_id(self) -> str: ...

    @property
    @abstractmethod
    def clock(self) -> Clock:
        """The clock that everything in the run waits on."""
        ...

    @property
    @abstractmethod
    def image(self) -> ImageRef | None:
        """The image that holds the system, if there is one."""
        ...

    @abstractmethod
    def start(self) -> None:
        """Create and start the nodes; the system is not up yet. Raises EnvironmentFailure."""
        ...

    @abstractmethod
    def output(self, node: Node) -> bytes | None:
        """What the process of a node has printed; `None` if that is not kept."""
        ...

    @abstractmethod
    def down(self) -> list[str]:
        """Remove everything of this cluster, no matter how far `start` got; returns the names of
        what was removed. Raises HarnessFailure if something remains."""
        ...


@runtime_checkable
class EndsByItself(Protocol):
    """A cluster that its hosts themselves remove when the process that created it is gone."""

    @abstractmethod
    def keep(self) -> None:
        """Have it continue without this process, until it is removed."""
        ...


@runtime_checkable
class LosesHosts(Protocol):
    """A cluster whose hosts may vanish for good while it is in use."""

    @abstractmethod
    def when_lost(self, tell: Callable[[str], None]) -> None:
        """Have `tell` called with a sentence, from another thread, when a host is lost."""
        ...


@runtime_checkable
class Provider(Protocol):
    """A kind of cluster.

    simulated  nothing real is tested: results never mix with real ones
    levers     the names of the levers that it offers, known before a cluster is created
    trouble    exceptions by which its machinery reports that it does not answer at the moment
    """

    plugin: ClassVar[str]
    simulated: ClassVar[bool]

    @property
    @abstractmethod
    def levers(self) -> Sequence[str]: ...

    @property
    @abstractmethod
    def trouble(self) -> tuple[type[Exception], ...]: ...

    @abstractmethod
    def runs(self, target: type[Target[Any]]) -> bool:
        """Whether this target's class states how it runs on such nodes."""
        ...

    @abstractmethod
    def outline(self, order: Order) -> list[NodeOutline]:
        """The nodes that would start. Pure."""
        ...

    @abstractmethod
    def cost(self, order: Order, *, kept: bool) -> Cost:
        """What one run takes; `kept`: on a cluster that serves several runs."""
        ...

    @abstractmethod
    def reach(self) -> None:
        """Raise EnvironmentFailure when its machinery does not answer."""
        ...

    @abstractmethod
    def require(self, order: Order) -> None:
        """Raise EnvironmentFailure if this machine lacks something without which a run would fail
        half-way."""
        ...

    @abstractmethod
    def checkup(self) -> Sequence[Finding]:
        """What this machine has and lacks for such clusters, whatever runs on them: what
        `ackloss doctor` reports. Changes nothing; empty if nothing is needed."""
        ...

    @abstractmethod
    def prepare(self, order: Order, say: Say) -> None:
        """Build what takes long and is kept: images, archives. A run does it too."""
        ...

    @abstractmethod
    def cluster(self, order: Order, run_id: str, say: Say) -> RunCluster:
        """The cluster of a run, with all that it needs prepared, and not yet started.

        Raises PlanError (no such version), EnvironmentFailure (cannot be built or reached).
        """
        ...


@runtime_checkable
class LeavesObjects(Protocol):
    """A provider whose clusters outlive the process that created them: such runs are registered on
    this machine first, and removed after a crash."""

    @abstractmethod
    def remove(self, run_id: str, *, dry_run: bool = False) -> list[str]:
        """Remove everything of a run; its names."""
        ...

    @abstractmethod
    def unknown_runs(self, known: set[str]) -> set[str]:
        """Runs that have left something but are not among these."""
        ...


@runtime_checkable
class TakesInventory(Protocol):
    """A provider whose nodes are hosts of the user's: a file names them. The command line names the
    file, a plan never does."""

    @property
    @abstractmethod
    def inventory(self) -> Path | None:
        """The file, once it is known."""
        ...

    @abstractmethod
    def gateways(self, order: Order) -> frozenset[str]:
        """The nodes of this order through whose hosts others of them are reached: a fault that
        slows or drops packets there cuts us off. Empty if no file is known."""
        ...

    @abstractmethod
    def with_inventory(self, inventory: Path) -> Provider:
        """This kind of cluster on these hosts. Raises PlanError for a wrong file."""
        ...

    @abstractmethod
    def clean_hosts(self, known: set[str], *, dry_run: bool) -> tuple[list[str], list[str]]:
        """Remove what dead runs of any machine left on the hosts, except those in `known`: returns
        what was removed, and what was left and why."""
        ...


@runtime_checkable
class TakesClusterFile(Protocol):
    """A provider of clusters that the user already has: a file states how one is reached. The
    command line names the file, a plan never does."""

    @property
    @abstractmethod
    def access(self) -> Access | None:
        """How it is reached, once the file is known."""
        ...

    @property
    @abstractmethod
    def system(self) -> str | None:
        """The target that the file names; `None`: it names none."""
        ...

    @abstractmethod
    def with_cluster(self, file: Path) -> Provider:
        """This kind of cluster, as the file describes it. Raises PlanError for a wrong file,
        EnvironmentFailure for a missing secret."""
        ...

    @abstractmethod
    def why_no_lever(self, lever: str) -> str:
        """Why this lever cannot cause faults there, a sentence without a full stop."""
        ...

    @abstractmethod
    def concerns(self, run_id: str) -> bool:
        """Whether this is the cluster of a registered run, as far as this machine knows."""
        ...

    @abstractmethod
    def of_others(self, known: set[str]) -> list[str]:
        """What runs that are not among these have left on the cluster, in sentences: it is left
        alone.

        Raises EnvironmentFailure."""
        ...
