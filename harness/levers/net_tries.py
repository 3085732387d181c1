"""Packet exchanges on which the rules of the net lever must act.

Without ports an echo request; with ports, or where TCP is reset, a connection to the first port
from the side whose request the rules match. A refusal is an answer: the path is open. Connections
leave from our own ports (`harness.faults.own_traffic`), which the rules count separately.
"""

from __future__ import annotations

from typing import NamedTuple

from harness.faults.own_traffic import own_port, own_ports
from harness.faults.records import NetRecord, Peer
from harness.levers import clients
from harness.protocols import Node

_ANSWER_S = 1
_FEWEST, _MOST = 200, 2000
_DROPS_WANTED = 20
_AT_ONCE = 100
_MANY_S = 8
_DISCARD_PORT = 9
_OFTEN = (
    f"for i in $(seq 0 {_AT_ONCE - 1}); do "
    f'nc -nz -w {_ANSWER_S} -p $(($2 + i)) "$0" "$1" & done; wait'
)


class Tried(NamedTuple):
    """How it was tried, and the result: `passed`, `was refused` or `got no answer`."""

    how: str
    came: str

    @property
    def answered(self) -> bool:
        return self.came != "got no answer"

    def __str__(self) -> str:
        return f"{self.how} {self.came}"


def exchange(node: Node, peer_node: Node | None, peer: Peer, record: NetRecord) -> Tried:
    """Try one exchange between a node and a peer (`peer_node` is None for the clients)."""
    if not record.ports and record.action != "reset":
        source, goal, name = _ends(node, peer_node, peer, record)
        answer = source.admin(["ping", "-n", "-c", "1", "-W", str(_ANSWER_S), goal])
        came = "got no answer" if answer.exit_code else "passed"
        return Tried(f"an echo request {source.name} to {name}", came)
    port = _port(record)
    if peer_node is None and (record.ports or record.direction != "out"):
        came = clients.connect(node.address, port, timeout_s=_ANSWER_S)
        return Tried(f"a client's connection to {node.name}:{port}", came)
    source, goal, name = _ends(node, peer_node, peer, record)
    argv = ["nc", "-nvz", "-w", str(_ANSWER_S), "-p", str(own_port()), goal, str(port)]
    answer = source.admin(argv, timeout_s=_ANSWER_S + 2)
    refused = "was refused" if "refused" in answer.output else "got no answer"
    return Tried(
        f"a connection {source.name} to {name}:{port}", refused if answer.exit_code else "passed"
    )


def many(node: Node, peer_node: Node | None, peer: Peer, record: NetRecord) -> None:
    """Send enough packets to distinguish two shares of packets that are dropped at random."""
    times = round(min(_MOST, max(_FEWEST, _DROPS_WANTED / record.share)))
    source, goal, _ = _ends(node, peer_node, peer, record)
    if not record.ports:
        # -f: the next as soon as one is answered, or after 10 ms
        ping = ["timeout", str(_MANY_S), "ping", "-n", "-q", "-f", "-c", str(times), "-W", "1"]
        source.admin([*ping, goal], timeout_s=2 * _MANY_S)
    elif peer_node is None:
        port = _port(record)
        clients.connect_often(node.address, port, times=_AT_ONCE, timeout_s=_ANSWER_S)
    else:
        argv = ["sh", "-c", _OFTEN, goal, str(_port(record)), str(own_ports(_AT_ONCE))]
        source.admin(argv, timeout_s=2 * _MANY_S)


def _ends(
    node: Node, peer_node: Node | None, peer: Peer, record: NetRecord
) -> tuple[Node, str, str]:
    """The node that sends, the address to which it sends, and whose that is: rules `in` match what
    the peer sends. Nothing can be sent from the clients' side here, but their answers to the node
    come from there too."""
    if record.direction == "in" and peer_node is not None:
        return peer_node, node.address, node.name
    return node, peer.address or "", peer.name


def _port(record: NetRecord) -> int:
    return record.ports[0] if record.ports else _DISCARD_PORT
