"""Levers of simulated nodes: the names and undo records of the real ones, other mechanisms.

So the same nemeses, the same journal and the same rules of proof hold. An undo record that another
process left behind needs no undoing: a simulated cluster ends with the process that made it.
"""

from __future__ import annotations

from typing import Any

from harness.clusters.memory.disk_lever import MemoryDiskLever
from harness.clusters.memory.net_lever import MemoryNetLever
from harness.clusters.memory.process_levers import MemoryPauseLever, MemoryProcessLever
from harness.clusters.memory.world import World
from harness.protocols import Lever


def memory_levers(world: World) -> dict[str, Lever[Any]]:
    """Every lever over simulated nodes by name."""
    levers: list[Lever[Any]] = [
        MemoryNetLever(world),
        MemoryPauseLever(world),
        MemoryProcessLever(world),
        MemoryDiskLever(world),
    ]
    return {lever.name: lever for lever in levers}
