"""The cluster of a run on nodes that ackloss did not start: its nodes have names and addresses, and
nothing can be done on them. What a run makes there are objects of the system, by its clients alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from harness.clusters.external.file import KIND
from harness.errors import HarnessFailure
from harness.machine import reach
from harness.protocols import (
    Access,
    Completed,
    Guest,
    ImageRef,
    Lever,
    Node,
    Order,
    ProcessState,
    RunCluster,
)
from harness.protocols.clock import Clock, RealClock

ASK_S = 20.0


@dataclass(frozen=True)
class ExternalNode:
    """See `harness.protocols.Node`: one that is reached by clients alone."""

    name: str
    roles: frozenset[str]
    address: str

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        self._refuse()

    def run(self, argv: Sequence[str], *, timeout_s: float = 30) -> Completed:
        self._refuse()

    def pid(self) -> int | None:
        """Not known."""
        return None

    def put(self, files: Mapping[str, bytes]) -> None:
        self._refuse()

    def get(self, name: str) -> dict[str, bytes]:
        """None: its files are not ours to read."""
        return {}

    def start(self) -> None:
        self._refuse()

    def process(self) -> ProcessState:
        """As far as is known it runs."""
        return ProcessState(running=True)

    def _refuse(self) -> NoReturn:
        raise HarnessFailure(f"{self.name} at {self.address} is not ours: nothing is done on it")


@dataclass
class ExternalCluster(RunCluster):
    """See `harness.protocols.RunCluster`."""

    order: Order
    access: Access
    guest: Guest[Any]
    id: str
    real_clock: Clock = field(default_factory=RealClock)
    members: dict[str, Node] = field(default_factory=dict)
    _begun: bool = False

    @property
    def run_id(self) -> str:
        return self.id

    @property
    def clock(self) -> Clock:
        return self.real_clock

    @property
    def image(self) -> ImageRef | None:
        """None: which software it runs is known to those who run it."""
        return None

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self.members

    @property
    def levers(self) -> Mapping[str, Lever[Any]]:
        """None."""
        return {}

    def start(self) -> None:
        """Ask the cluster who its nodes are; note what the run is about to make there."""
        for each in self.guest.members(self.order.plan, timeout_s=ASK_S):
            self.members[each.name] = ExternalNode(each.name, each.roles, each.address)
        reach.remember(KIND, self.id, self.entry())
        self._begun = True

    def entry(self) -> dict[str, reach.Note]:
        """What another process must know to remove what the run makes there."""
        return {
            "cluster": str(self.access.file.resolve()),
            "addresses": list(self.access.addresses),
            "system": self.order.plan.target.system,
            "objects": list(self.guest.objects(self.order.plan)),
        }

    def output(self, node: Node) -> bytes | None:
        return None

    def down(self) -> list[str]:
        """Remove what the run made there, and nothing else."""
        try:
            if not self._begun:
                return []
            removed = self.guest.remove(self.guest.objects(self.order.plan), dry_run=False)
            reach.forget(KIND, self.id)
            return removed
        finally:
            self.guest.close()
