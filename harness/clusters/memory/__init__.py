"""Simulated clusters: the harness tests itself on them in seconds, without Docker or root.

simulation  hosts, timers, one heap of events, deterministic from a seed; the network between hosts
node        a process and its disk, of which only what was fsynced survives a loss of power; levers
            for these nodes (net, pause, process, disk), with the real levers' undo records

Here is the plug-in, and the cluster: made from a seed, in no time; and time that passes only while
every thread of the harness waits. Plans, workloads and checkers can be tried out on it. Nothing
real is tested here: results of this kind never mix with real ones.
"""

from __future__ import annotations

import math
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic_ns
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

from harness.clusters.memory.node import MemoryNode, Program, World, memory_levers
from harness.clusters.memory.simulation import Host, Network, Simulation
from harness.errors import HarnessFailure, Interrupted
from harness.faults.records import CLIENTS
from harness.protocols import Cost, Lever, NodeOutline, Order, Provider, RunCluster, Target
from harness.protocols.clock import Clock, RealClock, Task
from harness.protocols.systems import PlanOf

# Virtual time for threads: it passes only while every thread that takes part is waiting.
#
# Threads take turns: exactly one of them runs, the others wait. The one that begins to wait looks
# for who is next, in its own thread, so waiting costs a switch of threads only when another one
# continues:
#
# 1. a thread whose event is set or whose time is up, the one that has waited longest first;
# 2. otherwise the earliest of what is due: an event of the simulation (run right there), or the
#    deadline of a thread.
#
# So a run is a function of its plan and its seed. A thread that does not take part (the recorder's
# writer, a live display) waits in real time and never holds virtual time up; what it does is not
# repeatable.
#
# A thread that ends or raises passes its turn on. When an event of the simulation raises, the
# thread that met it gets the exception, and every later wait of another fails with it.

_IDLE_LIMIT_NS: Final = 3_600 * 1_000_000_000
"""Virtual time that may pass while no thread waits for a time, before this is called a deadlock."""

_STANDSTILL_TURNS: Final = 1_000_000
"""Turns that threads may take at one instant, before this is called a standstill."""


class _Ticket:
    """One thread's part in virtual time. `turn` is locked unless its turn has just been given."""

    __slots__ = ("deadline_ns", "event", "granted", "name", "turn", "used")

    def __init__(self, name: str) -> None:
        self.name = name
        self.event: threading.Event | None = None
        self.deadline_ns: float = 0
        self.granted = self.used = 0
        self.turn = _locked()

    def ready(self, now_ns: int) -> bool:
        """Whether its thread can go on."""
        return self.deadline_ns <= now_ns or (self.event is not None and self.event.is_set())


def _locked() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


