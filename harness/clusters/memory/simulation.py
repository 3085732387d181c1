"""A deterministic discrete-event simulation: hosts, their timers, and what is due when.

Events lie in one heap, ordered by time, then by the host that caused them, then by that host's own
count. Every host draws from its own random source, seeded by the run's seed and its name. So
what happens does not depend on the order in which several hosts are faulted at one instant.

A host that is paused keeps what comes due, and all of it happens, in order, when it resumes. A host
that dies loses its timers and what was on its way to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Any, Final, Literal, NamedTuple

from harness.protocols.clock import Clock

# The simulated network: messages between hosts with small random delays; rules that drop them.
#
# A rule stands at a node, against one peer, in one direction, as those of the real net lever do,
# and counts what it meets. Every message of the system is one packet. Rules act when a message is
# sent; one that is on its way when a rule is added still arrives (within a millisecond).
#
# A message to a host whose process is dead is refused: the sender learns it (`Host.unreachable`),
# as from a refused connection. A message that a `reset` rule meets is not delivered, and its sender
# learns that in the same way, but cannot know how far it went: `Refused.sent` tells which.

PORT: Final = 7000
"""The one port on which every simulated process listens."""

_LEAST_DELAY_NS: Final = 150_000
_SPREAD_NS: Final = 350_000


class Refused(NamedTuple):
    """Returned to a sender in place of an answer. Not `sent`: the message had no effect."""

    message: Any
    sent: bool


@dataclass
class Rule:
    """What is done, at a node, to messages from or to a peer. `share` 1: to all of them."""

    fault: str
    peer: str
    direction: Literal["in", "out"]
    share: float = 1.0
    reset: bool = False
    ports: tuple[int, ...] = ()
    seen: int = 0
    met: int = 0
    own_seen: int = 0
    own_met: int = 0

    def applies(self, peer: str, direction: str) -> bool:
        """Whether it looks at messages from or to this peer."""
        return (
            self.peer == peer
            and self.direction == direction
            and (not self.ports or PORT in self.ports)
        )

    def meets(self, draw: Random, *, own: bool = False) -> bool:
        """Whether it acts on one message; counted. `own`: one of the harness, sent to look."""
        hit = self.share >= 1 or draw.random() < self.share
        if own:
            self.own_seen, self.own_met = self.own_seen + 1, self.own_met + hit
        else:
            self.seen, self.met = self.seen + 1, self.met + hit
        return hit


@dataclass
class Network:
    """Links between all hosts of a simulation, and the rules that stand at nodes, newest first."""

    simulation: Simulation
    rules: dict[str, list[Rule]] = field(default_factory=dict)

    def send(self, source: Host, target: str, message: Any) -> None:
        """Send a message; it arrives a little later, or never."""
        simulation, host = self.simulation, self.simulation.hosts[target]
        due_ns = simulation.now_ns + _LEAST_DELAY_NS + int(source.random.random() * _SPREAD_NS)
        if self.rules and (rule := self._met(source, target)) is not None:
            if rule.reset:
                refusal = Refused(message, sent=True)
                simulation.push(due_ns, source, source, _refuse, source, target, refusal)
            return
        if host.running:
            source.caused += 1
            event = (due_ns, source.rank, source.caused, host, host.life, host.receive)
            heappush(simulation.heap, (*event, (source.name, message)))
        elif not self.rules or self._met(host, source.name, draw=source.random) is None:
            refusal, back_ns = Refused(message, sent=False), due_ns + _LEAST_DELAY_NS
            simulation.push(back_ns, source, source, _refuse, source, target, refusal)

    def cut(self, source: str, target: str) -> str | None:
        """The fault that drops all that goes from one host to another; None: nothing does."""
        rules = self._between(source, target)
        return next((rule.fault for rule in rules if rule.share >= 1), None)

    def try_often(self, source: str, target: str, draw: Random, *, count: int) -> int:
        """Packets of the harness's own, to look; how many passed. They move no event and take no
        draw of a host's, so that looking changes nothing."""
        rules = self._between(source, target)
        passed = 0
        for _ in range(count):
            passed += not any(rule.meets(draw, own=True) for rule in rules)
        return passed

    def add(self, node: str, rule: Rule) -> None:
        """Put a rule before those that stand at a node."""
        self.rules.setdefault(node, []).insert(0, rule)

    def remove(self, node: str, fault: str, peers: set[str]) -> None:
        left = [
            rule
            for rule in self.rules.get(node, ())
            if rule.fault != fault or rule.peer not in peers
        ]
        if left:
            self.rules[node] = left
        else:
            self.rules.pop(node, None)

    def _met(self, source: Host, target: str, draw: Random | None = None) -> Rule | None:
        rules, draw = self._between(source.name, target), draw or source.random
        return next((rule for rule in rules if rule.meets(draw)), None)

    def _between(self, source: str, target: str) -> list[Rule]:
        out = [rule for rule in self.rules.get(source, ()) if rule.applies(target, "out")]
        return out + [rule for rule in self.rules.get(target, ()) if rule.applies(source, "in")]


