"""Links between nodes, and to clients, as nemeses name them and the net lever takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.faults import selectors
from harness.faults.grudges import Grudge
from harness.faults.records import CLIENTS, Direction, NetRecord, Peer
from harness.protocols import Node


def net_record(
    node: str,
    peers: Sequence[Peer],
    *,
    ports: Sequence[int],
    direction: Direction,
    share: float = 1.0,
    reset: bool = False,
) -> NetRecord:
    """The record of a node whose packets from and to its peers are dropped, or reset."""
    return NetRecord(
        node=node,
        peers=tuple(peers),
        ports=tuple(ports),
        direction=direction,
        action="reset" if reset else "drop",
        share=share,
    )


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
