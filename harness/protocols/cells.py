"""What a target does so that one run can hold many cells (`harness.plan.cells`)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol, runtime_checkable

from harness.plan import Plan
from harness.protocols.nodes import Node
from harness.protocols.systems import NodeView, PlanOf


@runtime_checkable
class HoldsCells(Protocol[PlanOf]):
    """A target whose system holds several objects that share nothing but the cluster, such as the
    topics of a log: each is written to by clients of its own, and is read back by itself.

    With the plan of a cell every method of the target is about that cell's object alone.
    """

    cell_keys: ClassVar[tuple[str, ...]]
    """The keys of a plan that a cell may change, dotted; with all that is below them."""

    @abstractmethod
    def of_cell(self, plan: PlanOf, name: str, number: int) -> Plan:
        """The plan of the cell with this name, the nth from 0, on a separate object. Pure.

        Raises PlanError for what cells cannot share.
        """
        ...

    @abstractmethod
    def observe_cells(
        self, node: Node, plans: Sequence[PlanOf], *, timeout_s: float
    ) -> Sequence[NodeView | None]:
        """This node's own view of the object of each plan, in one look; see `HasLeaders`."""
        ...
