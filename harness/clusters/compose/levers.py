"""The levers over containers of the user's: those of the core, and what they refuse there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.clusters.compose.node import ComposeNode, Limits
from harness.faults.records import (
    CLIENTS,
    NetRecord,
    PauseRecord,
    ProcessRecord,
    ShapingRecord,
    StressRecord,
)
from harness.levers.net import NetLever
from harness.levers.pause import PauseLever
from harness.levers.process import ProcessLever
from harness.levers.shaping import ShapingLever
from harness.levers.stress import StressLever
from harness.protocols import Lever, Node

_DATA: Final = "the data of a container of yours are not touched"
WHY_NOT: Final[Mapping[str, str]] = {
    "clock": "the processes of a project of yours were not started with libfaketime",
    "power": "the disks of a project of yours cannot lose power: they are not ackloss' own",
    "disk": _DATA,
    "read-only": _DATA,
    "full": _DATA,
}
"""The levers that there are not, each with the reason."""


def _limit(node: Node, of: Callable[[Limits], str | None]) -> str | None:
    why = of(node.limits) if isinstance(node, ComposeNode) else None
    return f"{node.name} {why}" if why else None


@dataclass(frozen=True)
class _Net(NetLever):
    def unavailable(self, node: Node, record: NetRecord) -> str | None:
        """Also where a cut would leave a path, or it would be unknown what was cut."""
        if any(peer.name == CLIENTS for peer in record.peers):
            return (
                f"{node.name} is reached through Docker's port forwarding, where the workload's "
                "packets cannot be distinguished from the observer's"
            )
        return _limit(node, lambda limits: limits.cut) or super().unavailable(node, record)

    def _other_fault(self, node: Node, peer: str) -> str | None:
        """Also that the peer's network ended with its container."""
        other = self.nodes.get(peer)
        if other is not None and not other.process().running:
            return f"the end of {peer}"
        return super()._other_fault(node, peer)


@dataclass(frozen=True)
class _Shaping(ShapingLever):
    def unavailable(self, node: Node, record: ShapingRecord) -> str | None:
        """Also where it sends by several devices."""
        return _limit(node, lambda limits: limits.shape) or super().unavailable(node, record)


@dataclass(frozen=True)
class _Process(ProcessLever):
    def unavailable(self, node: Node, record: ProcessRecord) -> str | None:
        """Also where the container would be gone with its process."""
        return _limit(node, lambda limits: limits.kill) or super().unavailable(node, record)


@dataclass(frozen=True)
class _Pause(PauseLever):
    def unavailable(self, node: Node, record: PauseRecord) -> str | None:
        """Also where it is not known which process is the system's."""
        if isinstance(node, ComposeNode) and node.several():
            return f"{node.name} has several processes in its container: which is the system?"
        return super().unavailable(node, record)


@dataclass(frozen=True)
class _Stress(StressLever):
    def unavailable(self, node: Node, record: StressRecord) -> str | None:
        """Also where memory that is held would be the machine's."""
        why = _limit(node, lambda limits: limits.memory) if record.memory_mb else None
        return why or super().unavailable(node, record)


def levers_over(nodes: Mapping[str, Node]) -> dict[str, Lever[Any]]:
    """Every lever that there is over these nodes, by name."""
    levers: list[Lever[Any]] = [
        _Net(nodes),
        _Shaping(nodes),
        _Process(nodes),
        _Pause(nodes),
        _Stress(nodes),
    ]
    return {lever.name: lever for lever in levers}
