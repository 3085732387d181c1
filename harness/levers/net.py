"""The net lever: drops or resets packets at a node by rules of our own, counts them, and undoes it.

All rules are in two chains of ours, ACKLOSS-IN and ACKLOSS-OUT, of the node's own network. Where
the harness works through that network, their first rule lets its own connection pass. Each carries
a comment that names its fault, so the rules of one fault are found, counted and removed without
touching another's. The rules of the latest fault come first, so if faults overlap, each has counted
its own packets. Rules that are not ours are never changed.

What a rule does is the record's `action`: `drop` (all packets, or the `share` of them) or `reset`
(TCP is answered with a reset, other traffic passes). A share has a second rule beside the one that
drops, which only counts what passed by: so the share that was dropped is known.

A packet that the probe sent shows that a rule works, but not that anything was cut: `met` counts
the packets of the system alone. So each rule exists twice: for packets of the system, and for those
of the harness itself (`own`), with the same effect and a separate counter. Ours are TCP from or to
the ports of `harness.faults.own_traffic`, and all that is not TCP: echo requests. A packet matches
exactly one of the two, so their order does not matter. The probe sends an echo request without
ports; with ports, or where TCP is reset, it connects to the first port from the side whose request
the rules match. A refusal is an answer: the path is open.

Where connections to a port are redirected (`harness.levers.protocol`), the filter sees the proxy's
port: packets of the system are then known by the port to which their connection was begun. Our own
connections are not redirected.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import sqrt
from typing import ClassVar, Literal, NamedTuple, TypeVar

from harness.errors import HarnessFailure
from harness.faults.own_traffic import FIRST_PORT, LAST_PORT, own_connection, own_port, own_ports
from harness.faults.records import CLIENTS, NetRecord, Peer
from harness.levers.commands import must
from harness.levers.protocol import redirected
from harness.protocols import Lever, Node, Proof

# Clients as a node sees them: they run where ackloss does, and are not nodes of the cluster. The
# observer and the final reader are clients too: a fault that cuts off clients also blinds them. But
# their packets prove no fault: the observer sends from ports of `harness.faults.own_traffic`.


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


def connect(address: str, port: int, *, timeout_s: float) -> str:
    """Try a connection from where clients are: `passed`, `was refused` or `got no answer`."""
    try:
        own_connection(address, port, timeout_s=timeout_s).close()
    except ConnectionError:
        return "was refused"
    except OSError:
        return "got no answer"
    return "passed"


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
    whether it only counts."""

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


Direction = Literal["in", "out"]


def directions(record: NetRecord) -> list[Direction]:
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
    own = node.own_connection
    if own is None:
        return None
    end, port = ("-s", "--dport") if direction == "in" else ("-d", "--sport")
    mark = ["-m", "comment", "--comment", _EXEMPT]
    return [end, f"{own.peer}/32", *_TCP, port, str(own.port), *mark, "-j", "RETURN"]


def prepare(node: Node, direction: str) -> None:
    """Make our chain, with what exempts our own connection, and only then hook it in."""
    hook, chain = CHAINS[direction]
    node.admin(["iptables", "-w", "-N", chain])  # fails, as it should, when it exists
    exempt = exempting(node, direction)
    if exempt is not None and node.admin(["iptables", "-w", "-C", chain, *exempt]).exit_code:
        must(node, ["iptables", "-w", "-I", chain, *exempt])
    if node.admin(["iptables", "-w", "-C", hook, "-j", chain]).exit_code:
        must(node, ["iptables", "-w", "-I", hook, "-j", chain])


def dismantle(node: Node, direction: str) -> None:
    """Remove our chain if no fault's rule is left in it; what exempts our connection goes last."""
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
    place = ["2"] if node.own_connection is not None else []
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


def counted(node: Node) -> Counter[Mark]:
    """How many packets our rules have met, over all ports and directions."""
    packets = Counter[Mark]()
    for mark, met, _ in standing(node):
        packets[mark] += met
    return packets


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
        came = connect(node.address, port, timeout_s=_ANSWER_S)
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
        try_ = partial(connect, node.address, _port(record), timeout_s=_ANSWER_S)
        with ThreadPoolExecutor(max_workers=64) as pool:
            for each in [pool.submit(try_) for _ in range(_AT_ONCE)]:
                each.result()
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


T = TypeVar("T")

_HEALED_S = 25


