"""Clusters that somebody else runs: how they are reached, and what a target can do as their guest.

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
    """A value that is written nowhere: its text is shown only to who asks for it by name."""

    _text: str = field(repr=False)

    def reveal(self) -> str:
        """The value itself, for a client library."""
        return self._text

    def __str__(self) -> str:
        return "(secret)"


@dataclass(frozen=True, kw_only=True)
class Access:
    """How a cluster is reached: the file that says so, host:port of whom to ask first, the
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
    """What a target on such a cluster does beside what every target does (`Target`): it makes
    objects of its own there, and removes them."""

    @abstractmethod
    def adapted(self, document: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """A plan's document for this cluster: without what only concerns a cluster of our own, and
        with names for our objects that no other run uses. And a sentence for each key that is left
        out."""
        ...

    @abstractmethod
    def objects(self, plan: PlanOf) -> tuple[str, ...]:
        """The names of what `Target.bring_up` will make there. Pure."""
        ...

    @abstractmethod
    def members(self, plan: PlanOf, *, timeout_s: float) -> list[Member]:
        """The nodes, as the cluster tells them.

        Raises EnvironmentFailure when it cannot be reached, or cannot do what the plan asks."""
        ...

    @abstractmethod
    def checkup(self, *, timeout_s: float) -> Sequence[Finding]:
        """Whether the cluster can be reached, who its nodes are, and whether objects of ours may be
        made there. Makes none."""
        ...

    @abstractmethod
    def remove(self, objects: tuple[str, ...], *, dry_run: bool) -> list[str]:
        """Remove these objects of ours, those that are there; what was removed, or would be.

        Raises EnvironmentFailure when the cluster cannot be reached, HarnessFailure when something
        stays."""
        ...

    @abstractmethod
    def ours(self) -> list[str]:
        """The names of all objects there that some ackloss made. Raises EnvironmentFailure."""
        ...

    @abstractmethod
    def close(self) -> None:
        """End its connections."""
        ...


class GuestTarget(Target[PlanOf], Guest[PlanOf], Protocol[PlanOf]):
    """A target that is a guest."""


@runtime_checkable
class RunsElsewhere(Protocol):
    """A target that can also be tested on a cluster that somebody else runs."""

    @abstractmethod
    def reached_by(self, access: Access) -> GuestTarget[Any]:
        """The target on this cluster. Opens no connection.

        Raises PlanError for properties that it does not know, or that not all of its client
        libraries can be given."""
        ...
