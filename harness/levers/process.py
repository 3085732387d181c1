"""The process lever: ends the target's process on a node by a signal, and starts it again.

A signal counts as applied when the process is seen to have died of it, not when it was sent. The
process is known by the id that it wrote itself when it started, never by a name pattern.

TERM asks for a clean stop. A process that has not stopped by then is killed, as any service manager
does: it must not end by itself after it was healed. The exit code then tells, and the fault is not
proven.

Token: {"node", "signal": "KILL", "pid": 17}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from harness.errors import HarnessFailure
from harness.levers.waiting import poll_until
from harness.protocols import Node, Proof, Token

_DEATH_S = 30
_EXIT_CODES = {"KILL": (137,), "TERM": (143, 0)}


@dataclass(frozen=True)
class ProcessLever:
    """Ends the target's process by a signal; undone by starting it again."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "process"

    def apply(self, token: Token) -> None:
        """Send the signal and wait until the process is gone."""
        node, pid = self.nodes[token["node"]], token["pid"]
        if pid is None:
            return  # it was dead before: the probe says so
        for signal in (token["signal"], "KILL"):
            sent = node.admin(["kill", f"-{signal}", str(pid)])
            if sent.exit_code and node.process().running:
                raise HarnessFailure(f"{node.name}: the signal was refused: {sent.output.strip()}")
            if poll_until(lambda: not node.process().running, within_s=_DEATH_S):
                return

    def undo(self, token: Token) -> None:
        """Start the process again; nothing when it runs."""
        node = self.nodes[token["node"]]
        if not node.process().running:
            node.start()

    def probe(self, token: Token, *, applied: bool) -> Proof:
        """In force: it ended with the signal's exit code. Undone: another process runs."""
        node = self.nodes[token["node"]]
        state = node.process()
        if applied:
            wanted = _EXIT_CODES[token["signal"]]
            proven = token["pid"] is not None and state.exit_code in wanted
            told = (
                "still runs"
                if state.running
                else f"ended with exit code {state.exit_code} at {state.finished_at}"
            )
            return Proof(proven, [f"{node.name}: process {token['pid']} {told}"])
        another = poll_until(lambda: node.pid() not in (None, token["pid"]), within_s=_DEATH_S)
        return Proof(
            another,
            [f"{node.name}: process {node.pid()} runs since {node.process().started_at}"],
        )

    def leftover_state(self, node: Node) -> list[str]:
        """A process that does not run."""
        return [] if node.process().running else [f"{node.name}: its process does not run"]


def unsignalled(nodes: Mapping[str, Node]) -> str | None:
    """Null, or which node's process cannot be sent a signal."""
    for node in nodes.values():
        pid = node.pid()
        if pid is None or node.admin(["kill", "-0", str(pid)]).exit_code:
            return f"{node.name}: its process cannot be signalled"
    return None
