"""The process lever: kills the target's process on a node and starts it again.

A signal counts as applied when the process is seen to have died of it, not when it was sent. The
process is known by the id that it wrote itself when it started, never by a name pattern.

Token: {"node", "signal": "KILL", "pid": 17}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from harness.errors import HarnessFailure
from harness.levers.waiting import poll_until
from harness.protocols import Node, Proof, Token

_DEATH_S = 10
_EXIT_CODES = {"KILL": 137}


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
        sent = node.admin(["kill", f"-{token['signal']}", str(pid)])
        if sent.exit_code and node.process().running:
            raise HarnessFailure(f"{node.name}: the signal was refused: {sent.output.strip()}")
        poll_until(lambda: not node.process().running, within_s=_DEATH_S)

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
            proven = token["pid"] is not None and state.exit_code == wanted
            told = "still runs" if state.running else f"exit code {state.exit_code}"
            return Proof(
                proven, [f"{node.name}: process {token['pid']} {told} at {state.finished_at}"]
            )
        poll_until(lambda: node.pid() not in (None, token["pid"]), within_s=_DEATH_S)
        pid = node.pid()
        return Proof(
            pid is not None,
            [f"{node.name}: process {pid} runs since {node.process().started_at}"],
        )

    def residue(self, node: Node) -> list[str]:
        """A process that does not run."""
        return [] if node.process().running else [f"{node.name}: its process does not run"]