def _refuse(source: Host, target: str, refused: Refused) -> None:
    source.unreachable(target, refused)


Call = Callable[..., None]
_Event = tuple[int, int, int, "Host", int, Call, tuple[Any, ...]]


class Simulation:
    """The events of one simulated world, and its time."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_ns = 0
        self.hosts: dict[str, Host] = {}
        self.real_now: Callable[[], int] | None = None
        self.heap: list[_Event] = []
        self._lock = threading.RLock()
        self._changed = threading.Event()

    def random(self, role: str) -> Random:
        """The random source of a role, the same for the same seed."""
        return Random(f"{self.seed}/{role}")

    def push(self, time_ns: int, cause: Host, host: Host, call: Call, *args: Any) -> None:
        """Have `call(*args)` happen at `host`, in its present life; `cause` orders ties."""
        cause.caused += 1
        heappush(self.heap, (time_ns, cause.rank, cause.caused, host, host.life, call, args))

    def next_ns(self) -> int | None:
        """When the next event is due."""
        return self.heap[0][0] if self.heap else None

    def run_next(self) -> None:
        """Run the next event."""
        time_ns, _, _, host, life, call, args = heappop(self.heap)
        if time_ns > self.now_ns:
            self.now_ns = time_ns
        if host.life != life:
            return
        if host.paused:
            host.backlog.append((call, args))
            return
        call(*args)

    def pass_to(self, time_ns: int) -> None:
        """Time has passed up to here."""
        self.now_ns = max(self.now_ns, time_ns)

    def run_until(self, time_ns: int) -> None:
        """Run everything that is due up to a time, as fast as possible."""
        heap = self.heap
        while heap and heap[0][0] <= time_ns:
            self.run_next()
        self.pass_to(time_ns)

    @contextmanager
    def held(self) -> Iterator[None]:
        """For calls from outside: nothing else happens meanwhile, and time is up to date."""
        with self._lock:
            if self.real_now is not None:
                self.run_until(self.real_now())
            yield
        self._changed.set()

    def drive(self, clock: Clock, stop: threading.Event) -> None:
        """Have events happen at the pace of a real clock (`real_now`) until `stop` is set."""
        while not stop.is_set():
            self._changed.clear()
            with self._lock:
                self.run_until(clock.now_ns())
                due_ns = self.next_ns()
            behind_s = 0.05 if due_ns is None else min(0.05, (due_ns - clock.now_ns()) / 1e9)
            if behind_s > 0:
                clock.wait(self._changed, behind_s)


class Host:
    """Something with an address at which events happen: a node, or where the clients are."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.simulation = simulation
        self.name = name
        self.rank = len(simulation.hosts)
        self.random = simulation.random(f"host/{name}")
        self.life = 0
        self.caused = 0
        self.paused = False
        self.running = True
        self.backlog: list[tuple[Call, tuple[Any, ...]]] = []
        self.receive: Callable[[str, Any], None] = _ignore
        self.unreachable: Callable[[str, Any], None] = _ignore
        simulation.hosts[name] = self

    def now_ns(self) -> int:
        """This host's monotonic clock. All of them go at the same rate."""
        return self.simulation.now_ns

    def after(self, delay_ns: int, call: Call, *args: Any) -> None:
        """Have `call(*args)` happen here later, unless this life has ended by then."""
        self.simulation.push(self.simulation.now_ns + delay_ns, self, self, call, *args)

    def pause(self) -> None:
        """Nothing happens here until `resume`."""
        self.paused = True

    def resume(self) -> None:
        """What came due meanwhile happens now, in the order in which it came due."""
        if not self.paused:
            return
        self.paused = False
        backlog, self.backlog = self.backlog, []
        for call, args in backlog:
            self.simulation.push(self.simulation.now_ns, self, self, call, *args)

    def die(self) -> None:
        """The process ends: its timers and what is on its way to it are gone."""
        self.life += 1
        self.running = self.paused = False
        self.backlog = []


def _ignore(source: str, message: Any) -> None:
    """The default for a host on which nothing is installed."""
