"""The rules of the net lever: how they are written, counted, and tried without being in force.

What a rule does is the record's `action`: `drop` (all packets, or the `share` of them) or `reset`
(TCP is answered with a reset, other traffic passes). A share has a second rule beside the one that
drops, which only counts what passed by: so the share that was dropped is known.

Each rule exists twice: for packets of the system, and for those of the harness itself (`own`), with
the same effect and a separate counter. Ours are TCP from or to the ports of
`harness.faults.own_traffic`, and all that is not TCP: echo requests. A packet matches exactly one
of the two, so their order does not matter.

Where connections to a port are redirected (`harness.levers.redirect`), the filter sees the proxy's
port: packets of the system are then known by the port to which their connection was begun. Our own
connections are not redirected.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from harness.faults.own_traffic import FIRST_PORT, LAST_PORT
from harness.faults.records import CLIENTS, NetRecord
from harness.levers.commands import must
from harness.levers.redirect import redirected
from harness.protocols import Node, OwnConnection, ReachedByNetwork

OURS = "ACKLOSS-"
"""How the names of our chains begin."""
CHAINS = {"in": ("INPUT", "ACKLOSS-IN"), "out": ("OUTPUT", "ACKLOSS-OUT")}
_TRIAL = "ACKLOSS-TRIAL"
_OWN, _SEEN = "own", "seen"
_EXEMPT = "ackloss:exempt"
"""The comment of the rule for our own connection: not of the form of a fault's mark."""
_DROP = ["-j", "DROP"]
# Resets themselves pass: else the other direction's rule would drop what this one answers.
_RESET = ["-j", "REJECT", "--reject-with", "tcp-reset"]
_NO_RESETS = ["!", "--tcp-flags", "RST", "RST"]
_PORTS = f"{FIRST_PORT}:{LAST_PORT}"
_TCP = ["-p", "tcp", "-m", "tcp"]
_RESTORE = 'printf "%s\\n" "*filter" "$@" COMMIT | iptables-restore -w -n'
"""Adds or removes rules at one instant: a fault that begins link by link is another fault."""


class Mark(NamedTuple):
    """The comment of a rule: its fault, the peer, whether it is for packets of the harness, and
    whether it only counts. Rules of older versions had no `own`, and met every packet."""

    fault: str
    peer: str
    own: bool = False
    seen: bool = False

    def __str__(self) -> str:
        kinds = [*([_OWN] if self.own else []), *([_SEEN] if self.seen else [])]
        return "/".join(["ackloss", self.fault, self.peer, *kinds])


class Standing(NamedTuple):
    """One of our rules on a node, as `iptables -A` would add it again."""

    mark: Mark
    packets: int
    rule: str


@dataclass(frozen=True, kw_only=True)
class Met:
    """Packets on which a fault's rules for one peer acted, and, if a share is dropped, packets that
    passed by: of the system, and of the harness itself."""

    system: int = 0
    own: int = 0
    system_seen: int = 0
    own_seen: int = 0


def directions(record: NetRecord) -> list[str]:
    """The directions that a record names: in, out, or both."""
    return ["in", "out"] if record.direction == "both" else [record.direction]


def rules(record: NetRecord, elsewhere: Collection[int] = ()) -> Iterator[tuple[str, list[str]]]:
    """Chain and rule, without the verb, for every peer, port and direction. Each is inserted before
    the earlier ones, so the rule that counts is the first to see a packet. `elsewhere`: the ports
    of the node at which something else listens for them."""
    ports: Sequence[int | None] = record.ports or [None]
    for direction, peer, port in product(directions(record), record.peers, ports):
        ends = ["-s" if direction == "in" else "-d", f"{peer.address}/32"]
        chain, mark = CHAINS[direction][1], Mark(record.fault, peer.name)
        # clients connect to the node and never the other way: answers come from the node's port
        answers = direction == "out" and peer.name == CLIENTS
        here = port in elsewhere and (direction == "in" or answers)
        for match, own in _matches(record, port, answers=answers, redirected=here):
            kind = mark._replace(own=own)
            yield chain, [*ends, *match, *_does(record, kind)]
            if record.share < 1:
                yield chain, [*ends, *match, *_comment(kind._replace(seen=True))]


def _matches(
    record: NetRecord, port: int | None, *, answers: bool, redirected: bool
) -> Iterator[tuple[list[str], bool]]:
    """The packets that are matched, and whether they are our own."""
    if port is not None:
        here, there = ("--sport", "--dport") if answers else ("--dport", "--sport")
        if redirected:
            way = "REPLY" if answers else "ORIGINAL"
            begun = ["-m", "conntrack", "--ctorigdstport", str(port), "--ctdir", way]
            yield [*_TCP, "!", there, _PORTS, *begun], False
        else:
            yield [*_TCP, here, str(port), "!", there, _PORTS], False
        yield [*_TCP, here, str(port), there, _PORTS], True
        return
    yield [*_TCP, "!", "--sport", _PORTS, "!", "--dport", _PORTS], False
    yield [*_TCP, "--sport", _PORTS], True
    yield [*_TCP, "!", "--sport", _PORTS, "--dport", _PORTS], True
    if record.action != "reset":
        yield ["!", "-p", "tcp"], True


