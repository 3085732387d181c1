"""The pause and the process lever of simulated nodes; see the real ones for their undo records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.clusters.memory.cluster import MemoryCluster
from harness.clusters.memory.node import EXIT_CODES, MemoryNode
from harness.protocols import Node, Proof, Token


@dataclass(frozen=True)
class MemoryPauseLever:
    """Stops a node's process where it is: what comes for it waits until it goes on."""

    cluster: MemoryCluster
    name: ClassVar[str] = "pause"

    def look(self, token: Token) -> Token:
        """Nobody but faults of ours stops a simulated process."""
        return {**token, "stopped": False}

    def apply(self, token: Token) -> None:
        """Stop the process, if it is still the one that the record names."""
        node = self.cluster.nodes[token["node"]]
        with self.cluster.simulation.held():
            if token["pid"] is not None and node.pid() == token["pid"]:
                node.pause(token["fault"])

    def undo(self, token: Token) -> None:
        """Let it go on unless another fault wants it stopped."""
        node = self.cluster.nodes.get(token["node"])
        if node is not None and node.pid() == token["pid"]:
            with self.cluster.simulation.held():
                node.resume(token["fault"])

    def probe(self, token: Token, *, applied: bool) -> Proof:
        """In force: it is stopped by this fault. Undone: it runs, or another fault stops it."""
        node, fault = self.cluster.nodes[token["node"]], token["fault"]
        same = node.pid() is not None and node.pid() == token["pid"]
        ours = same and fault in node.paused_by
        others = [each for each in node.paused_by if each != fault]
        told = "is stopped" if node.paused_by else "runs"
        if not same:
            told = "is not there"
        also = f", paused by {', '.join(others)} too" if others else ""
        waits = f", {len(node.host.backlog):,} events wait for it" if node.paused_by else ""
        evidence = [f"{node.name}: process {token['pid']} {told}{waits}{also}"]
        return Proof(ours if applied else same and not ours, evidence)

    def leftover_state(self, node: Node) -> list[str]:
        """A process that is stopped."""
        by = self.cluster.nodes[node.name].paused_by
        return [f"{node.name}: its process is stopped by {', '.join(by)}"] if by else []


@dataclass(frozen=True)
class MemoryProcessLever:
    """Ends a node's process; undone by starting it again."""

    cluster: MemoryCluster
    name: ClassVar[str] = "process"

    def apply(self, token: Token) -> None:
        """End the process that the record names."""
        node = self.cluster.nodes[token["node"]]
        with self.cluster.simulation.held():
            if token["pid"] is not None and node.pid() == token["pid"]:
                node.kill(token["signal"])

    def undo(self, token: Token) -> None:
        """Start the process again; nothing when it runs."""
        node = self.cluster.nodes.get(token["node"])
        if node is not None:
            with self.cluster.simulation.held():
                node.start()

    def probe(self, token: Token, *, applied: bool) -> Proof:
        """In force: it ended with the signal's exit code. Undone: another process runs."""
        node = self.cluster.nodes[token["node"]]
        return in_force(node, token) if applied else started_again(node, token)

    def leftover_state(self, node: Node) -> list[str]:
        """A process that does not run."""
        return [] if node.process().running else [f"{node.name}: its process does not run"]


def in_force(node: MemoryNode, token: Token) -> Proof:
    """Whether a node's process ended of the record's signal."""
    state = node.process()
    told = (
        "still runs"
        if state.running
        else f"ended with exit code {state.exit_code} at {state.finished_at}"
    )
    proven = token["pid"] is not None and state.exit_code == EXIT_CODES[token["signal"]]
    return Proof(proven, [f"{node.name}: process {token['pid']} {told}"])


def started_again(node: MemoryNode, token: Token) -> Proof:
    """Whether a node has another process than the record's."""
    told = f"{node.name}: process {node.pid()} runs since {node.process().started_at}"
    return Proof(node.pid() not in (None, token["pid"]), [told])
