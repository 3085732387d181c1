"""Leaders that can be moved on request, as both of Kafka's modes let an operator do it.

A partition has an ordered list of replicas; the first of them is its preferred leader, and any
in-sync replica may lead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from harness.protocols import PartitionView


class Leadership(Protocol):
    """The leaders of one plan's topic. Raises HarnessFailure when the cluster does not answer."""

    def placements(self) -> Mapping[int, PartitionView]:
        """The partitions as they are now, with their replicas in order of preference."""
        ...

    def reorder(self, wanted: Mapping[int, Sequence[str]]) -> None:
        """Give partitions their replicas in another order; the leaders stay."""
        ...

    def elect(self, partitions: Sequence[int]) -> Mapping[int, str]:
        """Elect the preferred leaders; returns the name of the error for each partition where that
        was refused. A preferred leader that leads already is not an error."""
        ...
