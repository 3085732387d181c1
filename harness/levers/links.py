"""Links between nodes, and to clients, as the options of nemeses name them and the net lever takes
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.faults import selectors
from harness.faults.grudges import Grudge
from harness.levers.clients import CLIENTS, clients_address
from harness.protocols import Act, Node


def net_acts(grudge: Grudge, addresses: Mapping[str, str], **how: object) -> list[Act]:
    """One pull of the net lever for every node that is cut from somebody; `how`: the rest of its
    token (ports, direction, action)."""
    return [
        Act(
            "net",
            {
                "node": node,
                "peers": [{"name": peer, "address": addresses[peer]} for peer in peers],
                **how,
            },
        )
        for node, peers in grudge.items()
        if peers
    ]


def client_acts(nodes: Sequence[Node], clients: Sequence[Node], **how: object) -> list[Act]:
    """One pull of the net lever for every node, against the clients as it sees them: those of this
    host, and `clients`, the nodes that hold some."""
    return [
        Act(
            "net",
            {
                "node": node.name,
                "peers": [
                    {"name": CLIENTS, "address": clients_address(node)},
                    *({"name": c.name, "address": c.address} for c in clients if c is not node),
                ],
                **how,
            },
        )
        for node in nodes
    ]


def check_links(peers: str, ports: Sequence[int]) -> None:
    """Raise PlanError or ValueError unless `peers` is a selector or clients, and `ports` are."""
    if peers != CLIENTS:
        selectors.check(peers, key="peers")
    for port in ports:
        if not 0 < port < 65536:
            raise ValueError(f"{port} is no TCP port")
