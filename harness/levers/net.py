"""The net lever: drops packets at a node with rules of its own, counts them, and takes them away.

All rules stand in two chains of ours, ACKLOSS-IN and ACKLOSS-OUT, in the node's own network
namespace; each carries a comment that names its fault, so that one fault's rules are found, counted
and removed without touching another's. The latest fault's rules stand first, so that where faults
overlap each has counted packets of its own. Rules that are not ours are never changed.

Token: {"node", "fault", "peers": [{"name", "address"}], "ports": [9092], "direction": "in"}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from harness.errors import HarnessFailure
from harness.protocols import Node, Proof, Token

_CHAINS = {"in": ("INPUT", "ACKLOSS-IN"), "out": ("OUTPUT", "ACKLOSS-OUT")}
_PROBE_S = 1


@dataclass(frozen=True)
class NetLever:
    """Drops traffic between a node and named peers."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "net"

    def apply(self, token: Token) -> None:
        """Add the token's rules; those that stand already are not added twice."""
        node = self.nodes[token["node"]]
        for direction in _directions(token):
            hook, chain = _CHAINS[direction]
            node.admin(["iptables", "-w", "-N", chain])  # fails when it is there: as wanted
            if node.admin(["iptables", "-w", "-C", hook, "-j", chain]).exit_code:
                _must(node, ["iptables", "-w", "-I", hook, "-j", chain])
        for chain, rule in _rules(token):
            if node.admin(["iptables", "-w", "-C", chain, *rule]).exit_code:
                _must(node, ["iptables", "-w", "-I", chain, *rule])

    def undo(self, token: Token) -> None:
        """Remove the token's rules, and our chains once they are empty."""
        node = self.nodes[token["node"]]
        for chain, rule in _rules(token):
            while node.admin(["iptables", "-w", "-D", chain, *rule]).exit_code == 0:
                pass
        for direction in _directions(token):
            hook, chain = _CHAINS[direction]
            standing = node.admin(["iptables", "-w", "-S", chain])
            if standing.exit_code == 0 and len(standing.output.splitlines()) == 1:
                node.admin(["iptables", "-w", "-D", hook, "-j", chain])
                node.admin(["iptables", "-w", "-X", chain])

    def probe(self, token: Token, *, applied: bool) -> Proof:
        """In force: every peer's packets are dropped and counted by our rules. Undone: no rule of
        ours stands and packets pass again."""
        node = self.nodes[token["node"]]
        return self._in_force(node, token) if applied else self._undone(node, token)

    def residue(self, node: Node) -> list[str]:
        """Any rule or chain in the node's filter table: a fresh node has none."""
        rules = node.admin(["iptables", "-w", "-S"]).output.splitlines()
        return [f"{node.name}: {rule}" for rule in rules if not rule.startswith("-P ")]

    def _in_force(self, node: Node, token: Token) -> Proof:
        tries = self._try_all(node, token)
        counted = _counted(node, token["fault"])
        names = [peer["name"] for peer in token["peers"]]
        proven = bool(names) and not any(passes for _, passes in tries)
        return Proof(
            proven and all(counted.get(name, 0) > 0 for name in names),
            [
                f"{node.name}: {counted.get(name, 0):,} packets {_way(token, name)} dropped by our "
                f"rules; {how} {_told(passes)}"
                for name, (how, passes) in zip(names, tries, strict=True)
            ],
        )

    def _undone(self, node: Node, token: Token) -> Proof:
        left = len(_counted(node, token["fault"]))
        proven, evidence = left == 0, []
        for peer, (how, passes) in zip(token["peers"], self._try_all(node, token), strict=True):
            other = None if passes else self._other_fault(node, self.nodes[peer["name"]])
            proven = proven and (passes or other is not None)
            evidence.append(f"{how} {_told(passes)}{f', still cut by {other}' if other else ''}")
        told = "; ".join(evidence)
        return Proof(proven, [f"{node.name}: {left} rules of this fault left; {told}"])

    def _other_fault(self, node: Node, peer: Node) -> str | None:
        """Another fault of ours that stands between two nodes, if any."""
        for here, there in ((node, peer), (peer, node)):
            for comment in _rule_comments(here):
                _, fault, name = comment.split("/")
                if name == there.name:
                    return fault
        return None

    def _try_all(self, node: Node, token: Token) -> list[tuple[str, bool]]:
        """Every peer's probe, all at once: a dropped packet costs a whole time-out."""
        with ThreadPoolExecutor(max_workers=max(1, len(token["peers"]))) as pool:
            return list(
                pool.map(lambda peer: _probe(node, self.nodes[peer["name"]], token), token["peers"])
            )


def _directions(token: Token) -> list[str]:
    return ["in", "out"] if token["direction"] == "both" else [token["direction"]]


def _rules(token: Token) -> Iterator[tuple[str, list[str]]]:
    """Chain and rule, without the verb, for every peer, port and direction."""
    ports = token["ports"] or [None]
    for direction, peer, port in product(_directions(token), token["peers"], ports):
        match = ["-s" if direction == "in" else "-d", f"{peer['address']}/32"]
        if port is not None:
            match += ["-p", "tcp", "-m", "tcp", "--dport", str(port)]
        comment = f"ackloss/{token['fault']}/{peer['name']}"
        yield _CHAINS[direction][1], [*match, "-m", "comment", "--comment", comment, "-j", "DROP"]


def _counted(node: Node, fault: str) -> dict[str, int]:
    """Packets that a fault's standing rules at a node have dropped, by peer."""
    counted: dict[str, int] = {}
    for comment, packets in _rule_comments(node).items():
        _, of_fault, peer = comment.split("/")
        if of_fault == fault:
            counted[peer] = counted.get(peer, 0) + packets
    return counted


def _rule_comments(node: Node) -> dict[str, int]:
    """The comments of our rules that stand at a node, with the packets that they have dropped."""
    found: dict[str, int] = {}
    for line in node.admin(["iptables-save", "-c", "-t", "filter"]).output.splitlines():
        if match := re.match(r"\[(\d+):\d+\].*--comment \"?(ackloss/[^\s\"]+)", line):
            found[match[2]] = found.get(match[2], 0) + int(match[1])
    return found


def _way(token: Token, peer: str) -> str:
    return {"in": f"from {peer}", "out": f"to {peer}", "both": f"from and to {peer}"}[
        token["direction"]
    ]


def _probe(node: Node, peer: Node, token: Token) -> tuple[str, bool]:
    """Try one packet exchange that the rules must stop: how it was tried, whether it passed.

    With ports a TCP connection to the first of them from the side whose request the rules stop
    (a refusal is an answer: the path is open); without ports an echo request.
    """
    source, goal = (peer, node) if token["direction"] == "in" else (node, peer)
    if not token["ports"]:
        answer = source.admin(["ping", "-n", "-c", "1", "-W", str(_PROBE_S), goal.address])
        return f"an echo request {source.name} to {goal.name}", answer.exit_code == 0
    port = str(token["ports"][0])
    argv = ["nc", "-nvz", "-w", str(_PROBE_S), goal.address, port]
    answer = source.admin(argv, timeout_s=_PROBE_S + 2)
    passes = answer.exit_code == 0 or "refused" in answer.output
    return f"a connection {source.name} to {goal.name}:{port}", passes


def _told(passes: bool) -> str:
    return "passed" if passes else "got no answer"


def _must(node: Node, argv: list[str]) -> None:
    done = node.admin(argv)
    if done.exit_code:
        raise HarnessFailure(f"{node.name}: {' '.join(argv)} failed: {done.output.strip()[:300]}")
