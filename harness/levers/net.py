"""The net lever: drops or resets packets at a node by rules of our own, counts them, and undoes it.

All rules are in two chains of ours, ACKLOSS-IN and ACKLOSS-OUT, of the node's own network. Where
the harness works through that network, their first rule lets its own connection pass. Each carries
a comment that names its fault, so the rules of one fault are found, counted and removed without
touching another's. The rules of the latest fault come first, so if faults overlap, each has counted
its own packets. Rules that are not ours are never changed.

A packet that the probe sent shows that a rule works, but not that anything was cut: `met` counts
the packets of the system alone (`harness.levers.net_rules` explains how they are distinguished).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import sqrt
from typing import ClassVar, TypeVar

from harness.faults.records import CLIENTS, NetRecord, Peer
from harness.levers.clients import clients_address, refuse_gateway, why_no_clients
from harness.levers.net_rules import (
    OURS,
    Met,
    add,
    counted,
    directions,
    dismantle,
    prepare,
    refused,
    remove,
    standing,
)
from harness.levers.net_tries import Tried, exchange, many
from harness.protocols import Lever, Node, Proof, UndoRecord

T = TypeVar("T")

_HEALED_S = 25


@dataclass(frozen=True)
class NetLever(Lever[NetRecord]):
    """Drops or resets traffic between a node and named peers."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "net"
    record_type: ClassVar[type[UndoRecord]] = NetRecord

    def unavailable(self, node: Node, record: NetRecord) -> str | None:
        """If the kernel rejects such a rule, or the clients' address is not known."""
        if why := refused(node, part=record.share, reset=record.action == "reset"):
            return why
        if any(peer.name == CLIENTS for peer in record.peers):
            return why_no_clients(node)
        return None

    def capture_prior_state(self, record: NetRecord) -> NetRecord:
        """Adds the address from which the node sees this host's clients, if they are peers."""
        node = self.nodes[record.node]
        peers = tuple(
            replace(peer, address=clients_address(node)) if peer.name == CLIENTS else peer
            for peer in record.peers
        )
        return replace(record, peers=peers)

    def apply(self, record: NetRecord) -> None:
        """Add the rules of the record; existing rules are not added again. Raises HarnessFailure if
        they would cut us off."""
        node = self.nodes[record.node]
        refuse_gateway(node, self.nodes)
        for direction in directions(record):
            prepare(node, direction)
        add(node, record)

    def undo(self, record: NetRecord) -> None:
        """Remove the rules of the record, and our chains once they are empty."""
        node = self.nodes[record.node]
        remove(node, record)
        for direction in directions(record):
            dismantle(node, direction)

    def probe(self, record: NetRecord, *, applied: bool) -> Proof:
        """In force: packets of our own, sent from and to every peer, are dropped (all, or the
        share) or reset by our rules; `met` counts those of the system. Undone: no rule of this
        fault is left and packets pass again."""
        node = self.nodes[record.node]
        if not applied:
            return self._undone(node, record)
        if record.share < 1:
            return self._share_dropped(node, record)
        return self._in_force(node, record)

    def leftover_state(self, node: Node) -> list[str]:
        """Our rules and chains in the node's filter table; others that are there are not ours."""
        lines = node.admin(["iptables", "-w", "-S"]).output.splitlines()
        return [f"{node.name}: {rule}" for rule in lines if OURS in rule]

    def _in_force(self, node: Node, record: NetRecord) -> Proof:
        before = counted(node, record.fault)
        tries = self._with_all(exchange, node, record)
        after = counted(node, record.fault)
        proven, met, evidence = bool(tries), 0, []
        for peer, tried in zip(record.peers, tries, strict=True):
            was, now = (seen.get(peer.name, Met()) for seen in (before, after))
            if record.action == "reset":  # a closed port refuses too: only our counter decides
                held = tried.came != "passed" and now.own > was.own
            else:
                held = not tried.answered and now.own > 0
            proven, met = proven and held, met + now.system
            done = {"drop": "dropped", "reset": "answered with a reset"}[record.action]
            counts = f"{_of_system(now.system, record, peer)} {done} by our rules"
            evidence.append(f"{node.name}: {counts}, and {now.own:,} of our own; {tried}")
        return Proof(proven, evidence, met)

    def _share_dropped(self, node: Node, record: NetRecord) -> Proof:
        """The share that was dropped of all packets, against the share that was requested: chance
        may shift it by 4 standard deviations, and we also allow a twentieth of the share."""
        self._with_all(many, node, record)
        packets = counted(node, record.fault)
        requested, proven, met, evidence = record.share, bool(record.peers), 0, []
        for peer in record.peers:
            now = packets.get(peer.name, Met())
            hit, of = now.system + now.own, now.system_seen + now.own_seen
            far = 4 * sqrt(requested * (1 - requested) / max(of, 1)) + requested / 20
            proven = proven and hit > 0 and abs(hit / max(of, 1) - requested) <= far
            met += now.system
            counts = _of_system(now.system, record, peer, of=now.system_seen)
            evidence.append(
                f"{node.name}: {counts} dropped by our rules; with our own {hit:,} of {of:,}, "
                f"{hit / max(of, 1):.1%} (requested {requested:.1%} ± {far:.1%})"
            )
        return Proof(proven, evidence, met)

    def _undone(self, node: Node, record: NetRecord) -> Proof:
        left = sum(rule.mark.fault == record.fault for rule in standing(node))
        proven, evidence = left == 0, []
        dropped = replace(record, action="drop")  # where TCP was reset, any answer will do
        tries = self._with_all(self._until_answered, node, dropped)
        for peer, tried in zip(record.peers, tries, strict=True):
            other = None if tried.answered else self._other_fault(node, peer.name)
            proven = proven and (tried.answered or other is not None)
            evidence.append(f"{tried}{f', still cut by {other}' if other else ''}")
        return Proof(
            proven, [f"{node.name}: {left} rules of this fault left; {'; '.join(evidence)}"]
        )

    def _until_answered(
        self, node: Node, peer_node: Node | None, peer: Peer, record: NetRecord
    ) -> Tried:
        """Try again for a while: what was lost is sent again first, and may keep a server busy."""
        deadline = time.monotonic() + _HEALED_S
        while True:
            tried = exchange(node, peer_node, peer, record)
            if tried.answered or time.monotonic() > deadline or self._other_fault(node, peer.name):
                return tried

    def _other_fault(self, node: Node, peer: str) -> str | None:
        """Another fault of ours between a node and a peer, if any."""
        ends = [(node, peer), *((n, node.name) for n in [self.nodes.get(peer)] if n)]
        for here, there in ends:
            for rule in standing(here):
                if rule.mark.peer == there:
                    return rule.mark.fault
        return None

    def _with_all(
        self,
        try_: Callable[[Node, Node | None, Peer, NetRecord], T],
        node: Node,
        record: NetRecord,
    ) -> list[T]:
        """Try with every peer in parallel: a dropped packet costs a full timeout."""

        def with_peer(peer: Peer) -> T:
            return try_(node, self.nodes.get(peer.name), peer, record)

        with ThreadPoolExecutor(max_workers=max(1, len(record.peers))) as pool:
            return list(pool.map(with_peer, record.peers))


def _of_system(packets: int, record: NetRecord, peer: Peer, of: int | None = None) -> str:
    """Packets that the rules met, in words: clients send packets of the workload."""
    way = {"in": "from", "out": "to", "both": "from and to"}[record.direction]
    number = f"{packets:,}" if of is None else f"{packets:,} of {of:,}"
    if peer.name == CLIENTS:
        return f"{number} packets {way} the workload's clients"
    return f"{number} packets of the system {way} {peer.name}"
