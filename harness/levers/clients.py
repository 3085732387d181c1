"""Clients as a node sees them: they run where ackloss does, and are not nodes of the cluster.

Their packets come from the node's default gateway, the address of this host in the node's network,
or, if a node is a separate host, from the address that it reports.
The observer and the final reader are clients too: a fault that cuts off clients also blinds them.
But their packets prove no fault: the observer sends from ports of `harness.faults.own_traffic`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from harness.errors import HarnessFailure
from harness.faults.own_traffic import own_connection
from harness.protocols import Node


def why_no_clients(node: Node) -> str | None:
    """None, or why it is not known where the clients' packets come from."""
    if node.clients_address is not None:
        return None
    if node.own_connection is not None:
        return (
            f"where the packets of clients come from is not known at {node.name}, which is reached "
            "through a jump host or has another address in the cluster"
        )
    return f"{node.name} has no default route, so the address of its clients is not known"


def refuse_gateway(node: Node, nodes: Mapping[str, Node]) -> None:
    """Raise HarnessFailure if others are reached through a node, according to what they themselves
    see: its rules and queues let only our connection to itself pass."""
    behind = [
        other.name
        for other in nodes.values()
        if other.name != node.name
        and (own := other.own_connection) is not None
        and own.peer == node.address
    ]
    if behind:
        raise HarnessFailure(
            f"{', '.join(behind)} can be reached only through {node.name}: a fault of its network "
            "would cut us off",
            hint="choose another jump host, which is not a node",
        )


def device(node: Node) -> str | None:
    """The network device through which a node reaches its clients, or others at all."""
    address = node.clients_address if node.own_connection is not None else None
    to = ["get", address] if address else ["show", "default"]
    routes = node.admin(["ip", "-4", "route", *to]).output
    match = re.search(r"\bdev (\S+)", routes)
    return match[1] if match else None


def connect(address: str, port: int, *, timeout_s: float) -> str:
    """Try a connection from where clients are: `passed`, `was refused` or `got no answer`."""
    try:
        own_connection(address, port, timeout_s=timeout_s).close()
    except ConnectionError:
        return "was refused"
    except OSError:
        return "got no answer"
    return "passed"


def connect_often(address: str, port: int, *, times: int, timeout_s: float) -> None:
    """Try many connections, most of them in parallel."""
    with ThreadPoolExecutor(max_workers=64) as pool:
        list(pool.map(partial(connect, timeout_s=timeout_s), [address] * times, [port] * times))
