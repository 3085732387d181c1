"""Which nodes are cut off: the shapes of a partition, as pure functions of names (after Jepsen).

A grudge lists for each node the nodes from which it is cut. Every cut link is in it once, at the
node that is named first, so a one-way cut has a direction: `in` at that node means that it receives
nothing from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

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