def _does(record: NetRecord, mark: Mark) -> list[str]:
    if record.action == "reset":
        return [*_NO_RESETS, *_comment(mark), *_RESET]
    if record.share < 1:
        return [*_comment(mark), *_statistic(record.share), *_DROP]
    return [*_comment(mark), *_DROP]


def _statistic(part: float) -> list[str]:
    return ["-m", "statistic", "--mode", "random", "--probability", f"{part:g}"]


def _comment(mark: Mark) -> list[str]:
    return ["-m", "comment", "--comment", str(mark)]


def exempting(node: Node, direction: str) -> list[str] | None:
    """The rule that lets our own connection to a node pass, before any that drops; None where the
    harness does not work through the network that it cuts."""
    if not isinstance(node, ReachedByNetwork):
        return None
    own: OwnConnection = node.own_connection
    end, port = ("-s", "--dport") if direction == "in" else ("-d", "--sport")
    mark = ["-m", "comment", "--comment", _EXEMPT]
    return [end, f"{own.peer}/32", *_TCP, port, str(own.port), *mark, "-j", "RETURN"]


def prepare(node: Node, direction: str) -> None:
    """Make our chain and hook it in, with what exempts our own connection in it before any packet
    goes through it."""
    hook, chain = CHAINS[direction]
    node.admin(["iptables", "-w", "-N", chain])  # fails, as it should, when it exists
    exempt = exempting(node, direction)
    if exempt is not None and node.admin(["iptables", "-w", "-C", chain, *exempt]).exit_code:
        must(node, ["iptables", "-w", "-I", chain, *exempt])
    if node.admin(["iptables", "-w", "-C", hook, "-j", chain]).exit_code:
        must(node, ["iptables", "-w", "-I", hook, "-j", chain])


def dismantle(node: Node, direction: str) -> None:
    """Remove our chain if no rule of a fault is left in it; what exempts our own connection goes
    last."""
    hook, chain = CHAINS[direction]
    left = node.admin(["iptables", "-w", "-S", chain])
    rules_left = [line for line in left.output.splitlines() if line.startswith("-A ")]
    if left.exit_code or any(_EXEMPT not in line for line in rules_left):
        return
    node.admin(["iptables", "-w", "-D", hook, "-j", chain])
    node.admin(["iptables", "-w", "-F", chain])
    node.admin(["iptables", "-w", "-X", chain])


def add(node: Node, record: NetRecord) -> None:
    """Add the rules of a record, all at one instant, after the one that exempts our own connection;
    nothing if they already exist."""
    peers = {peer.name for peer in record.peers}
    if any(mark.fault == record.fault and mark.peer in peers for mark, _, _ in standing(node)):
        return
    place = ["2"] if isinstance(node, ReachedByNetwork) else []
    elsewhere = redirected(node) if record.ports else ()
    lines = [" ".join(["-I", chain, *place, *rule]) for chain, rule in rules(record, elsewhere)]
    must(node, ["sh", "-c", _RESTORE, "rules", *lines])


def remove(node: Node, record: NetRecord) -> None:
    """Remove every rule of the record's fault and peers, as it stands, whichever version of ackloss
    has written it. Raises HarnessFailure when they cannot be removed."""
    peers = {peer.name for peer in record.peers}
    lines = [
        rule.replace("-A", "-D", 1)
        for mark, _, rule in standing(node)
        if mark.fault == record.fault and mark.peer in peers
    ]
    if lines:
        must(node, ["sh", "-c", _RESTORE, "rules", *lines])


def standing(node: Node) -> list[Standing]:
    """Our rules on a node. Raises HarnessFailure if they cannot be read."""
    found = []
    for line in must(node, ["iptables-save", "-c", "-t", "filter"]).splitlines():
        if match := re.match(r"\[(\d+):\d+\] (.*--comment \"?ackloss/([^\s\"]+).*)", line):
            fault, peer, *kinds = match[3].split("/")
            mark = Mark(fault, peer, own=_OWN in kinds, seen=_SEEN in kinds)
            found.append(Standing(mark, int(match[1]), match[2]))
    return found


def counted(node: Node, fault: str) -> dict[str, Met]:
    """What a fault's rules have met by peer, over all ports and directions."""
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
    """None, or why the kernel rejects such a rule: tried in a chain that no packet enters."""
    rule = [*_TCP, *_NO_RESETS, *_RESET] if reset else _DROP
    rule = [*_statistic(part), *rule] if part < 1 else rule
    made = node.admin(["iptables", "-w", "-N", _TRIAL])
    tried = made if made.exit_code else node.admin(["iptables", "-w", "-A", _TRIAL, *rule])
    node.admin(["iptables", "-w", "-F", _TRIAL])
    node.admin(["iptables", "-w", "-X", _TRIAL])
    if not tried.exit_code:
        return None
    return f"{node.name}: the rule cannot be made: {tried.output.strip()[:200]}"
