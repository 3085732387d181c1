"""The cluster of a run on nodes that ackloss did not start: its nodes have names and addresses, and
nothing can be done on them. What a run makes there are objects of the system, by its clients alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from harness.clusters.external.file import KIND
from harness.clusters.own_acts import own_acts, undo_own
from harness.errors import HarnessFailure
from harness.machine import reach
from harness.plan import Plan
from harness.protocols import (
    Access,
    Completed,
    GuestTarget,
    Lever,
    Node,
    Order,
    ProcessState,
    RunCluster,
)

ASK_S = 20.0


@dataclass(frozen=True)
class ExternalNode(Node):
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


def nodes_there(guest: GuestTarget[Any], plan: Plan) -> dict[str, Node]:
    """The nodes, as the cluster itself names them. Raises EnvironmentFailure."""
    return {
        each.name: ExternalNode(each.name, each.roles, each.address)
        for each in guest.members(plan, timeout_s=ASK_S)
    }


@dataclass
class ExternalCluster(RunCluster):
    """See `harness.protocols.RunCluster`."""

    order: Order
    access: Access
    guest: GuestTarget[Any]
    run_id: str
    nodes: dict[str, Node] = field(default_factory=dict)
    _begun: bool = False

    @property
    def levers(self) -> Mapping[str, Lever[Any]]:
        """None."""
        return {}

    def start(self) -> None:
        """Ask the cluster who its nodes are; note what the run is about to make there."""
        self.nodes |= nodes_there(self.guest, self.order.plan)
        reach.remember(KIND, self.run_id, self.entry())
        self._begun = True

    def entry(self) -> dict[str, reach.Note]:
        """What another process must know to remove what the run makes there."""
        return {
            "cluster": str(self.access.file.resolve()),
            "addresses": list(self.access.addresses),
            "system": self.order.plan.target.system,
            "objects": list(self.guest.objects(self.order.plan)),
        }

    def undo_own(self) -> None:
        """Undo what the target's own levers have left in force. Raises HarnessFailure."""
        if (left := own_acts(self.run_id, self.levers)) is not None:
            undo_own(left, self.guest, lambda _: self.nodes, self.levers)

    def down(self) -> list[str]:
        """Undo what the target's own levers have left in force, and remove what the run made there;
        nothing else."""
        try:
            if not self._begun:
                return []
            try:
                self.undo_own()
            finally:
                removed = self.guest.remove(self.guest.objects(self.order.plan), dry_run=False)
            reach.forget(KIND, self.run_id)
            return removed
        finally:
            self.guest.close()
