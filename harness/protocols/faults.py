"""Faults: nemeses are the policy, levers the mechanism (`harness.protocols.nodes`); the words by
which a plan names nodes (selectors) and instants (conditions); and clients that crash.

A nemesis turns chosen nodes into acts, which are data: the name of a lever and an undo record. One
place (`harness.faults.injection`) journals, applies, proves and undoes acts for all of them.

The core has words that mean the same for every system (`harness.faults.selectors`). What only one
system has, its leaders, its in-sync replicas, its numbered nodes, is declared by its target
(`Target.vocabulary`). `harness.faults.leaders` has words for systems with leaders.

The processes of a workload share a few real clients, client-1, client-2 and so on. A real client
that crashes drops its connections without a flush. Whatever was in progress in it ends in info,
which retires the processes that were waiting. Their operations continue over the remaining clients,
and over none while all are dead (`submit` returns False, intended times are kept). A new client,
with a new id and new connections, takes its place at once or when it is healed. Clients live in
ackloss' own process: they end with it, and nothing has to be cleaned up afterwards.
"""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple, Protocol, runtime_checkable

from harness.plan import Plan
from harness.protocols.groups import consumer_names
from harness.protocols.nodes import CLIENT_ROLE, Node, Situation, UndoRecord


class Act(NamedTuple):
    """One use of a lever: its name and the undo record that describes what it does."""

    lever: str
    record: UndoRecord


Select = Callable[[str], Sequence[Node]]


class Nemesis(ABC):
    """The policy of a fault family: turns chosen nodes into acts.

    Applying, journalling, proving and undoing the acts is done in one place for all families
    (`harness.faults.injection`); so a nemesis holds no state, and healing needs no memory.
    """

    plugin: ClassVar[str]
    single_use: ClassVar[bool] = False
    """Whether a cluster may serve no other run afterwards, healed or not."""

    @property
    def needs(self) -> frozenset[str]:
        """The names of what nodes must have from their start."""
        return frozenset()

    @property
    def selectors(self) -> Mapping[str, str]:
        """Each selector among its options, beside the step's own `nodes`, by the key at which it
        stands (`peers`, `groups.0`): refused when the plan is read if the target does not have its
        words."""
        return {}

    @property
    def limit(self) -> tuple[str, float] | None:
        """Of a fault that ends by itself, in case nothing heals it: the option that limits it, and
        the seconds. A plan whose step heals it no earlier (`for_s`) is refused: the fault would not
        be in force then."""
        return None

    @abstractmethod
    def requires(self, node: str) -> list[Act]:
        """The levers that this fault needs on a node, each with an example of what it would do: a
        plan is refused if the cluster does not offer one of them, or it cannot do that there."""

    @abstractmethod
    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:
        """The acts that this fault consists of, on these nodes; all are applied at the same time.

        `select` resolves a further selector (`role:controller`) in the same situation.
        """

    def warnings(self, nodes: Sequence[Node], select: Select) -> list[str]:
        """What its acts on these nodes do, and the plan probably does not intend."""
        return []

    @property
    def lasts(self) -> bool:
        """Whether it is in force until it is healed. Else there is nothing to heal."""
        return not any(act.record.permanent for act in self.requires("any"))

    def in_turn(self, acts: Sequence[Act]) -> list[Sequence[Act]]:
        """Of acts that nothing undoes: which are done at the same time, and those after the others
        once every node answers and everything is fully replicated."""
        return [acts]


class NodeNemesis(Nemesis):
    """A nemesis whose faults are one act on each of the chosen nodes."""

    @abstractmethod
    def act_on(self, node: str, pid: int | None) -> Act:
        """What it does to one node, whose process is `pid`; `None`: none runs, or it is not
        known."""

    def requires(self, node: str) -> list[Act]:
        return [self.act_on(node, None)]

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:
        return [self.act_on(node.name, node.pid()) for node in nodes]


FAKETIME = "faketime"
"""A need: the target's process starts with libfaketime loaded (see `harness.levers.clock`)."""

BOUNDED_DISK = "bounded disk"
"""A need: the target stores on its own small disk (see `harness.levers.disk`)."""

OWN_DISK = "own disk"
"""A need: the target stores on a disk that can lose power (see `harness.levers.process`)."""


Groups = Mapping[str, str | None]
"""The named groups of a condition's pattern, as its text filled them."""


