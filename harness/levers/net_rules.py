"""The rules of the net lever: how they are written, counted, and tried without being in force.

What a rule does is the token's `action`: `drop` (all, or the `share` of packets that it names) or
`reset` (TCP is answered with a reset, other traffic passes). A share has a second rule beside the
one that drops, which only counts what came by: so the share that was dropped can be told.

Each of these stands twice: for packets of the system, and for those of the harness itself (`own`),
which do the same and count apart. Ours are TCP from or to the ports of `harness.faults.own_traffic`
and all that is not TCP: echo requests. A packet matches one of the two and never both, so their
order means nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from harness.faults.own_traffic import FIRST_PORT, LAST_PORT
from harness.levers.clients import CLIENTS
from harness.levers.commands import must
from harness.protocols import Node, Token

CHAINS = {"in": ("INPUT", "ACKLOSS-IN"), "out": ("OUTPUT", "ACKLOSS-OUT")}
_TRIAL = "ACKLOSS-TRIAL"
_OWN, _SEEN = "own", "seen"
_DROP = ["-j", "DROP"]
# Resets themselves pass: else the other direction's rule would drop what this one answers.
_RESET = ["-j", "REJECT", "--reject-with", "tcp-reset"]
_NO_RESETS = ["!", "--tcp-flags", "RST", "RST"]
_PORTS = f"{FIRST_PORT}:{LAST_PORT}"
_TCP = ["-p", "tcp", "-m", "tcp"]
_RESTORE = 'printf "%s\\n" "*filter" "$@" COMMIT | iptables-restore -w -n'
"""Rules that are added or removed at one instant: a fault that begins link by link is another."""


class Mark(NamedTuple):
    """What a rule's comment says: its fault, the peer, whether it is for packets of the harness,
    and whether it only counts. Rules of older versions had no `own`, and met every packet."""

    fault: str
    peer: str
    own: bool = False
    seen: bool = False

    def __str__(self) -> str:
        kinds = [*([_OWN] if self.own else []), *([_SEEN] if self.seen else [])]
        return "/".join(["ackloss", self.fault, self.peer, *kinds])


class Standing(NamedTuple):
    """A rule of ours that stands at a node: as `iptables -A` would add it again."""

    mark: Mark
    packets: int
    rule: str


@dataclass(frozen=True, kw_only=True)
class Met:
    """Packets that a fault's rules for one peer acted upon, and that came by where a share is
    dropped: of the system, and of the harness itself."""

    system: int = 0
    own: int = 0
    system_seen: int = 0
    own_seen: int = 0


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
        ends = ["-s" if direction == "in" else "-d", f"{peer['address']}/32"]
        chain, mark = CHAINS[direction][1], Mark(token["fault"], peer["name"])
        # clients connect to the node and never the other way: what they get comes from its port
        answers = direction == "out" and peer["name"] == CLIENTS
        for match, own in _matches(token, port, answers=answers):
            kind = mark._replace(own=own)
            yield chain, [*ends, *match, *_does(token, kind)]
            if share(token) < 1:
                yield chain, [*ends, *match, *_comment(kind._replace(seen=True))]


def _matches(token: Token, port: int | None, *, answers: bool) -> Iterator[tuple[list[str], bool]]:
    """Which packets, and whether they are our own."""
    if port is not None:
        here, there = ("--sport", "--dport") if answers else ("--dport", "--sport")
        yield [*_TCP, here, str(port), "!", there, _PORTS], False
        yield [*_TCP, here, str(port), there, _PORTS], True
        return
    yield [*_TCP, "!", "--sport", _PORTS, "!", "--dport", _PORTS], False
    yield [*_TCP, "--sport", _PORTS], True
    yield [*_TCP, "!", "--sport", _PORTS, "--dport", _PORTS], True
    if action(token) != "reset":
        yield ["!", "-p", "tcp"], True


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


def add(node: Node, token: Token) -> None:
    """Add the token's rules, all at one instant; nothing when they stand already."""
    peers = {peer["name"] for peer in token["peers"]}
    if any(mark.fault == token["fault"] and mark.peer in peers for mark, _, _ in standing(node)):
        return
    lines = [" ".join(["-I", chain, *rule]) for chain, rule in rules(token)]
    must(node, ["sh", "-c", _RESTORE, "rules", *lines])


def remove(node: Node, token: Token) -> None:
    """Remove every rule of the token's fault and peers, as it stands, whatever version of ours has
    written it. Raises HarnessFailure when they cannot be removed."""
    peers = {peer["name"] for peer in token["peers"]}
    lines = [
        rule.replace("-A", "-D", 1)
        for mark, _, rule in standing(node)
        if mark.fault == token["fault"] and mark.peer in peers
    ]
    if lines:
        must(node, ["sh", "-c", _RESTORE, "rules", *lines])


def standing(node: Node) -> list[Standing]:
    """Our rules that stand at a node. Raises HarnessFailure when they cannot be seen."""
    found = []
    for line in must(node, ["iptables-save", "-c", "-t", "filter"]).splitlines():
        if match := re.match(r"\[(\d+):\d+\] (.*--comment \"?ackloss/([^\s\"]+).*)", line):
            fault, peer, *kinds = match[3].split("/")
            mark = Mark(fault, peer, own=_OWN in kinds, seen=_SEEN in kinds)
            found.append(Standing(mark, int(match[1]), match[2]))
    return found


def counted(node: Node, fault: str) -> dict[str, Met]:
    """What a fault's rules have met, by peer: over all ports and directions."""
    packets: dict[Mark, int] = {}
    for mark, met, _ in standing(node):
        packets[mark] = packets.get(mark, 0) + met
    return {
        peer: Met(
            system=packets.get(Mark(fault, peer), 0),
            own=packets.get(Mark(fault, peer, own=True), 0),
            system_seen=packets.get(Mark(fault, peer, seen=True), 0),
            own_seen=packets.get(Mark(fault, peer, own=True, seen=True), 0),
        )
        for peer in {mark.peer for mark in packets if mark.fault == fault}
    }


def refused(node: Node, *, part: float = 1, reset: bool = False) -> str | None:
    """Null, or why the node's kernel takes no such rule: tried in a chain that no packet enters."""
    rule = [*_TCP, *_NO_RESETS, *_RESET] if reset else _DROP
    rule = [*_statistic(part), *rule] if part < 1 else rule
    made = node.admin(["iptables", "-w", "-N", _TRIAL])
    tried = made if made.exit_code else node.admin(["iptables", "-w", "-A", _TRIAL, *rule])
    node.admin(["iptables", "-w", "-F", _TRIAL])
    node.admin(["iptables", "-w", "-X", _TRIAL])
    if not tried.exit_code:
        return None
    return f"{node.name}: no such rule can be made: {tried.output.strip()[:200]}"
