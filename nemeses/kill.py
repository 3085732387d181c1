"""Process death: the target's process on the chosen nodes is killed and later started again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from harness.protocols import Act, Cluster, Node, Select


@dataclass(frozen=True, kw_only=True)
class Kill:
    """SIGKILL on the chosen nodes, all at once; healing starts their processes again.

    The page cache survives, as it does when a process dies and the machine stays up.
    """

    plugin: ClassVar[str] = "kill"

    def available(self, cluster: Cluster) -> str | None:
        """Null, or why no signal can be sent here."""
        for node in cluster.nodes.values():
            pid = node.pid()
            if pid is None or node.admin(["kill", "-0", str(pid)]).exit_code:
                return f"{node.name}: its process cannot be signalled"
        return None

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:  # noqa: ARG002
        """One act per node."""
        return [
            Act("process", {"node": node.name, "signal": "KILL", "pid": node.pid()})
            for node in nodes
        ]
