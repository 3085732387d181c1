"""Whether a fault can be made on a cluster: the levers answer, so a nemesis runs no command."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from harness.faults.acts import required
from harness.protocols import Lever, Nemesis, Node

_AT_ONCE: Final = 12
"""Nodes that are queried at the same time."""


def missing_levers(nemesis: Nemesis, offered: Collection[str]) -> list[str]:
    """The levers that a fault needs and that are not among those offered."""
    needed = dict.fromkeys(act.lever for act in required(nemesis, "any"))
    return [lever for lever in needed if lever not in offered]


def unavailable(
    nemesis: Nemesis, nodes: Mapping[str, Node], levers: Mapping[str, Lever[Any]]
) -> str | None:
    """None, or why this fault cannot be made on these nodes with these levers."""
    if missing := missing_levers(nemesis, levers):
        offered = ", ".join(levers) or "none"
        return f"the cluster does not offer the lever {missing[0]!r}; it offers {offered}"

    def on(node: Node) -> str | None:
        for act in required(nemesis, node.name):
            if why := levers[act.lever].unavailable(node, act.record):
                return why
        return None

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return next((why for why in pool.map(on, nodes.values()) if why), None)
