"""What nodes must have from their start for the faults of a plan, and only of such a plan.

A nemesis that needs something says so by name (`harness.protocols.Needs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.images import faketime
from harness.levers import clock
from harness.protocols import FAKETIME, Needs, NodeSpec


def needs_of(nemeses: Iterable[object]) -> frozenset[str]:
    """All that these nemeses need, by name."""
    return frozenset().union(*(n.needs for n in nemeses if isinstance(n, Needs)))


def prepared(specs: Sequence[NodeSpec], needs: frozenset[str], *, holder_id: str) -> list[NodeSpec]:
    """The nodes with what is needed, taken from the holder's image; the same when nothing is."""
    if FAKETIME not in needs:
        return list(specs)
    library = faketime.library(holder_id)
    return [clock.prepared(spec, library) for spec in specs]
