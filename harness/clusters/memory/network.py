"""The simulated network: messages between hosts with small random delays; rules that drop them.

A rule stands at a node, against one peer, in one direction, as those of the real net lever do, and
counts what it meets. Every message of the system is one packet. Rules act when a message is sent;
one that is on its way when a rule is added still arrives (within a millisecond).

A message to a host whose process is dead is refused: the sender learns it (`Host.unreachable`), as
from a refused connection. A message that a `reset` rule meets is not delivered, and its sender
learns that in the same way, but cannot know how far it went: `Refused.sent` distinguishes the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappush
from random import Random
from typing import Any, Final, Literal, NamedTuple

from harness.clusters.memory.simulation import Host, Simulation

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
    sent: int = 0

    def send(self, source: Host, target: str, message: Any) -> None:
        """Send a message; it arrives a little later, or never."""
        simulation, host = self.simulation, self.simulation.hosts[target]
        self.sent += 1
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
        for rule in self._between(source, target):
            if rule.share >= 1:
                return rule.fault
        return None

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
        """Remove a fault's rules for these peers at a node."""
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
        """The first rule that acts on a message of the system, if any does."""
        for rule in self._between(source.name, target):
            if rule.meets(draw or source.random):
                return rule
        return None

    def _between(self, source: str, target: str) -> list[Rule]:
        out = [rule for rule in self.rules.get(source, ()) if rule.applies(target, "out")]
        return out + [rule for rule in self.rules.get(target, ()) if rule.applies(source, "in")]


def _refuse(source: Host, target: str, refused: Refused) -> None:
    source.unreachable(target, refused)
