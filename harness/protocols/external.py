"""Clusters that ackloss did not start: how they are reached, and what a target can do as their
guest.

Nothing here is ever part of a plan, since a plan may come from a stranger: the command line names
the file.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from harness.plan import Plan
from harness.protocols.systems import Target

if TYPE_CHECKING:
    from harness.protocols.clusters import Finding

PlanOf = TypeVar("PlanOf", bound=Plan, contravariant=True)


@dataclass(frozen=True)
class Secret:
    """A value that is never written anywhere: its text is shown only to code that requests it by
    name."""

    _text: str = field(repr=False)

    def reveal(self) -> str:
        """The value itself, for a client library."""
        return self._text

    def __str__(self) -> str:
        return "(secret)"


@dataclass(frozen=True, kw_only=True)
class Access:
    """How a cluster is reached: the file that names it, the bootstrap servers (host:port), the
    properties of clients by name, and those whose values are secret."""

    file: Path
    addresses: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Member:
    """A node of such a cluster, as the cluster itself names it; `number`, where it has one.
    `address` is the host:port at which clients find it."""

    name: str
    roles: frozenset[str]
    address: str
    number: int | None = None


@runtime_checkable
class Guest(Protocol[PlanOf]):
    """What a target on such a cluster does beyond what every target does (`Target`): it creates its
    own objects there, and removes them."""

    @abstractmethod
    def adapted(self, document: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """A plan's document for this cluster: without what only concerns our own clusters, and with
        names for our objects that no other run uses. Also a sentence for each key that is left out.
        """
        ...

    @abstractmethod
    def objects(self, plan: PlanOf) -> tuple[str, ...]:
        """The names of what `Target.bring_up` will create there. Pure."""
        ...

    @abstractmethod
    def members(self, plan: PlanOf, *, timeout_s: float) -> list[Member]:
        """The nodes, as the cluster reports them.

        Raises EnvironmentFailure when it cannot be reached, or cannot do what the plan requests."""
        ...

    @abstractmethod
    def checkup(self, *, timeout_s: float) -> Sequence[Finding]:
        """Whether the cluster can be reached, who its nodes are, and whether our objects may be
        created there. Creates none."""
        ...

    @abstractmethod
    def remove(self, objects: tuple[str, ...], *, dry_run: bool) -> list[str]:
        """Remove these objects of ours, as far as they exist; returns what was removed, or would
        be.

        Raises EnvironmentFailure when the cluster cannot be reached, HarnessFailure when something
        remains."""
        ...

    @abstractmethod
    def ours(self) -> list[str]:
        """The names of all objects there that any ackloss created. Raises EnvironmentFailure."""
        ...

    @abstractmethod
    def close(self) -> None:
        """End its connections."""
        ...


class GuestTarget(Target[PlanOf], Guest[PlanOf], Protocol[PlanOf]):
    """A target that is a guest."""


@runtime_checkable
class RunsElsewhere(Protocol):
    """A target that can also be tested on a cluster that ackloss did not start."""

    @abstractmethod
    def reached_by(self, access: Access) -> GuestTarget[Any]:
        """The target on this cluster. Opens no connection.

        Raises PlanError for properties that it does not know, or that some of its client libraries
        do not have."""
        ...
