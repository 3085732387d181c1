"""The net lever of simulated nodes: rules that drop or reset messages between a node and its peers.

`met` counts messages of the system that a fault's rules have dropped or reset, and never what a
probe has sent to look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, Final, Literal

from harness.clusters.memory.network import Rule
from harness.clusters.memory.world import World
from harness.faults.records import CLIENTS, NetRecord
from harness.protocols import Lever, Node, Proof, UndoRecord

_TRIES: Final = 400
"""Packets that a probe sends to see what share of them is dropped."""

Way = Literal["in", "out"]


@dataclass(frozen=True)
class MemoryNetLever(Lever[NetRecord]):
    """Drops or resets messages between a node and named peers; see `harness.levers.net`."""

    world: World
    name: ClassVar[str] = "net"
    record_type: ClassVar[type[UndoRecord]] = NetRecord

    def apply(self, record: NetRecord) -> None:
        """Add the record's rules; those that stand already are not added twice."""
        with self.world.simulation.held():
            if self._rules(record):
                return
            for peer in record.peers:
                for way in _ways(record):
                    rule = Rule(
                        fault=record.fault,
                        peer=peer.name,
                        direction=way,
                        share=record.share,
                        reset=record.action == "reset",
                        ports=record.ports,
                    )
                    self.world.network.add(record.node, rule)

    def undo(self, record: NetRecord) -> None:
        """Remove the record's rules."""
        with self.world.simulation.held():
            peers = {peer.name for peer in record.peers}
            self.world.network.remove(record.node, record.fault, peers)

    def probe(self, record: NetRecord, *, applied: bool) -> Proof:
        """In force: packets of our own are dropped, all or the share. Undone: no rule of this fault
        stands and packets pass, or another fault stops them."""
        with self.world.simulation.held():
            rules = self._rules(record)
            if not applied:
                return self._undone(record, len(rules))
            proofs = [self._in_force(record, peer.name, rules) for peer in record.peers]
        return Proof(
            bool(proofs) and all(proof.proven for proof in proofs),
            [sentence for proof in proofs for sentence in proof.evidence],
            sum(proof.met or 0 for proof in proofs),
        )

    def leftover_state(self, node: Node) -> list[str]:
        """The rules that stand at a node."""
        rules = self.world.network.rules.get(node.name, ())
        return [f"{node.name}: a rule of {rule.fault} against {rule.peer}" for rule in rules]

    def _in_force(self, record: NetRecord, peer: str, rules: list[Rule]) -> Proof:
        share = record.share
        ours = [rule for rule in rules if rule.peer == peer]
        before = sum(rule.own_met for rule in ours)
        tried = _TRIES if share < 1 else 1
        passed = sum(self._try(record, peer, way, tried) for way in _ways(record))
        met, hit = sum(rule.met for rule in ours), sum(rule.own_met for rule in ours)
        evidence = _of_system(record, peer, met)
        if share < 1:
            seen = sum(rule.seen + rule.own_seen for rule in ours)
            far = 4 * sqrt(share * (1 - share) / max(seen, 1)) + share / 20
            proven = met + hit > 0 and abs((met + hit) / max(seen, 1) - share) <= far
            evidence += f"; with our own {met + hit:,} of {seen:,}, for a share of {share:.1%}"
            return Proof(proven, [evidence], met)
        came = "passed" if passed else "got no answer"
        evidence += f", and {hit:,} of our own; a packet of our own {came}"
        return Proof(hit > before and not passed, [evidence], met)

    def _try(self, record: NetRecord, peer: str, way: Way, count: int) -> int:
        node = record.node
        source, target = (peer, node) if way == "in" else (node, peer)
        draw = self.world.simulation.random(f"probe/{record.fault}/{source}/{target}")
        return self.world.network.try_often(source, target, draw, count=count)

    def _undone(self, record: NetRecord, left: int) -> Proof:
        node, evidence = record.node, []
        for peer in record.peers:
            ends = (node, peer.name)
            other = self.world.network.cut(*ends) or self.world.network.cut(*reversed(ends))
            outcome = f"still cut by {other}" if other else "packets pass"
            evidence.append(f"{peer.name}: {outcome}")
        sentence = f"{node}: {left} rules of this fault left; {'; '.join(evidence)}"
        return Proof(left == 0, [sentence])

    def _rules(self, record: NetRecord) -> list[Rule]:
        peers = {peer.name for peer in record.peers}
        return [
            rule
            for rule in self.world.network.rules.get(record.node, ())
            if rule.fault == record.fault and rule.peer in peers
        ]


def _ways(record: NetRecord) -> Sequence[Way]:
    return ("in", "out") if record.direction == "both" else (record.direction,)


def _of_system(record: NetRecord, peer: str, met: int) -> str:
    way = {"in": "from", "out": "to", "both": "from and to"}[record.direction]
    who = "the workload's clients" if peer == CLIENTS else peer
    done = {"drop": "dropped", "reset": "answered with a reset"}[record.action]
    return f"{record.node}: {met:,} messages of the system {way} {who} {done} by our rules"
