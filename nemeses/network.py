"""Faults of the network: partitions, where packets between the chosen nodes and their peers are
dropped at the nodes, and a bad network that still works (lost packets, reset connections, low
bandwidth, late packets).

Which links are cut are pure functions of names, after Jepsen. A *grudge* lists for each node the
nodes from which it is cut. Every cut link is in it once, at the node that is named first, so a
one-way cut has a direction: `in` at that node means that it receives nothing from the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from harness.faults import selectors
from harness.faults.records import CLIENTS, NetRecord, Peer, ShapingRecord
from harness.protocols import CLIENT_ROLE, Act, Nemesis, Node, Select

Port = Annotated[int, Field(gt=0, lt=65_536)]
Delay = Annotated[float, Field(gt=0, le=10_000)]
Share = Annotated[float, Field(ge=0.01, le=1)]

Grudge = dict[str, list[str]]


def isolate(nodes: Sequence[str], peers: Sequence[str]) -> Grudge:
    """Each node is cut from all peers but itself: nodes that are peers are alone."""
    return {node: [peer for peer in peers if peer != node] for node in nodes}


def groups(parts: Sequence[Sequence[str]]) -> Grudge:
    """Nodes see each other only where a group has both; a node of two groups sees both groups."""
    members = list(dict.fromkeys(node for part in parts for node in part))
    grudge: Grudge = {node: [] for node in members}
    for first, second in combinations(members, 2):
        if not any(first in part and second in part for part in parts):
            grudge[first].append(second)
    return grudge


def halves(nodes: Sequence[str], peers: Sequence[str]) -> Grudge:
    """The nodes on one side, all other peers on the other."""
    return groups([nodes, [peer for peer in peers if peer not in nodes]])


def bridge(middle: Sequence[str], peers: Sequence[str]) -> Grudge:
    """Two halves that see nothing of each other, and `middle`, which sees both. Peers alternate
    between the halves, so that roles that follow each other in the cluster are in both."""
    others = [peer for peer in peers if peer not in middle]
    return groups([[*middle, *others[0::2]], [*middle, *others[1::2]]])


def ring(nodes: Sequence[str]) -> Grudge:
    """Majorities ring: every node sees a majority, and no two nodes see the same one.

    Each sees its nearest neighbours on both sides of a ring, so an even majority is exceeded by
    one. Three nodes have no such ring (each is a neighbour of both others): there it is a path.
    """
    if len(nodes) == 3:
        return groups([nodes[:2], nodes[1:]])
    reach = (len(nodes) // 2 + 1) // 2
    grudge: Grudge = {node: [] for node in nodes}
    for (i, first), (j, second) in combinations(enumerate(nodes), 2):
        if min(j - i, len(nodes) - (j - i)) > reach:
            grudge[first].append(second)
    return grudge


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


@dataclass(frozen=True, kw_only=True)
class Partition(Nemesis):
    """Cut the chosen nodes from their peers; clients still reach them unless the option says so.

    form       isolate: each chosen node from all peers, so the chosen nodes from each other too;
               halves: the chosen nodes, which still see each other, from all other peers;
               bridge: the other peers in two halves, the chosen node sees both;
               ring: every chosen node sees a majority of them, no two the same (`nodes = "all"`)
    groups     selectors, instead of a form: chosen nodes (`nodes = "all"`) see each other only
               where a group has both; a node of no group sees all
    peers      a selector of the nodes from which they are cut; or clients, and nothing else. The
               observer is a client too, and learns nothing of a node that is cut from clients
    clients    cut them from clients too: what a zone that fails looks like to all others
    ports      drop only TCP to these ports; none: all traffic
    direction  in: drop what the peers send to the node (the first of two); out: what it sends to
               them; both
    """

    plugin: ClassVar[str] = "partition"

    form: Literal["isolate", "halves", "bridge", "ring"] = "isolate"
    groups: tuple[str, ...] = ()
    peers: str = "all"
    clients: bool = False
    ports: tuple[Port, ...] = ()
    direction: Literal["in", "out", "both"] = "both"

    def __post_init__(self) -> None:
        if self.peers != CLIENTS:
            selectors.check_grammar(self.peers, key="peers")
        for group in self.groups:
            selectors.check_grammar(group, key="groups")
        if len(self.groups) == 1:
            raise ValueError("a single group cuts nothing: name two or more")
        if self.groups and (self.form != "isolate" or self.peers != "all"):
            raise ValueError("groups define the cut links: leave out form and peers")
        if self.form == "ring" and self.peers != "all":
            raise ValueError("a ring consists of the chosen nodes: leave out peers")
        if self.peers == CLIENTS and self.form != "isolate":
            raise ValueError("clients can be cut only by form isolate")

    @property
    def selectors(self) -> dict[str, str]:
        """The peers, unless they are clients, and the groups."""
        named = {} if self.peers == CLIENTS else {"peers": self.peers}
        return named | {f"groups.{place}": group for place, group in enumerate(self.groups)}

    def requires(self, node: str) -> list[Act]:
        return [self._cut(node, [Peer(name=CLIENTS)] if self._from_clients else [])]

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:
        """One act per node that is cut off from any other: its rules against all of those."""
        cut: dict[str, list[Peer]] = {}
        if self.peers != CLIENTS:
            addresses = {node.name: node.address for node in [*nodes, *select(self.peers)]}
            cut = peers_by_node(self._grudge(nodes, select), addresses)
        if self._from_clients:
            clients = select(f"role:{CLIENT_ROLE}")
            if self.form != "isolate":  # clients among the chosen nodes are on their side
                clients = [client for client in clients if client not in nodes]
            for name, peers in clients_by_node(nodes, clients).items():
                cut[name] = list(dict.fromkeys([*cut.get(name, []), *peers]))
        return [self._cut(node, cut_off) for node, cut_off in cut.items()]

    def warnings(self, nodes: Sequence[Node], select: Select) -> list[str]:
        """Isolated nodes of one rack are cut from each other, as when no zone fails."""
        if self.form != "isolate" or self.groups or self.peers == CLIENTS:
            return []
        racks = {node.name: {r for r in node.roles if r.startswith("rack:")} for node in nodes}
        cut = self._grudge(nodes, select).items()
        links = ((node, peer) for node, peers in cut for peer in peers if peer in racks)
        torn = sorted({rack for node, peer in links for rack in racks[node] & racks[peer]})
        if not torn:
            return []
        return [
            f"form isolate also cuts the nodes of {', '.join(torn)} from each other, which is not "
            'what a failed zone looks like: form = "halves", with clients = true, is'
        ]

    @property
    def _from_clients(self) -> bool:
        return self.clients or self.peers == CLIENTS

    def _cut(self, node: str, peers: Sequence[Peer]) -> Act:
        record = NetRecord(
            node=node, peers=tuple(peers), ports=self.ports, direction=self.direction
        )
        return Act("net", record)

    def _grudge(self, nodes: Sequence[Node], select: Select) -> Grudge:
        chosen = [node.name for node in nodes]
        if self.groups:
            parts = [[node.name for node in select(group)] for group in self.groups]
            return groups([[name for name in part if name in chosen] for part in parts])
        if self.form == "ring":
            return ring(chosen)
        shape = {"isolate": isolate, "halves": halves, "bridge": bridge}
        return shape[self.form](chosen, [peer.name for peer in select(self.peers)])


_NETEM = ("delay_ms", "jitter_ms", "duplicate_share", "corrupt_share", "reorder_share")
_SHARE = 0.2


@dataclass(frozen=True, kw_only=True)
class Lossy(Nemesis):
    """Degrade the network of the chosen nodes. One form at a time; by default share = 0.2.

    share            drop this share of the packets, at random; to drop all, use a partition
    reset            answer TCP with resets: connections break, new ones are refused
    rate_kbit        limit what the node sends, to all destinations
    delay_ms         delay what it sends, to all destinations, by this much ...
    jitter_ms        ... plus or minus this (where the kernel has netem, as for the next three)
    duplicate_share  send this share of packets twice, from 0.01, as for the next two
    corrupt_share    flip a bit in this share of packets
    reorder_share    send this share of packets immediately, ahead of the delayed ones
    peers            share and reset only: the other end, a selector or clients
    ports            share and reset only: TCP to these ports; none: all traffic
    direction        share and reset only: in, out or both, as seen from the node
    """

    plugin: ClassVar[str] = "lossy"

    share: Annotated[float, Field(ge=0.01, le=0.99)] | None = None
    reset: bool = False
    rate_kbit: Annotated[int, Field(ge=64, le=100_000)] | None = None
    delay_ms: Delay | None = None
    jitter_ms: Delay | None = None
    duplicate_share: Share | None = None
    corrupt_share: Share | None = None
    reorder_share: Share | None = None
    peers: str = "all"
    ports: tuple[Port, ...] = ()
    direction: Literal["in", "out", "both"] = "both"

    def __post_init__(self) -> None:
        if self.peers != CLIENTS:
            selectors.check_grammar(self.peers, key="peers")
        named = [self.share is not None, self.reset, self.rate_kbit is not None, bool(self._netem)]
        if sum(named) > 1:
            raise ValueError("one form at a time: share, reset, rate_kbit or delays and their like")
        if self.delay_ms is None and (self.jitter_ms or self.reorder_share):
            raise ValueError("jitter_ms and reorder_share need delay_ms")
        if self._shapes and (self.peers, self.ports, self.direction) != ("all", (), "both"):
            raise ValueError("only share and reset have peers, ports and direction: leave them out")

    @property
    def _netem(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in _NETEM}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def _shapes(self) -> bool:
        return self.rate_kbit is not None or bool(self._netem)

    @property
    def selectors(self) -> dict[str, str]:
        return {} if self.peers == CLIENTS else {"peers": self.peers}

    def requires(self, node: str) -> list[Act]:
        """A kernel that can shape what a node sends, or drop or reset packets."""
        if self._shapes:
            return [Act("shaping", self._shape(node))]
        peers = [Peer(name=CLIENTS)] if self.peers == CLIENTS else []
        return [Act("net", self._record(node, peers))]

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:
        if self._shapes:
            return [Act("shaping", self._shape(node.name)) for node in nodes]
        if self.peers == CLIENTS:
            peers = clients_by_node(nodes, select(f"role:{CLIENT_ROLE}"))
        else:
            found = select(self.peers)
            addresses = {peer.name: peer.address for peer in found}
            shape = isolate([node.name for node in nodes], [peer.name for peer in found])
            peers = peers_by_node(shape, addresses)
        return [Act("net", self._record(name, worse)) for name, worse in peers.items()]

    def _shape(self, node: str) -> ShapingRecord:
        """What one node sends is limited, or goes through netem."""
        if not self._netem:
            return ShapingRecord(node=node, kind="tbf", rate_kbit=self.rate_kbit or 0)
        return ShapingRecord(node=node, kind="netem", **self._netem)

    def _record(self, node: str, peers: Sequence[Peer]) -> NetRecord:
        """The rules of one node: a share is dropped, or TCP is reset."""
        return NetRecord(
            node=node,
            peers=tuple(peers),
            ports=self.ports,
            direction=self.direction,
            action="reset" if self.reset else "drop",
            share=1.0 if self.reset else self.share or _SHARE,
        )
