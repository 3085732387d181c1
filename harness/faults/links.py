"""Links that the nemeses of the network cut: which, as pure functions of names (after Jepsen), and
as the net lever takes them, to nodes and to clients.

A grudge lists for each node the nodes from which it is cut. Every cut link is in it once, at the
node that is named first, so a one-way cut has a direction: `in` at that node means that it receives
nothing from the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from harness.faults import selectors
from harness.faults.records import CLIENTS, Peer
from harness.protocols import Node

Grudge = dict[str, list[str]]


def isolate(nodes: Sequence[str], peers: Sequence[str]) -> Grudge:
    """Each node is cut from all peers but itself: nodes that are peers are alone."""
    return {node: [peer for peer in peers if peer != node] for node in nodes}


def groups(parts: Sequence[Sequence[str]]) -> Grudge:
    """Nodes see each other only where a group has both; a node of two groups sees both groups."""
    members = list(dict.fromkeys(node for part in parts for node in part))
    grudge: Grudge = {node: [] for node in members}
    for first, second in combinations(members, 2):
        if not any(first in part and second in part for part in parts):
            grudge[first].append(second)
    return grudge


def halves(nodes: Sequence[str], peers: Sequence[str]) -> Grudge:
    """The nodes on one side, all other peers on the other."""
    return groups([nodes, [peer for peer in peers if peer not in nodes]])


def bridge(middle: Sequence[str], peers: Sequence[str]) -> Grudge:
    """Two halves that see nothing of each other, and `middle`, which sees both. Peers alternate
    between the halves, so that roles that follow each other in the cluster are in both."""
    others = [peer for peer in peers if peer not in middle]
    return groups([[*middle, *others[0::2]], [*middle, *others[1::2]]])


def ring(nodes: Sequence[str]) -> Grudge:
    """Majorities ring: every node sees a majority, and no two nodes see the same one.

    Each sees its nearest neighbours on both sides of a ring, so an even majority is exceeded by
    one. Three nodes have no such ring (each is a neighbour of both others): there it is a path.
    """
    if len(nodes) == 3:
        return groups([nodes[:2], nodes[1:]])
    reach = (len(nodes) // 2 + 1) // 2
    grudge: Grudge = {node: [] for node in nodes}
    for (i, first), (j, second) in combinations(enumerate(nodes), 2):
        if min(j - i, len(nodes) - (j - i)) > reach:
            grudge[first].append(second)
    return grudge


def peers_by_node(grudge: Grudge, addresses: Mapping[str, str]) -> dict[str, list[Peer]]:
    """The peers of every node that is cut off from any other."""
    return {
        node: [Peer(name=peer, address=addresses[peer]) for peer in peers]
        for node, peers in grudge.items()
        if peers
    }


def clients_by_node(nodes: Sequence[Node], clients: Sequence[Node]) -> dict[str, list[Peer]]:
    """The clients as the peers of every node: those on this host, whose address the lever looks up
    on each node, and `clients`, the nodes that hold some."""
    return {
        node.name: [
            Peer(name=CLIENTS),
            *(Peer(name=c.name, address=c.address) for c in clients if c is not node),
        ]
        for node in nodes
    }


def check_links(peers: str, ports: Sequence[int]) -> None:
    """Raise PlanError or ValueError unless `peers` is a selector or clients, and `ports` are."""
    if peers != CLIENTS:
        selectors.check_grammar(peers, key="peers")
    for port in ports:
        if not 0 < port < 65536:
            raise ValueError(f"{port} is not a TCP port")