@dataclass(frozen=True)
class NetLever(Lever[NetRecord]):
    """Drops or resets traffic between a node and named peers."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "net"

    def unavailable(self, node: Node, record: NetRecord) -> str | None:
        """If the kernel rejects such a rule, or the clients' address is not known."""
        if why := refused(node, part=record.share, reset=record.action == "reset"):
            return why
        if any(peer.name == CLIENTS for peer in record.peers):
            return why_no_clients(node)
        return None

    def capture_prior_state(self, record: NetRecord) -> NetRecord:
        """Adds the address from which the node sees this host's clients, if they are peers."""
        node = self.nodes[record.node]
        peers = tuple(
            replace(peer, address=node.clients_address) if peer.name == CLIENTS else peer
            for peer in record.peers
        )
        return replace(record, peers=peers)

    def apply(self, record: NetRecord) -> None:
        """Add the rules of the record, once. Raises HarnessFailure if they would cut us off."""
        node = self.nodes[record.node]
        refuse_gateway(node, self.nodes)
        for direction in directions(record):
            prepare(node, direction)
        add(node, record)

    def undo(self, record: NetRecord) -> None:
        node = self.nodes[record.node]
        remove(node, record)
        for direction in directions(record):
            dismantle(node, direction)

    def probe(self, record: NetRecord, *, applied: bool) -> Proof:
        """In force: packets of our own, sent from and to every peer, are dropped (all, or the
        share) or reset by our rules; `met` counts those of the system. Undone: no rule of this
        fault is left and packets pass again."""
        node = self.nodes[record.node]
        if not applied:
            return self._undone(node, record)
        if record.share < 1:
            return self._share_dropped(node, record)
        return self._in_force(node, record)

    def leftover_state(self, node: Node) -> list[str]:
        """Our rules and chains in the node's filter table; others that are there are not ours."""
        lines = node.admin(["iptables", "-w", "-S"]).output.splitlines()
        return [f"{node.name}: {rule}" for rule in lines if OURS in rule]

    def _in_force(self, node: Node, record: NetRecord) -> Proof:
        before = counted(node)
        tries = self._with_all(exchange, node, record)
        after = counted(node)
        proven, met, evidence = bool(tries), 0, []
        for peer, tried in zip(record.peers, tries, strict=True):
            system, own = (Mark(record.fault, peer.name, own=own) for own in (False, True))
            if record.action == "reset":  # a closed port refuses too: only our counter decides
                held = tried.came != "passed" and after[own] > before[own]
            else:
                held = not tried.answered and after[own] > 0
            proven, met = proven and held, met + after[system]
            done = {"drop": "dropped", "reset": "answered with a reset"}[record.action]
            counts = f"{_of_system(after[system], record, peer)} {done} by our rules"
            evidence.append(f"{node.name}: {counts}, and {after[own]:,} of our own; {tried}")
        return Proof(proven, evidence, met)

    def _share_dropped(self, node: Node, record: NetRecord) -> Proof:
        """The share that was dropped of all packets, against the share that was requested: chance
        may shift it by 4 standard deviations, and we also allow a twentieth of the share."""
        self._with_all(many, node, record)
        packets = counted(node)
        requested, proven, met, evidence = record.share, bool(record.peers), 0, []
        for peer in record.peers:
            system, own = (Mark(record.fault, peer.name, own=own) for own in (False, True))
            of_system = packets[system._replace(seen=True)]
            hit = packets[system] + packets[own]
            of = of_system + packets[own._replace(seen=True)]
            far = 4 * sqrt(requested * (1 - requested) / max(of, 1)) + requested / 20
            proven = proven and hit > 0 and abs(hit / max(of, 1) - requested) <= far
            met += packets[system]
            counts = _of_system(packets[system], record, peer, of=of_system)
            evidence.append(
                f"{node.name}: {counts} dropped by our rules; with our own {hit:,} of {of:,}, "
                f"{hit / max(of, 1):.1%} (requested {requested:.1%} ± {far:.1%})"
            )
        return Proof(proven, evidence, met)

    def _undone(self, node: Node, record: NetRecord) -> Proof:
        left = sum(rule.mark.fault == record.fault for rule in standing(node))
        proven, evidence = left == 0, []
        dropped = replace(record, action="drop")  # where TCP was reset, any answer will do
        tries = self._with_all(self._until_answered, node, dropped)
        for peer, tried in zip(record.peers, tries, strict=True):
            other = None if tried.answered else self._other_fault(node, peer.name)
            proven = proven and (tried.answered or other is not None)
            evidence.append(f"{tried}{f', still cut by {other}' if other else ''}")
        return Proof(
            proven, [f"{node.name}: {left} rules of this fault left; {'; '.join(evidence)}"]
        )

    def _until_answered(
        self, node: Node, peer_node: Node | None, peer: Peer, record: NetRecord
    ) -> Tried:
        """Try again for a while: what was lost is sent again first, and may keep a server busy."""
        deadline = time.monotonic() + _HEALED_S
        while True:
            tried = exchange(node, peer_node, peer, record)
            if tried.answered or time.monotonic() > deadline or self._other_fault(node, peer.name):
                return tried

    def _other_fault(self, node: Node, peer: str) -> str | None:
        """Another fault of ours between a node and a peer, if any."""
        other = self.nodes.get(peer)
        ends = [(node, peer), *([(other, node.name)] if other else [])]
        marks = ((rule.mark, there) for here, there in ends for rule in standing(here))
        return next((mark.fault for mark, there in marks if mark.peer == there), None)

    def _with_all(
        self, try_: Callable[[Node, Node | None, Peer, NetRecord], T], node: Node, record: NetRecord
    ) -> list[T]:
        """Try with every peer in parallel: a dropped packet costs a full timeout."""

        def with_peer(peer: Peer) -> T:
            return try_(node, self.nodes.get(peer.name), peer, record)

        with ThreadPoolExecutor(max_workers=max(1, len(record.peers))) as pool:
            return list(pool.map(with_peer, record.peers))


def _of_system(packets: int, record: NetRecord, peer: Peer, of: int | None = None) -> str:
    """Packets that the rules met, in words: clients send packets of the workload."""
    way = {"in": "from", "out": "to", "both": "from and to"}[record.direction]
    number = f"{packets:,}" if of is None else f"{packets:,} of {of:,}"
    if peer.name == CLIENTS:
        return f"{number} packets {way} the workload's clients"
    return f"{number} packets of the system {way} {peer.name}"
