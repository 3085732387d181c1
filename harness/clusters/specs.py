"""The nodes that a target wants, as it names them."""

from __future__ import annotations

from collections.abc import Mapping

from harness.errors import HarnessFailure
from harness.protocols import Ingredients, NodeSpec, Order


def specs_of(
    order: Order, ingredients: Ingredients, addresses: Mapping[str, str]
) -> list[NodeSpec]:
    """The nodes of an order, one for each name of its target. Raises HarnessFailure for others."""
    target = order.target
    specs = target.nodes(order.plan, ingredients, addresses)
    named = [each.name for each in specs or () if isinstance(each, NodeSpec)]
    if sorted(named) != sorted(addresses):
        raise HarnessFailure(
            f"the target {order.target.plugin!r}: nodes() returns {named or specs!r:.80}, not a "
            f"NodeSpec for each of its names(): {', '.join(addresses)}"
        )
    return list(specs)
