"""Levers of simulated nodes: the names and undo records of the real ones, other mechanisms.

So the same nemeses, the same journal and the same rules of proof hold. `met` counts messages of the
system that a fault's rules have dropped or reset, and never what a probe has sent to look.

An undo record that another process left behind needs no undoing: a simulated cluster ends with the
process that made it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, Final

from harness.clusters.memory.cluster import MemoryCluster
from harness.clusters.memory.disk_lever import DISK_FORMS, MemoryDiskLever
from harness.clusters.memory.network import CLIENTS, Rule
from harness.clusters.memory.process_levers import MemoryPauseLever, MemoryProcessLever
from harness.protocols import Lever, Node, Proof, Token

_LOOKS: Final = 400
"""Packets that a probe sends to see what share of them is dropped."""


def levers(cluster: MemoryCluster) -> dict[str, Lever]:
    """Every lever over simulated nodes by name."""
    found: list[Lever] = [
        MemoryNetLever(cluster),
        MemoryPauseLever(cluster),
        MemoryProcessLever(cluster),
        MemoryDiskLever(cluster),
    ]
    return {lever.name: lever for lever in found}


def unavailable(lever: str, token: Token) -> str | None:
    """None, or why an act cannot be made on simulated nodes."""
    if lever not in ("net", "pause", "process", "disk"):
        return f"simulated nodes have no lever {lever!r}; they have net, pause, process and disk"
    if lever == "disk" and (token["form"] not in DISK_FORMS or token["alive"]):
        return f"the disk of a simulated node knows only the forms {', '.join(DISK_FORMS)}"
    return None


@dataclass(frozen=True)
class MemoryNetLever:
    """Drops or resets messages between a node and named peers; see `harness.levers.net`."""

    cluster: MemoryCluster
    name: ClassVar[str] = "net"

    def apply(self, token: Token) -> None:
        """Add the record's rules; those that stand already are not added twice."""
        with self.cluster.simulation.held():
            if self._rules(token):
                return
            for peer in token["peers"]:
                for direction in _directions(token):
                    rule = Rule(
                        fault=token["fault"],
                        peer=peer["name"],
                        direction=direction,
                        share=float(token.get("share", 1)),
                        reset=token.get("action") == "reset",
                        ports=tuple(token.get("ports", ())),
                    )
                    self.cluster.network.add(token["node"], rule)

    def undo(self, token: Token) -> None:
        """Remove the record's rules."""
        with self.cluster.simulation.held():
            peers = {peer["name"] for peer in token["peers"]}
            self.cluster.network.remove(token["node"], token["fault"], peers)

    def probe(self, token: Token, *, applied: bool) -> Proof:
        """In force: packets of our own are dropped, all or the share. Undone: no rule of this fault
        stands and packets pass, or another fault stops them."""
        with self.cluster.simulation.held():
            rules = self._rules(token)
            if not applied:
                return self._undone(token, len(rules))
            proofs = [self._in_force(token, peer["name"], rules) for peer in token["peers"]]
        return Proof(
            bool(proofs) and all(proof.proven for proof in proofs),
            [sentence for proof in proofs for sentence in proof.evidence],
            sum(proof.met or 0 for proof in proofs),
        )

    def leftover_state(self, node: Node) -> list[str]:
        """The rules that stand at a node."""
        rules = self.cluster.network.rules.get(node.name, ())
        return [f"{node.name}: a rule of {rule.fault} against {rule.peer}" for rule in rules]

    def _in_force(self, token: Token, peer: str, rules: list[Rule]) -> Proof:
        node, share = token["node"], float(token.get("share", 1))
        ours = [rule for rule in rules if rule.peer == peer]
        before = sum(rule.own_met for rule in ours)
        tried = _LOOKS if share < 1 else 1
        passed = sum(self._try(token, peer, direction, tried) for direction in _directions(token))
        met, hit = sum(rule.met for rule in ours), sum(rule.own_met for rule in ours)
        seen = met + hit if share >= 1 else sum(rule.seen + rule.own_seen for rule in ours)
        way = {"in": "from", "out": "to", "both": "from and to"}[token["direction"]]
        who = "the workload's clients" if peer == CLIENTS else peer
        done = "answered with a reset" if token.get("action") == "reset" else "dropped"
        evidence = f"{node}: {met:,} messages of the system {way} {who} {done} by our rules"
        if share < 1:
            far = 4 * sqrt(share * (1 - share) / max(seen, 1)) + share / 20
            proven = met + hit > 0 and abs((met + hit) / max(seen, 1) - share) <= far
            evidence += f"; with our own {met + hit:,} of {seen:,}, for a share of {share:.1%}"
            return Proof(proven, [evidence], met)
        came = "passed" if passed else "got no answer"
        evidence += f", and {hit:,} of our own; a packet of our own {came}"
        return Proof(hit > before and not passed, [evidence], met)

    def _try(self, token: Token, peer: str, direction: str, count: int) -> int:
        node = token["node"]
        source, target = (peer, node) if direction == "in" else (node, peer)
        draw = self.cluster.simulation.random(f"probe/{token['fault']}/{source}/{target}")
        return self.cluster.network.try_often(source, target, draw, count=count)

    def _undone(self, token: Token, left: int) -> Proof:
        proven, node, evidence = left == 0, token["node"], []
        for peer in token["peers"]:
            ends = (node, peer["name"])
            other = self.cluster.network.cut(*ends) or self.cluster.network.cut(*reversed(ends))
            told = f"still cut by {other}" if other else "packets pass"
            evidence.append(f"{peer['name']}: {told}")
        told = "; ".join(evidence)
        return Proof(proven, [f"{node}: {left} rules of this fault left; {told}"])

    def _rules(self, token: Mapping[str, Any]) -> list[Rule]:
        peers = {peer["name"] for peer in token["peers"]}
        return [
            rule
            for rule in self.cluster.network.rules.get(token["node"], ())
            if rule.fault == token["fault"] and rule.peer in peers
        ]


def _directions(token: Token) -> tuple[Any, ...]:
    return ("in", "out") if token["direction"] == "both" else (token["direction"],)
