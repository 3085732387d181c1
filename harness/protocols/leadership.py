"""Moving leaders on request: what a target must be able to do for planned work on its partitions.

The words are Kafka's: a partition has an ordered list of replicas, the first of them is its
preferred leader, and any in-sync replica may lead. A nemesis that needs this says so by name
(`LEADERSHIP`); a plan with such a step is refused when its target has not the ability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from harness.plan import Plan
from harness.protocols import Node, PartitionView

LEADERSHIP = "leadership"
"""A need: the target's leaders can be moved on request."""


class Leadership(Protocol):
    """The leaders of one plan's topic. What cannot be asked raises HarnessFailure."""

    def placements(self) -> Mapping[int, PartitionView]:
        """How the partitions stand now, with their replicas in order of preference."""
        ...

    def reorder(self, wanted: Mapping[int, Sequence[str]]) -> None:
        """Give partitions their replicas in another order; who leads stays."""
        ...

    def elect(self, partitions: Sequence[int]) -> Mapping[int, str]:
        """Have the preferred leaders lead; by partition, the name of the error where that was
        refused. One that leads already is no error."""
        ...


@runtime_checkable
class MovesLeaders(Protocol):
    """A target whose leaders can be moved on request."""

    def leadership(self, nodes: Mapping[str, Node], plan: Plan) -> Leadership:
        """The leaders of the plan's topic on these nodes; asks nothing yet."""
        ...


def leadership_of(target: object, nodes: Mapping[str, Node], plan: Plan) -> Leadership | None:
    """The target's leadership; null when it has not the ability."""
    return target.leadership(nodes, plan) if isinstance(target, MovesLeaders) else None
