"""Network partitions: packets between the chosen nodes and their peers are dropped at the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from harness.faults import grudges, links, selectors
from harness.faults.records import CLIENTS, Peer
from harness.protocols import CLIENT_ROLE, Act, HasSelectors, Nemesis, Node, Select


@dataclass(frozen=True, kw_only=True)
class Partition(Nemesis, HasSelectors):
    """Cut the chosen nodes from their peers; clients still reach them, unless they are the peers.

    form       isolate: each chosen node from all peers, so the chosen nodes from each other too;
               halves: the chosen nodes on one side, all other peers on the other (with `minority`,
               `majority` or `one` as `nodes`, random ones);
               bridge: the other peers in two halves, the chosen node sees both;
               ring: every chosen node sees a majority of them, no two the same (`nodes = "all"`)
    groups     selectors, instead of a form: chosen nodes (`nodes = "all"`) see each other only
               where a group has both, a node of no group sees all
    peers      a selector of the nodes from which they are cut; or clients, wherever they are. The
               observer is a client too, and learns nothing of a node that is cut from clients
    ports      drop only TCP to these ports; none: all traffic
    direction  in: drop what the peers send to the node (the first of two); out: what it sends to
               them; both
    """

    plugin: ClassVar[str] = "partition"

    form: Literal["isolate", "halves", "bridge", "ring"] = "isolate"
    groups: tuple[str, ...] = ()
    peers: str = "all"
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
        """Packets that can be dropped."""
        peers = [Peer(name=CLIENTS)] if self.peers == CLIENTS else []
        return [self._cut(node, peers)]

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:
        """One act per node that is cut off from any other: its rules against all of those."""
        if self.peers == CLIENTS:
            peers = links.clients_by_node(nodes, select(f"role:{CLIENT_ROLE}"))
        else:
            addresses = {node.name: node.address for node in [*nodes, *select(self.peers)]}
            peers = links.peers_by_node(self._grudge(nodes, select), addresses)
        return [self._cut(node, cut_off) for node, cut_off in peers.items()]

    def _cut(self, node: str, peers: Sequence[Peer]) -> Act:
        return Act("net", links.net_record(node, peers, ports=self.ports, direction=self.direction))

    def _grudge(self, nodes: Sequence[Node], select: Select) -> grudges.Grudge:
        chosen = [node.name for node in nodes]
        if self.groups:
            parts = [[node.name for node in select(group)] for group in self.groups]
            return grudges.groups([[name for name in part if name in chosen] for part in parts])
        if self.form == "ring":
            return grudges.ring(chosen)
        shape = {"isolate": grudges.isolate, "halves": grudges.halves, "bridge": grudges.bridge}
        return shape[self.form](chosen, [peer.name for peer in select(self.peers)])
