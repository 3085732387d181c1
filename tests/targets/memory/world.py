"""Runs of the reference system without a harness: clients and faults inside the simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from harness.clusters.memory import MemoryCluster
from harness.protocols import Act, Lever, UndoRecord
from targets.memory.clients import Command, Outcome
from targets.memory.plan import CONTROLLER, Settings
from targets.memory.system import System

MS = 1_000_000
S = 1_000 * MS
PROCESSES = 5
LOAD_FROM_NS, LOAD_UNTIL_NS = 400 * MS, 2_400 * MS
SETTLE_UNTIL_NS = 12 * S


@dataclass
class Op:
    """One operation of a history. One that is not known to have ended ends never."""

    process: int
    command: Command
    begun_ns: int
    outcome: Outcome | None = None
    ended_ns: int | None = None


@dataclass
class Run:
    """What a run left: its operations, and what each replica held when it had settled."""

    ops: list[Op] = field(default_factory=list)
    held: dict[str, list[tuple[int, str | None, int | None]]] = field(default_factory=dict)
    settled: bool = False
    faults: int = 0


Make = Callable[[Random, int], Command]
"""Makes the next operation of a process, whose value is this number."""


def appends(draw: Random, number: int) -> Command:
    return Command("append", value=number)


def everything(draw: Random, number: int) -> Command:
    """Appends to the log beside reads, writes and compare-and-sets of four registers (compared
    with what the world has last seen there)."""
    key, kind = f"k{draw.randrange(4)}", draw.random()
    if kind < 0.2:
        return Command("append", value=number)
    if kind < 0.55:
        return Command("read", key)
    return Command("write" if kind < 0.8 else "cas", key, number)


@dataclass
class World:
    """One simulated run: closed-loop clients, and faults at random instants by the real levers'
    names and records."""

    seed: int
    settings: Settings
    make: Make
    think_ms: int = 12

    def __post_init__(self) -> None:
        self.cluster = MemoryCluster(self.seed)
        self.system = System(self.cluster, self.settings)
        self.levers = self.cluster.levers
        self.draw = Random(f"{self.seed}/world")
        self.run = Run()
        self._fault_count = self._value_count = 0
        self._last: dict[str | None, int] = {}

    def simulate(self, faults: Callable[[World], None]) -> Run:
        """Start, load with faults, heal, settle, read every replica."""
        simulation = self.cluster.simulation
        self.system.start()
        simulation.run_until(LOAD_FROM_NS)
        for process in range(PROCESSES):
            self._next(process)
        faults(self)
        simulation.run_until(LOAD_UNTIL_NS)
        while simulation.now_ns < SETTLE_UNTIL_NS and not self.run.settled:
            simulation.run_until(simulation.now_ns + 100 * MS)
            self.run.settled = self.system.fully_replicated()
        for name in self.settings.names:
            self.run.held[name] = self.system.held(name, 0) or []
        return self.run

    def at(self, time_ns: int, call: Callable[..., None], *args: Any) -> None:
        """Have a fault begin or end."""
        host = self.cluster.clients
        self.cluster.simulation.push(time_ns, host, host, call, *args)

    def fault(self, act: Act, from_ns: int, for_ns: int) -> None:
        """Have an act applied now and undone later, before the load ends at the latest."""
        self._fault_count += 1
        record = replace(act.record, fault=f"f{self._fault_count}", seed=self.seed)
        until_ns = min(from_ns + for_ns, LOAD_UNTIL_NS)
        self.run.faults += 1
        self.levers[act.lever].apply(record)
        self.at(until_ns, self._undo, self.levers[act.lever], record)

    def leader(self) -> str:
        """Who leads, as the controller has decided; some replica if nobody does."""
        views = self.system.observe(CONTROLLER) or []
        return (views and views[0].leader) or self.draw.choice(self.settings.names)

    def _undo(self, lever: Lever[Any], record: UndoRecord) -> None:
        lever.undo(record)

    def _next(self, process: int) -> None:
        self._value_count += 1
        command = self.make(self.draw, self._value_count)
        if command.f == "cas":
            command = command._replace(expected=self._last.get(command.key, 0))
        op = Op(process, command, self.cluster.simulation.now_ns)
        self.run.ops.append(op)
        self.system.requests.submit(process, command, lambda _, outcome: self._end(op, outcome))

    def _end(self, op: Op, outcome: Outcome) -> None:
        op.outcome = outcome
        now_ns = self.cluster.simulation.now_ns
        if outcome.type != "info":
            op.ended_ns = now_ns
        if outcome.type == "ok":
            seen = outcome.result if op.command.f == "read" else op.command.value
            self._last[op.command.key] = seen or 0
        if now_ns < LOAD_UNTIL_NS:
            process = op.process + (PROCESSES if outcome.type == "info" else 0)
            think_ns = int(self.draw.random() * 2 * self.think_ms * MS)
            self.at(now_ns + think_ns, self._next, process)
