"""The levers over nodes on hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.levers import all_levers
from harness.levers.power import PowerLever
from harness.protocols import Lever, Node


def host_levers(nodes: Mapping[str, Node]) -> dict[str, Lever[Any]]:
    """Every lever of the core, by name, but the loss of power: a node on a host has no disk that
    can lose it."""
    levers = all_levers(nodes)
    return {name: lever for name, lever in levers.items() if name != PowerLever.name}
