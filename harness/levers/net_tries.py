"""Packet exchanges that the net lever's rules must act upon.

Without ports an echo request; with ports, or where TCP is reset, a connection to the first port
from the side whose request the rules match. A refusal is an answer: the path is open.
Connections leave from our own ports (`harness.faults.own_traffic`): the rules count them apart.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from harness.faults.own_traffic import own_port, own_ports
from harness.levers import clients
from harness.levers.net_rules import action, share
from harness.protocols import Node, Token

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
    """How it was tried, and what came: `passed`, `was refused` or `got no answer`."""

    how: str
    came: str

    @property
    def answered(self) -> bool:
        return self.came != "got no answer"

    def __str__(self) -> str:
        return f"{self.how} {self.came}"


def exchange(node: Node, peer: Node | None, named: dict[str, Any], token: Token) -> Tried:
    """Try one exchange between a node and a peer (null: the clients)."""
    if not token["ports"] and action(token) != "reset":
        source, goal, name = _ends(node, peer, named, token)
        answer = source.admin(["ping", "-n", "-c", "1", "-W", str(_ANSWER_S), goal])
        came = "got no answer" if answer.exit_code else "passed"
        return Tried(f"an echo request {source.name} to {name}", came)
    port = _port(token)
    if peer is None and (token["ports"] or token["direction"] != "out"):
        came = clients.connect(node.address, port, timeout_s=_ANSWER_S)
        return Tried(f"a client's connection to {node.name}:{port}", came)
    source, goal, name = _ends(node, peer, named, token)
    argv = ["nc", "-nvz", "-w", str(_ANSWER_S), "-p", str(own_port()), goal, str(port)]
    answer = source.admin(argv, timeout_s=_ANSWER_S + 2)
    refused = "was refused" if "refused" in answer.output else "got no answer"
    return Tried(
        f"a connection {source.name} to {name}:{port}", refused if answer.exit_code else "passed"
    )


def many(node: Node, peer: Node | None, named: dict[str, Any], token: Token) -> None:
    """Send so many packets that a share of them, dropped at random, can be told from another."""
    times = round(min(_MOST, max(_FEWEST, _DROPS_WANTED / share(token))))
    source, goal, _ = _ends(node, peer, named, token)
    if not token["ports"]:
        # -f: the next as soon as one is answered, or after 10 ms
        ping = ["timeout", str(_MANY_S), "ping", "-n", "-q", "-f", "-c", str(times), "-W", "1"]
        source.admin([*ping, goal], timeout_s=2 * _MANY_S)
    elif peer is None:
        port = _port(token)
        clients.connect_often(node.address, port, times=_AT_ONCE, timeout_s=_ANSWER_S)
    else:
        argv = ["sh", "-c", _OFTEN, goal, str(_port(token)), str(own_ports(_AT_ONCE))]
        source.admin(argv, timeout_s=2 * _MANY_S)


def _ends(
    node: Node, peer: Node | None, named: dict[str, Any], token: Token
) -> tuple[Node, str, str]:
    """Who sends, to which address, and that one's name: the rules `in` match what the peer sends.
    Nothing can be sent from the clients' side here; what answers the node comes from there too."""
    if token["direction"] == "in" and peer is not None:
        return peer, node.address, node.name
    return node, named["address"], named["name"]


def _port(token: Token) -> int:
    return int(token["ports"][0]) if token["ports"] else _DISCARD_PORT
