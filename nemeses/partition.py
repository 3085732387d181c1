"""Network partitions: packets between the chosen nodes and their peers are dropped at the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from harness import selectors
from harness.protocols import Act, Cluster, Node, Select


@dataclass(frozen=True, kw_only=True)
class Partition:
    """Cut the chosen nodes from their peers; clients are not peers and still reach them.

    peers      a selector: the nodes they are cut from (themselves left out)
    ports      drop only TCP to these ports; none: all traffic
    direction  in: what peers send to the node; out: what it sends to them; both
    """

    plugin: ClassVar[str] = "partition"

    peers: str = "all"
    ports: tuple[int, ...] = ()
    direction: Literal["in", "out", "both"] = "both"

    def __post_init__(self) -> None:
        selectors.check(self.peers, key="peers")
        for port in self.ports:
            if not 0 < port < 65536:
                raise ValueError(f"{port} is no TCP port")

    def available(self, cluster: Cluster) -> str | None:
        """Null, or why no packets can be dropped here."""
        for node in cluster.nodes.values():
            answer = node.admin(["iptables", "-w", "-S", "INPUT"])
            if answer.exit_code:
                return f"{node.name} has no working iptables: {answer.output.strip()[:200]}"
        return None

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:
        """One act per node: its rules against all its peers."""
        peers = [{"name": peer.name, "address": peer.address} for peer in select(self.peers)]
        return [
            Act(
                "net",
                {
                    "node": node.name,
                    "peers": [peer for peer in peers if peer["name"] != node.name],
                    "ports": list(self.ports),
                    "direction": self.direction,
                },
            )
            for node in nodes
        ]