class VirtualClock:
    """A clock for threads that take turns, moved by a simulation's events and their deadlines."""

    def __init__(self, source: Simulation | None = None) -> None:
        self._source = source
        self._now_ns = 0
        self._tickets: dict[int, _Ticket] = {}
        self._waiting: list[_Ticket] = []
        self._guard = threading.Lock()
        self._taken = False
        self._joining: deque[_Ticket] = deque()
        self._failure: Exception | None = None
        self._turns_now = 0

    def now_ns(self) -> int:
        """Virtual nanoseconds since the simulation began."""
        return self._now_ns

    def since(self, zero_ns: int) -> Callable[[], int]:
        """See `harness.protocols.clock.Clock`."""
        return lambda: self._now_ns - zero_ns

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        """Let virtual time pass until `event` is set or the time is up; whether it is set.

        Raises HarnessFailure when nothing can happen any more, and what an event of the simulation
        raised. From a thread that does not take part: wait in real time.
        """
        ticket = self._tickets.get(threading.get_ident())
        if ticket is None:
            return event.wait(timeout_s)
        ticket.event = event
        ticket.deadline_ns = self._now_ns + _nanoseconds(timeout_s)
        self._waiting.append(ticket)
        self._pass_turn(ticket)
        return event.is_set()

    def spawn(self, name: str, call: Callable[[], object]) -> Task:
        """Start a thread that takes part; its first turn comes when the caller waits."""
        ticket, task = _Ticket(name), Task(name, self, call)

        def run() -> None:
            ticket.turn.acquire()
            ticket.used += 1
            self._tickets[threading.get_ident()] = ticket
            try:
                task.execute()
            finally:
                self._leave()

        self._enter(ticket, wait=False)
        task.thread = threading.Thread(target=run, name=name, daemon=True)
        task.thread.start()
        return task

    @contextmanager
    def taking_part(self, name: str) -> Iterator[None]:
        """The calling thread takes part while the context lasts; nothing more when it does."""
        if threading.get_ident() in self._tickets:
            yield
            return
        ticket = _Ticket(name)
        self._enter(ticket, wait=True)
        self._tickets[threading.get_ident()] = ticket
        try:
            yield
        finally:
            self._leave()

    def _enter(self, ticket: _Ticket, *, wait: bool) -> None:
        """Give a new thread its turn at once if no thread has it, else let it queue for one."""
        with self._guard:
            at_once, self._taken = not self._taken, True
            if not at_once:
                self._joining.append(ticket)
        if at_once:
            _grant(ticket)
        if wait:
            self._await_turn(ticket)

    def _leave(self) -> None:
        """The calling thread ends its part: the turn goes to the next, if there is one."""
        del self._tickets[threading.get_ident()]
        with self._guard:
            self._waiting += self._joining
            self._joining.clear()
            if not self._waiting:
                self._taken = False
                return
        try:
            following = self._next()
        except Interrupted:
            _grant(self._waiting.pop(0))
            raise
        except Exception:  # kept as the failure; the next thread raises it
            following = self._waiting.pop(0)
        _grant(following)

    def _pass_turn(self, ticket: _Ticket) -> None:
        try:
            following = self._next()
        except BaseException:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            raise
        if following is not ticket:
            _grant(following)
            self._await_turn(ticket)
        if self._failure is not None:
            raise HarnessFailure(f"the simulation failed: {self._failure!r}") from self._failure

    def _await_turn(self, ticket: _Ticket) -> None:
        """Block until the turn is given. When the thread is interrupted (by a signal), the turn is
        taken as soon as it is available, and the interrupt is then passed on."""
        try:
            ticket.turn.acquire()
        except BaseException:
            ticket.deadline_ns = 0
            while ticket.granted == ticket.used:
                time.sleep(0.001)
            ticket.turn = _locked()
            ticket.used = ticket.granted
            raise
        ticket.used = ticket.granted

    def _next(self) -> _Ticket:
        """Whose turn comes next, letting time pass until there is one; taken off the waiting."""
        if self._joining:
            with self._guard:
                self._waiting += self._joining
                self._joining.clear()
        waiting = self._waiting
        if self._failure is not None:
            return waiting.pop(0)
        while True:
            soonest_ns = math.inf
            for place, ticket in enumerate(waiting):
                if ticket.ready(self._now_ns):
                    self._turns_now += 1
                    if self._turns_now < _STANDSTILL_TURNS:
                        return waiting.pop(place)
                    self._failure = HarnessFailure(
                        f"time does not advance: {ticket.name} never waits"
                    )
                    raise self._failure
                soonest_ns = min(soonest_ns, ticket.deadline_ns)
            self._turns_now = 0
            try:
                self._let_pass(soonest_ns)
            except Interrupted:
                raise
            except Exception as error:
                self._failure = error
                raise

    def _let_pass(self, soonest_ns: float) -> None:
        """Let events happen until one wakes a thread, or a deadline has come."""
        source, waiting = self._source, self._waiting
        limit_ns = min(soonest_ns, self._now_ns + _IDLE_LIMIT_NS)
        events = [ticket.event for ticket in waiting if ticket.event is not None]
        while source is not None and (due_ns := source.next_ns()) is not None:
            if due_ns > limit_ns:
                break
            self._now_ns = max(self._now_ns, due_ns)
            source.run_next()
            for event in events:
                if event.is_set():
                    return
        if soonest_ns == math.inf:
            names = ", ".join(ticket.name for ticket in waiting)
            raise HarnessFailure(f"every thread waits for another: {names}")
        self._now_ns = int(limit_ns)
        if source is not None:
            source.pass_to(self._now_ns)


def _nanoseconds(timeout_s: float | None) -> float:
    """At least one for any time that is not zero: who waits must see time pass."""
    if timeout_s is None:
        return math.inf
    return max(1, round(timeout_s * 1e9)) if timeout_s > 0 else 0


