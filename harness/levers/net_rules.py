"""The rules of the net lever: how they are written, counted, and tried without being in force.

What a rule does is the token's `action`: `drop` (all, or the `share` of packets that it names) or
`reset` (TCP is answered with a reset, other traffic passes). A share has a second rule beside the
one that drops, which only counts what came by: so the share that was dropped can be told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from harness.levers.clients import CLIENTS
from harness.levers.commands import must
from harness.protocols import Node, Token

CHAINS = {"in": ("INPUT", "ACKLOSS-IN"), "out": ("OUTPUT", "ACKLOSS-OUT")}
_TRIAL = "ACKLOSS-TRIAL"
_SEEN = "seen"
_DROP = ["-j", "DROP"]
# Resets themselves pass: else the other direction's rule would drop what this one answers.
_RESET = ["-j", "REJECT", "--reject-with", "tcp-reset"]
_NO_RESETS = ["!", "--tcp-flags", "RST", "RST"]


class Mark(NamedTuple):
    """What a rule's comment says: its fault, the peer, and whether it only counts."""

    fault: str
    peer: str
    seen: bool

    def __str__(self) -> str:
        return "/".join(["ackloss", self.fault, self.peer, *([_SEEN] if self.seen else [])])


def directions(token: Token) -> list[str]:
    """The directions that a token names: in, out, or both."""
    return ["in", "out"] if token["direction"] == "both" else [token["direction"]]


def action(token: Token) -> str:
    """What is done to packets, `drop` unless the token says `reset`."""
    return str(token.get("action", "drop"))


def share(token: Token) -> float:
    """The share of packets that are dropped, 1 unless the token says less."""
    return float(token.get("share", 1))


def rules(token: Token) -> Iterator[tuple[str, list[str]]]:
    """Chain and rule, without the verb, for every peer, port and direction; each is put before
    those that came earlier, so the one that counts is the first to see a packet."""
    for direction, peer, port in product(
        directions(token), token["peers"], token["ports"] or [None]
    ):
        match = ["-s" if direction == "in" else "-d", f"{peer['address']}/32"]
        if port is not None or action(token) == "reset":
            match += ["-p", "tcp", "-m", "tcp"]
        if port is not None:
            # clients connect to the node and never the other way: what they get comes from its port
            answers = direction == "out" and peer["name"] == CLIENTS
            match += ["--sport" if answers else "--dport", str(port)]
        chain, mark = CHAINS[direction][1], Mark(token["fault"], peer["name"], seen=False)
        yield chain, [*match, *_does(token, mark)]
        if share(token) < 1:
            yield chain, [*match, *_comment(mark._replace(seen=True))]


def _does(token: Token, mark: Mark) -> list[str]:
    if action(token) == "reset":
        return [*_NO_RESETS, *_comment(mark), *_RESET]
    if share(token) < 1:
        return [*_comment(mark), *_statistic(share(token)), *_DROP]
    return [*_comment(mark), *_DROP]


def _statistic(part: float) -> list[str]:
    return ["-m", "statistic", "--mode", "random", "--probability", f"{part:g}"]


def _comment(mark: Mark) -> list[str]:
    return ["-m", "comment", "--comment", str(mark)]


def standing(node: Node) -> dict[Mark, int]:
    """Our rules that stand at a node, with the packets that each (or its twins for other ports and
    directions) has matched. Raises HarnessFailure when they cannot be seen."""
    found: dict[Mark, int] = {}
    for line in must(node, ["iptables-save", "-c", "-t", "filter"]).splitlines():
        if match := re.match(r"\[(\d+):\d+\].*--comment \"?ackloss/([^\s\"]+)", line):
            fault, peer, *seen = match[2].split("/")
            mark = Mark(fault, peer, seen == [_SEEN])
            found[mark] = found.get(mark, 0) + int(match[1])
    return found


def counted(node: Node, fault: str) -> dict[str, int]:
    """Packets by peer that a fault's rules have acted upon."""
    return {m.peer: n for m, n in standing(node).items() if m.fault == fault and not m.seen}


def refused(node: Node, *, part: float = 1, reset: bool = False) -> str | None:
    """Null, or why the node's kernel takes no such rule: tried in a chain that no packet enters."""
    rule = ["-p", "tcp", "-m", "tcp", *_NO_RESETS, *_RESET] if reset else _DROP
    rule = [*_statistic(part), *rule] if part < 1 else rule
    made = node.admin(["iptables", "-w", "-N", _TRIAL])
    tried = made if made.exit_code else node.admin(["iptables", "-w", "-A", _TRIAL, *rule])
    node.admin(["iptables", "-w", "-F", _TRIAL])
    node.admin(["iptables", "-w", "-X", _TRIAL])
    if not tried.exit_code:
        return None
    return f"{node.name}: no such rule can be made: {tried.output.strip()[:200]}"
