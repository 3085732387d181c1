"""Cluster providers: one for each value of `cluster.kind`, found by name as all plug-ins are.

A provider decides where nodes are and which levers act on them. Its fields are the other keys of
the plan's section `cluster`. It must be quick to import: plans are validated with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from harness.errors import HarnessFailure
from harness.plan import Plan
from harness.protocols.nodes import Access, Finding, ImageRef, Ingredients, NodeSpec, RunCluster
from harness.protocols.systems import Say, Target

SIMULATED: Final = "Simulated: no real system was tested."
"""What is shown beside every result of a simulated cluster."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a cluster is made for: a plan, its target, and what its faults need on nodes from their
    start (see `Nemesis.needs`)."""

    plan: Plan
    target: Target[Any]
    needs: frozenset[str] = frozenset()


def specs_of(
    order: Order, ingredients: Ingredients, addresses: Mapping[str, str]
) -> list[NodeSpec]:
    """The nodes of an order, one for each name of its target. Raises HarnessFailure for others."""
    target = order.target
    specs = target.nodes(order.plan, ingredients, addresses)
    named = [each.name for each in specs or () if isinstance(each, NodeSpec)]
    if sorted(named) != sorted(addresses):
        raise HarnessFailure(
            f"the target {order.target.plugin!r}: nodes() returns {named or specs!r:.80}, not a "
            f"NodeSpec for each of its names(): {', '.join(addresses)}"
        )
    return list(specs)


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


EXAMPLE_SUBNET: Final = "198.18.0"


def example_addresses(order: Order) -> dict[str, str]:
    """Addresses such as the nodes of an order could have."""
    names = order.target.names(order.plan)
    return {name: f"{EXAMPLE_SUBNET}.{11 + n}" for n, name in enumerate(names)}


def outlined(order: Order, addresses: Mapping[str, str]) -> list[NodeOutline]:
    """The nodes that would start at these addresses; nothing that they need is made."""
    target = order.plan.target
    reference = target.image or f"{target.system} {target.version}"
    image = ImageRef(reference=reference, id="", version=target.version)
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


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a run costs: memory of its nodes, and time, on a cluster that is kept or on a new one.
    `further_cell_s`: what each cell after the first adds. `whole_cores`: it computes all the time,
    while others mostly wait."""

    memory_mb: int
    seconds: float
    further_cell_s: float = 0.0
    whole_cores: bool = False


class Provider(ABC):
    """A kind of cluster.

    simulated  nothing real is tested: results never mix with real ones
    outlives   its clusters outlive the process that created them: such runs are registered on this
               machine first, and removed after a crash
    named_by   the file of the user's that states where its nodes are: `inventory` (hosts) or
               `cluster` (one that is there already). The command line names the file, a plan never
               does
    content, inventory, access, system   what that file states, once it is known, as this kind of
               cluster has it: the file itself, how the cluster is reached, its target
    """

    plugin: ClassVar[str]
    simulated: ClassVar[bool] = False
    outlives: ClassVar[bool] = False
    named_by: ClassVar[str] = ""

    content: Any = None
    inventory: Path | None = None
    access: Access | None = None
    system: str | None = None

    def stating(self, **facts: Any) -> Self:
        """This kind of cluster with what a file states."""
        made = copy(self)
        vars(made).update(facts)
        return made

    @property
    def levers(self) -> Sequence[str]:
        """The names of the levers that it offers, known before a cluster is created."""
        return ()

    @property
    def trouble(self) -> tuple[type[Exception], ...]:
        """Exceptions by which its machinery reports that it does not answer at the moment."""
        return ()

    @abstractmethod
    def runs(self, target: type[Target[Any]]) -> bool:
        """Whether this target's class states how it runs on such nodes."""

    @abstractmethod
    def cost(self, order: Order, *, kept: bool) -> Cost:
        """What one run takes; `kept`: on a cluster that serves several runs."""

    @abstractmethod
    def cluster(self, order: Order, run_id: str, say: Say) -> RunCluster:
        """The cluster of a run, with all that it needs prepared, and not yet started.

        Raises PlanError (no such version), EnvironmentFailure (cannot be built or reached).
        """

    def outline(self, order: Order) -> list[NodeOutline]:
        """The nodes that would start. Pure."""
        return outlined(order, example_addresses(order))

    def why_no_lever(self, lever: str) -> str | None:
        """Why this lever cannot cause faults there, a sentence without a full stop; `None`: there
        is no other reason than that it is not offered."""
        return None

    def reach(self) -> None:
        """Raise EnvironmentFailure when its machinery does not answer."""
        return

    def require(self, order: Order) -> None:
        """Raise EnvironmentFailure if this machine lacks something without which a run would fail
        half-way."""
        return

    def checkup(self) -> Sequence[Finding]:
        """What this machine has and lacks for such clusters, whatever runs on them: what
        `ackloss doctor` reports. Changes nothing; empty if nothing is needed."""
        return ()

    def prepare(self, order: Order, say: Say) -> None:
        """Build what takes long and is kept: images, archives. A run does it too."""
        return

    def remove(self, run_id: str, *, dry_run: bool = False) -> list[str]:
        """Remove everything of a run; its names."""
        return []

    def unknown_runs(self, known: set[str]) -> set[str]:
        """Runs that have left something but are not among these."""
        return set()

    def with_file(self, file: Path) -> Provider:
        """This kind of cluster as a file describes it (`named_by`). Raises PlanError for a wrong
        file, EnvironmentFailure for a missing secret."""
        raise NotImplementedError(file)

    def gateways(self, order: Order) -> frozenset[str]:
        """The nodes of this order through whose hosts others of them are reached: a fault that
        slows or drops packets there cuts us off."""
        return frozenset()

    def clean_hosts(self, known: set[str], *, dry_run: bool) -> tuple[list[str], list[str]]:
        """Remove what dead runs of any machine left on the hosts of its inventory, except those in
        `known`: returns what was removed, and what was left and why."""
        return [], []

    def concerns(self, run_id: str) -> bool:
        """Whether its file describes the cluster of a registered run, as far as this machine
        knows."""
        return True

    def of_others(self, known: set[str]) -> list[str]:
        """What runs that are not among these have left on the cluster of its file, in sentences: it
        is left alone. Raises EnvironmentFailure."""
        return []
