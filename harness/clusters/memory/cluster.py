"""A cluster of simulated nodes: made from a seed, in no time, without rights and without Docker."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from time import monotonic_ns
from typing import Any

from harness.clusters.memory.levers import memory_levers
from harness.clusters.memory.network import Network
from harness.clusters.memory.node import MemoryNode, Program
from harness.clusters.memory.simulation import Host, Simulation
from harness.clusters.memory.virtual_clock import VirtualClock
from harness.clusters.memory.world import World
from harness.faults.records import CLIENTS
from harness.protocols import Lever
from harness.protocols.clock import Clock, RealClock, Task


class MemoryCluster:
    """Simulated nodes, the network between them and the host on which all clients are.

    `clock` is what a harness that uses this cluster waits on: virtual unless `real_time`.
    """

    def __init__(self, seed: int, *, real_time: bool = False) -> None:
        self.simulation = Simulation(seed)
        self.network = Network(self.simulation)
        self.clients = Host(self.simulation, CLIENTS)
        self.world = World(self.simulation, self.network)
        self.clock: Clock = VirtualClock(self.simulation)
        if real_time:
            self.clock = RealClock(zero_ns=monotonic_ns())  # the simulation begins at 0 too
        self._real_time = real_time
        self._driver: Task | None = None
        self._stop = threading.Event()

    @property
    def nodes(self) -> dict[str, MemoryNode]:
        """The nodes by name, in the order in which they were made."""
        return self.world.nodes

    @property
    def levers(self) -> Mapping[str, Lever[Any]]:
        """Every lever over simulated nodes."""
        return memory_levers(self.world)

    def create(self, roles: Mapping[str, frozenset[str]]) -> None:
        """Make the nodes by name, with their roles; nothing runs on them yet."""
        for name, of_node in roles.items():
            host = Host(self.simulation, name)
            host.running = False
            address = f"198.18.0.{10 + len(self.nodes)}"
            self.nodes[name] = MemoryNode(host, self.network, of_node, address)

    def start(self, programs: Mapping[str, Program]) -> None:
        """Install the nodes' programs and start them all."""
        with self.simulation.held():
            for name, program in programs.items():
                self.nodes[name].install(program)
            for name in programs:
                self.nodes[name].start()
        if self._real_time and self._driver is None:
            clock = self.clock
            drive = self.simulation.drive_in_real_time(clock.now_ns, clock.wait)
            self._driver = clock.spawn("simulation", partial(drive, self._stop))

    def down(self) -> list[str]:
        """End all processes; the names of the nodes that were there. Raises what an event of the
        simulation raised in real time."""
        self._stop.set()
        driver, self._driver = self._driver, None
        with self.simulation.held():
            for node in self.nodes.values():
                node.kill()
        names = list(self.nodes)
        self.nodes.clear()
        if driver is not None:
            driver.result()
        return names
