"""Network partitions: packets between the chosen nodes and their peers are dropped at the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from harness.faults import links, selectors
from harness.faults.records import CLIENTS, NetRecord, Peer
from harness.protocols import CLIENT_ROLE, Act, Nemesis, Node, Select


@dataclass(frozen=True, kw_only=True)
class Partition(Nemesis):
    """Cut the chosen nodes from their peers; clients still reach them unless the option says so.

    form       isolate: each chosen node from all peers, so the chosen nodes from each other too;
               halves: the chosen nodes, which still see each other, from all other peers (a zone:
               `nodes = "rack:a"`; random ones: `minority`, `majority` or `one`);
               bridge: the other peers in two halves, the chosen node sees both;
               ring: every chosen node sees a majority of them, no two the same (`nodes = "all"`)
    groups     selectors, instead of a form: chosen nodes (`nodes = "all"`) see each other only
               where a group has both, a node of no group sees all
    peers      a selector of the nodes from which they are cut; or clients, wherever they are: then
               from nothing else. The observer is a client too, and learns nothing of a node that
               is cut from clients
    clients    cut them from clients too, wherever these are: what a zone that fails looks like to
               all others
    ports      drop only TCP to these ports; none: all traffic
    direction  in: drop what the peers send to the node (the first of two); out: what it sends to
               them; both
    """

    plugin: ClassVar[str] = "partition"

    form: Literal["isolate", "halves", "bridge", "ring"] = "isolate"
    groups: tuple[str, ...] = ()
    peers: str = "all"
    clients: bool = False
    ports: tuple[int, ...] = ()
    direction: Literal["in", "out", "both"] = "both"

    def __post_init__(self) -> None:
        links.check_links(self.peers, self.ports)
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
            cut = links.peers_by_node(self._grudge(nodes, select), addresses)
        if self._from_clients:
            clients = select(f"role:{CLIENT_ROLE}")
            if self.form != "isolate":  # clients among the chosen nodes are on their side
                clients = [client for client in clients if client not in nodes]
            for name, peers in links.clients_by_node(nodes, clients).items():
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

    def _grudge(self, nodes: Sequence[Node], select: Select) -> links.Grudge:
        chosen = [node.name for node in nodes]
        if self.groups:
            parts = [[node.name for node in select(group)] for group in self.groups]
            return links.groups([[name for name in part if name in chosen] for part in parts])
        if self.form == "ring":
            return links.ring(chosen)
        shape = {"isolate": links.isolate, "halves": links.halves, "bridge": links.bridge}
        return shape[self.form](chosen, [peer.name for peer in select(self.peers)])
