"""Clients as a node sees them: they run where ackloss does, and are not nodes of the cluster.

Their packets come from the node's default gateway, the address of this host in the node's network.
The observer and the final reader are clients too: a fault that cuts clients blinds them as well.
But their packets prove no fault: the observer sends from ports of `harness.faults.own_traffic`.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from harness.faults.own_traffic import own_connection
from harness.protocols import Node


def clients_address(node: Node) -> str | None:
    """Where the clients' packets come from; None when the node has no default route."""
    routes = node.admin(["ip", "-4", "route", "show", "default"]).output
    match = re.search(r"default via (\d+\.\d+\.\d+\.\d+)", routes)
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
