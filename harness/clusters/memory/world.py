"""What the levers of simulated nodes act on: nodes, the network between them, and time."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.clusters.memory.network import Network
from harness.clusters.memory.node import MemoryNode
from harness.clusters.memory.simulation import Simulation


@dataclass(frozen=True, eq=False)
class World:
    """One simulated world."""

    simulation: Simulation
    network: Network
    nodes: dict[str, MemoryNode] = field(default_factory=dict)
