"""The net lever: drops or resets packets at a node by rules of its own, counts them, undoes it.

All rules stand in two chains of ours, ACKLOSS-IN and ACKLOSS-OUT, in the node's own network
namespace; each carries a comment that names its fault, so that one fault's rules are found, counted
and removed without touching another's. The latest fault's rules stand first, so that where faults
overlap each has counted packets of its own. Rules that are not ours are never changed.

A packet of the probe's own shows that a rule works, and not that anybody was cut: `met` counts the
packets of the system alone (see `harness.levers.net_rules` for how they are told apart).

Token: {"node", "fault", "peers": [{"name", "address"}], "ports": [9092], "direction": "in",
        "action": "drop" | "reset" (drop), "share": 0.2 (1)}
The peer named `clients` is no node: see `harness.levers.clients`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, TypeVar

from harness.levers.clients import CLIENTS
from harness.levers.commands import must
from harness.levers.net_rules import (
    CHAINS,
    Met,
    action,
    add,
    counted,
    directions,
    remove,
    share,
    standing,
)
from harness.levers.net_tries import Tried, exchange, many
from harness.protocols import Node, Proof, Token

T = TypeVar("T")

_HEALED_S = 25


@dataclass(frozen=True)
class NetLever:
    """Drops or resets traffic between a node and named peers."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "net"

    def apply(self, token: Token) -> None:
        """Add the token's rules; those that stand already are not added twice."""
        node = self.nodes[token["node"]]
        for direction in directions(token):
            hook, chain = CHAINS[direction]
            node.admin(["iptables", "-w", "-N", chain])  # fails when it is there: as wanted
            if node.admin(["iptables", "-w", "-C", hook, "-j", chain]).exit_code:
                must(node, ["iptables", "-w", "-I", hook, "-j", chain])
        add(node, token)

    def undo(self, token: Token) -> None:
        """Remove the token's rules, and our chains once they are empty."""
        node = self.nodes[token["node"]]
        remove(node, token)
        for direction in directions(token):
            hook, chain = CHAINS[direction]
            left = node.admin(["iptables", "-w", "-S", chain])
            if left.exit_code == 0 and len(left.output.splitlines()) == 1:
                node.admin(["iptables", "-w", "-D", hook, "-j", chain])
                node.admin(["iptables", "-w", "-X", chain])

    def probe(self, token: Token, *, applied: bool) -> Proof:
        """In force: every peer's packets are dropped (all, or the share) or reset by our rules, as
        packets of our own show; `met` are those of the system. Undone: no rule of ours stands and
        packets pass again."""
        node = self.nodes[token["node"]]
        if not applied:
            return self._undone(node, token)
        if share(token) < 1:
            return self._share_dropped(node, token)
        return self._in_force(node, token)

    def leftover_state(self, node: Node) -> list[str]:
        """Any rule or chain in the node's filter table: a fresh node has none."""
        lines = node.admin(["iptables", "-w", "-S"]).output.splitlines()
        return [f"{node.name}: {rule}" for rule in lines if not rule.startswith("-P ")]

    def _in_force(self, node: Node, token: Token) -> Proof:
        before = counted(node, token["fault"])
        tries = self._with_all(exchange, node, token)
        after = counted(node, token["fault"])
        proven, met, evidence = bool(tries), 0, []
        for peer, tried in zip(token["peers"], tries, strict=True):
            was, now = (seen.get(peer["name"], Met()) for seen in (before, after))
            if action(token) == "reset":  # a closed port refuses too: only our counter tells
                held = tried.came != "passed" and now.own > was.own
            else:
                held = not tried.answered and now.own > 0
            proven, met = proven and held, met + now.system
            done = {"drop": "dropped", "reset": "answered with a reset"}[action(token)]
            told = f"{_of_system(now.system, token, peer)} {done} by our rules"
            evidence.append(f"{node.name}: {told}, and {now.own:,} of our own; {tried}")
        return Proof(proven, evidence, met)

    def _share_dropped(self, node: Node, token: Token) -> Proof:
        """The share that was dropped of all that came by, against the share that was asked for: as
        far off as chance may be (4 standard deviations), and a twentieth of itself."""
        self._with_all(many, node, token)
        packets = counted(node, token["fault"])
        asked, proven, met, evidence = share(token), bool(token["peers"]), 0, []
        for peer in token["peers"]:
            now = packets.get(peer["name"], Met())
            hit, of = now.system + now.own, now.system_seen + now.own_seen
            far = 4 * sqrt(asked * (1 - asked) / max(of, 1)) + asked / 20
            proven = proven and hit > 0 and abs(hit / max(of, 1) - asked) <= far
            met += now.system
            told = f"{_of_system(now.system, token, peer, of=now.system_seen)} dropped by our rules"
            evidence.append(
                f"{node.name}: {told}; with our own {hit:,} of {of:,}, {hit / max(of, 1):.1%} "
                f"(asked {asked:.1%} ± {far:.1%})"
            )
        return Proof(proven, evidence, met)

    def _undone(self, node: Node, token: Token) -> Proof:
        left = sum(rule.mark.fault == token["fault"] for rule in standing(node))
        proven, evidence = left == 0, []
        plain = {**token, "action": "drop"}  # where TCP was reset, any answer will do
        tries = self._with_all(self._until_answered, node, plain)
        for peer, tried in zip(token["peers"], tries, strict=True):
            other = None if tried.answered else self._other_fault(node, peer["name"])
            proven = proven and (tried.answered or other is not None)
            evidence.append(f"{tried}{f', still cut by {other}' if other else ''}")
        told = "; ".join(evidence)
        return Proof(proven, [f"{node.name}: {left} rules of this fault left; {told}"])

    def _until_answered(
        self, node: Node, peer: Node | None, named: dict[str, Any], token: Token
    ) -> Tried:
        """Tried again for a while: what was lost is first sent anew, and may keep a server busy."""
        deadline = time.monotonic() + _HEALED_S
        while True:
            tried = exchange(node, peer, named, token)
            if (
                tried.answered
                or time.monotonic() > deadline
                or self._other_fault(node, named["name"])
            ):
                return tried

    def _other_fault(self, node: Node, peer: str) -> str | None:
        """Another fault of ours that stands between a node and a peer, if any."""
        ends = [(node, peer), *((n, node.name) for n in [self.nodes.get(peer)] if n)]
        for here, there in ends:
            for rule in standing(here):
                if rule.mark.peer == there:
                    return rule.mark.fault
        return None

    def _with_all(
        self,
        try_: Callable[[Node, Node | None, dict[str, Any], Token], T],
        node: Node,
        token: Token,
    ) -> list[T]:
        """Every peer's try, all at once: a dropped packet costs a whole time-out."""

        def with_peer(peer: dict[str, Any]) -> T:
            return try_(node, self.nodes.get(peer["name"]), peer, token)

        with ThreadPoolExecutor(max_workers=max(1, len(token["peers"]))) as pool:
            return list(pool.map(with_peer, token["peers"]))


def _of_system(packets: int, token: Token, peer: Mapping[str, Any], of: int | None = None) -> str:
    """Packets that the rules met, in words: clients send packets of the workload."""
    way = {"in": "from", "out": "to", "both": "from and to"}[token["direction"]]
    number = f"{packets:,}" if of is None else f"{packets:,} of {of:,}"
    if peer["name"] == CLIENTS:
        return f"{number} packets {way} the workload's clients"
    return f"{number} packets of the system {way} {peer['name']}"