def _grant(ticket: _Ticket) -> None:
    turn = ticket.turn  # looked up before `granted` changes: see `_await_turn`
    ticket.granted += 1
    turn.release()


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
        return memory_levers(self.world)

    def create(self, roles: Mapping[str, frozenset[str]]) -> None:
        """Make the nodes by name, with their roles; nothing runs on them yet."""
        for name, of_node in roles.items():
            host = Host(self.simulation, name)
            host.running = False
            address = f"198.18.0.{10 + len(self.nodes)}"
            self.nodes[name] = MemoryNode(host, self.network, of_node, address)

    def start_programs(self, programs: Mapping[str, Program]) -> None:
        """Install the nodes' programs and start them all."""
        with self.simulation.held():
            for name, program in programs.items():
                self.nodes[name].install(program)
            for name in programs:
                self.nodes[name].start()
        if self._real_time and self._driver is None:
            self.simulation.real_now = self.clock.now_ns
            drive = partial(self.simulation.drive, self.clock, self._stop)
            self._driver = self.clock.spawn("simulation", drive)

    def down(self) -> list[str]:
        """End all processes; the names of the nodes. Raises what an event raised in real time."""
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


_MEMORY_MB = 300
_SPEED = 8.0
"""Virtual seconds that pass in a second, about, at some hundred operations a second."""


@runtime_checkable
class RunsSimulated(Protocol[PlanOf]):
    """A target whose nodes are programs of simulated nodes."""

    @abstractmethod
    def roles(self, plan: PlanOf) -> Mapping[str, frozenset[str]]:
        """The nodes of a cluster for this plan by name, with their roles."""

    @abstractmethod
    def start(self, cluster: MemoryCluster, plan: PlanOf) -> None:
        """Make the nodes, install their programs and start them."""


@dataclass(frozen=True)
class Memory(Provider):
    """Simulated nodes in this process: no Docker, no rights, and nothing real is tested.

    real_time  let time pass as it does outside, instead of as fast as it can be computed
    """

    plugin: ClassVar[str] = "memory"
    simulated: ClassVar[bool] = True

    real_time: bool = False

    @property
    def levers(self) -> Sequence[str]:
        simulation = Simulation(0)
        return tuple(memory_levers(World(simulation, Network(simulation))))

    def why_no_lever(self, lever: str) -> str | None:
        return "a simulated node has no versions" if lever == "program" else None

    def runs(self, target: type[Target[Any]]) -> bool:
        return issubclass(target, RunsSimulated)

    def outline(self, order: Order) -> list[NodeOutline]:
        cluster = MemoryCluster(0)
        cluster.create(_target(order).roles(order.plan))
        return [
            NodeOutline(name=node.name, roles=node.roles, address=node.address)
            for node in cluster.nodes.values()
        ]

    def cost(self, order: Order, *, kept: bool) -> Cost:
        """A run computes all the time, unless it has to wait for a real clock."""
        duration_s = order.plan.workload.duration_s
        seconds = duration_s if self.real_time else duration_s / _SPEED
        return Cost(memory_mb=_MEMORY_MB, seconds=seconds + 1, whole_cores=not self.real_time)

    def cluster(self, order: Order, run_id: str, say: Callable[[str], None]) -> RunCluster:
        return SimulatedRun(order, run_id, real_time=self.real_time)


class SimulatedRun(MemoryCluster, RunCluster):
    """A simulated cluster with the system of one run: the plan's seed decides all that happens
    there."""

    run_id: str = ""

    def __init__(self, order: Order, run_id: str, *, real_time: bool) -> None:
        super().__init__(order.plan.seed, real_time=real_time)
        self.order = order
        self.run_id = run_id

    def start(self) -> None:
        _target(self.order).start(self, self.order.plan)


def simulated_of(cluster: object) -> MemoryCluster:
    """The simulated cluster on which a run takes place."""
    assert isinstance(cluster, MemoryCluster)
    return cluster


def _target(order: Order) -> RunsSimulated[Any]:
    """The target as one that runs simulated: a plan whose target is not was refused."""
    target = order.target
    assert isinstance(target, RunsSimulated)
    return target
