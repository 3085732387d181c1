"""Faults: levers, which are the mechanism, and nemeses, which are the policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from harness.protocols.nodes import Cluster, Node

Token = dict[str, Any]


@dataclass(frozen=True)
class Proof:
    """A probe's answer: does the fault hold (or no longer), and in sentences, how that was seen.

    `met` is how much of the system, beyond what the probe itself sent or did, the fault has met
    since it was applied, in the lever's own unit (packets, milliseconds ...). Null where the
    mechanism itself is of the system: a process that is gone needs no witness.
    """

    proven: bool
    evidence: list[str]
    met: int | None = None


@runtime_checkable
class Lever(Protocol):
    """The mechanism that changes one thing on a node.

    A token is JSON data, enough to undo and probe the act without any memory of this process.
    """

    name: ClassVar[str]

    def apply(self, token: Token) -> None:
        """Do it. The token was written to the journal before this call."""
        ...

    def undo(self, token: Token) -> None:
        """Undo it; harmless when it is not in force."""
        ...

    def probe(self, token: Token, *, applied: bool) -> Proof:
        """Show that it is in force (`applied`), or that it no longer is."""
        ...

    def leftover_state(self, node: Node) -> list[str]:
        """What of this lever is in force on a node, in sentences: none on an unfaulted one."""
        ...


@runtime_checkable
class CapturesPriorState(Protocol):
    """A lever that must know how things stand before it changes them."""

    def look(self, token: Token) -> Token:
        """The token with what was found, as it will be journalled; raises nothing expected."""
        ...


class Act(NamedTuple):
    """One pull of a lever: its name and the token that says what."""

    lever: str
    token: Token


Select = Callable[[str], Sequence[Node]]


@runtime_checkable
class Nemesis(Protocol):
    """The policy of a fault family: turns chosen nodes into pulls of levers.

    Applying, journalling, proving and undoing the acts is done in one place for all families
    (`harness.faults.injection`); so a nemesis holds no state, and healing needs no memory.
    """

    plugin: ClassVar[str]

    def available(self, cluster: Cluster) -> str | None:
        """Null, or why this fault cannot be made on this cluster."""
        ...

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:
        """The acts that this fault consists of, on these nodes; they are done all at once.

        `select` resolves a further selector (`role:controller`) in the same situation.
        """
        ...


FAKETIME = "faketime"
"""A need: the target's process starts with libfaketime in it (see `harness.levers.clock`)."""

BOUNDED_DISK = "bounded disk"
"""A need: what the target stores lies on a small disk of its own (see `harness.levers.full`)."""


@runtime_checkable
class Needs(Protocol):
    """A nemesis whose fault cannot be made on a node that was not started for it."""

    @property
    def needs(self) -> frozenset[str]:
        """By name, what nodes must have from their start (see `harness.run.preparing`)."""
        ...


@runtime_checkable
class SingleUse(Protocol):
    """A nemesis after which a cluster may not be used again, healed or not."""

    single_use: ClassVar[bool]
