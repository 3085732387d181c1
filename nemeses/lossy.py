"""A bad network that still works: lost packets, reset connections, low bandwidth, late packets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from harness.faults import links
from harness.faults.records import CLIENTS, NetRecord, Peer, ShapingRecord
from harness.protocols import CLIENT_ROLE, Act, Nemesis, Node, Select

_NETEM = ("delay_ms", "jitter_ms", "duplicate_share", "corrupt_share", "reorder_share")
_SHARE = 0.2


@dataclass(frozen=True, kw_only=True)
class Lossy(Nemesis):
    """Degrade the network of the chosen nodes. One form at a time; by default share = 0.2.

    share            drop this share of the packets, at random
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

    share: float | None = None
    reset: bool = False
    rate_kbit: int | None = None
    delay_ms: float | None = None
    jitter_ms: float | None = None
    duplicate_share: float | None = None
    corrupt_share: float | None = None
    reorder_share: float | None = None
    peers: str = "all"
    ports: tuple[int, ...] = ()
    direction: Literal["in", "out", "both"] = "both"

    def __post_init__(self) -> None:
        links.check_links(self.peers, self.ports)
        named = [self.share is not None, self.reset, self.rate_kbit is not None, bool(self._netem)]
        if sum(named) > 1:
            raise ValueError("one form at a time: share, reset, rate_kbit or delays and their like")
        if self.share is not None and not 0.01 <= self.share <= 0.99:
            raise ValueError("share is from 0.01 to 0.99: to drop all, use a partition")
        if self.rate_kbit is not None and not 64 <= self.rate_kbit <= 100_000:
            raise ValueError("rate_kbit is from 64 to 100000")
        self._check_netem()
        if self._shapes and (self.peers, self.ports, self.direction) != ("all", (), "both"):
            raise ValueError("only share and reset have peers, ports and direction: leave them out")

    def _check_netem(self) -> None:
        for name, value in self._netem.items():
            if name.endswith("_ms") and not 0 < value <= 10_000:
                raise ValueError(f"{name} is from above 0 to 10000")
            if name.endswith("_share") and not 0.01 <= value <= 1:
                raise ValueError(f"{name} is from 0.01 to 1")
        if self.delay_ms is None and (self.jitter_ms or self.reorder_share):
            raise ValueError("jitter_ms and reorder_share need delay_ms")

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
            peers = links.clients_by_node(nodes, select(f"role:{CLIENT_ROLE}"))
        else:
            found = select(self.peers)
            addresses = {peer.name: peer.address for peer in found}
            shape = links.isolate([node.name for node in nodes], [peer.name for peer in found])
            peers = links.peers_by_node(shape, addresses)
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