@dataclass(frozen=True, kw_only=True)
class Since:
    """When the last fault began: its nodes, and the situation then."""

    nodes: Sequence[str]
    situation: Situation
    replication_factor: int


@dataclass(frozen=True, kw_only=True)
class ConditionForm:
    """One form of condition. `form` is how messages show it (`isr < N`); `holds` compares the
    situation now with that of the last fault, and never holds for what was not observed.
    `why_never`: why it can never hold with so many partitions of so many replicas; `None`: it
    can."""

    form: str
    pattern: re.Pattern[str]
    holds: Callable[[Groups, Situation, Since], bool]
    why_never: Callable[[Groups, int, int], str | None] = lambda *_: None


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The words that a target adds to those of the core, whose words it cannot redefine.

    owner         the target, as messages name it
    member_roles  the roles of nodes that hold what clients write: `one`, `majority` and their like
                  mean these; empty: every node that is not a client's
    words         selectors: `controller`
    numbered      selectors with a number in brackets: `leader(0)`
    conditions    forms of what a step can wait for
    """

    owner: str = "the target"
    member_roles: frozenset[str] = frozenset()
    words: Mapping[str, Callable[[Choice], AbstractSet[str]]] = field(default_factory=dict)
    numbered: Mapping[str, Callable[[Choice, int], AbstractSet[str]]] = field(default_factory=dict)
    conditions: tuple[ConditionForm, ...] = ()

    def members(self, roles: Mapping[str, frozenset[str]]) -> list[str]:
        """Of nodes with these roles, those that hold what clients write."""
        wanted = self.member_roles
        return [
            name
            for name, own in roles.items()
            if (own & wanted if wanted else CLIENT_ROLE not in own)
        ]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """All that a selector may depend on. `roles` by node, in the cluster's order; `earlier`: the
    nodes of earlier steps; `draw` is the only source of random choices."""

    roles: Mapping[str, frozenset[str]]
    situation: Situation
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    earlier: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    draw: random.Random = field(default_factory=lambda: random.Random(0))

    @property
    def members(self) -> list[str]:
        """The nodes that hold what clients write."""
        return self.vocabulary.members(self.roles)


CLIENTS: Final = "clients"
CONSUMERS: Final = "consumers"


@dataclass(frozen=True, kw_only=True)
class Death:
    """How a real client crashed: `died` is its id (null: none was there), `unknown` operations were
    in progress in it. `gone`: nothing of it is left in this process, as the kernel reports.
    `successor` took its place, at once or later."""

    died: str | None
    unknown: int
    gone: bool
    successor: str | None


@dataclass(frozen=True, kw_only=True)
class ClientState:
    """One place for a real client: the id of the one that is there and runs (null: none), the
    faults that want none there, and how the requested fault crashed it."""

    alive: str | None
    kept_dead_by: frozenset[str]
    death: Death | None


@runtime_checkable
class Crashes(Protocol):
    """A `harness.protocols.Client` whose real clients can crash one by one, counted from 1.

    Called by the faults' threads while another thread runs the client: what has to happen there is
    handed over and waited for. Raises HarnessFailure if it does not happen in time.
    """

    @abstractmethod
    def crash(self, number: int, fault: str, *, at_once: bool) -> None:
        """Crash the real client that is there, once for each fault. `at_once`: another takes its
        place; otherwise the place stays empty until every fault that wants this has called
        `replace`."""

    @abstractmethod
    def replace(self, number: int, fault: str) -> None:
        """This fault no longer wants the place empty; harmless when it never did."""

    @abstractmethod
    def state(self, number: int, fault: str) -> ClientState:
        """What is there now, and what is left of the one that this fault crashed."""


class ClientNemesis(Nemesis):
    """A nemesis whose faults affect the workload's clients; it ignores a step's `nodes`."""

    meets: ClassVar[str] = CLIENTS
    """What its faults affect: `clients`, or `consumers` of a group."""

    @abstractmethod
    def client_acts(self, clients: Sequence[str], draw: random.Random) -> list[Act]:
        """The acts that this fault consists of, `clients` being the names of all.

        Raises ValueError for a client that does not exist.
        """

    def requires(self, node: str) -> list[Act]:
        return []

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:
        return []


def names_met(nemesis: ClientNemesis, plan: Plan) -> list[str]:
    """The names of what a nemesis may affect, as used where nodes are named."""
    if nemesis.meets == CONSUMERS:
        return consumer_names(plan)
    return [f"client-{number}" for number in range(1, plan.workload.clients + 1)]
