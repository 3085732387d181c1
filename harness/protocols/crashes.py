"""Clients that crash: what a fault of the client family needs of a target's client.

The model: the processes of a workload share a few real clients, client-1, client-2 and so on. A
real client that crashes drops its connections without a flush. Whatever was in progress in it ends
in info, which retires the processes that were waiting. Their operations continue over the remaining
clients, and over none while all are dead (`submit` returns False, intended times are kept). A new
client, with a new id and new connections, takes its place at once or when it is healed.

Clients live in ackloss' own process: they end with it, and nothing has to be cleaned up afterwards.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol, runtime_checkable

from harness.plan import Plan
from harness.protocols import Act, Nemesis, Node, Select
from harness.protocols.groups import consumer_names

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
