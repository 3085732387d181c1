"""The process lever: ends the target's process on a node by a signal, and starts it again.

A signal counts as applied when the process has died of it, not when it was sent. The process is
identified by the id that it wrote itself when it started, never by a name pattern.

TERM requests a clean stop. A process that has not stopped in time is killed, as any service manager
does: it must not end by itself after the fault was healed. The exit code then shows this, and the
fault is not proven.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from harness.errors import HarnessFailure
from harness.faults.records import DiskRecord, PowerRecord, ProcessRecord
from harness.levers.waiting import poll_until
from harness.protocols import Lever, Managed, Node, Proof, UndoRecord

_DEATH_S = 30
_EXIT_CODES = {"KILL": (137,), "TERM": (143, 0)}

Ends = ProcessRecord | DiskRecord | PowerRecord
"""The records of the levers that end a process by its pid and a signal."""


@dataclass(frozen=True)
class ProcessLever(Lever[ProcessRecord]):
    """Ends the target's process by a signal; undone by starting it again."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "process"
    record_type: ClassVar[type[UndoRecord]] = ProcessRecord

    def unavailable(self, node: Node, record: ProcessRecord) -> str | None:  # noqa: ARG002
        """Where its process cannot be signalled."""
        return unsignalled(node)

    def apply(self, record: ProcessRecord) -> None:
        """Send the signal and wait until the process is gone."""
        end_process(self.nodes[record.node], record)

    def undo(self, record: ProcessRecord) -> None:
        """Start the process again; nothing when it runs."""
        start_process(self.nodes[record.node])

    def probe(self, record: ProcessRecord, *, applied: bool) -> Proof:
        """In force: it ended with the signal's exit code. Undone: another process runs."""
        node = self.nodes[record.node]
        return ended(node, record) if applied else runs_again(node, record.pid)

    def leftover_state(self, node: Node) -> list[str]:
        """A process that does not run."""
        return [] if node.process().running else [f"{node.name}: its process does not run"]


def end_process(node: Node, record: Ends) -> None:
    """End the process of a record by its signal, or else by SIGKILL, and wait until it is gone."""
    if record.pid is None:
        return  # it was dead before: the probe says so
    for signal in (record.signal, "KILL"):
        _send(node, signal, record.pid)
        if poll_until(lambda: not node.process().running, within_s=_DEATH_S):
            return


def _send(node: Node, signal: str, pid: int) -> None:
    """Send it; its supervisor is notified first, or it would start the process again at once."""
    if isinstance(node, Managed):
        node.end(signal)
        return
    sent = node.admin(["kill", f"-{signal}", str(pid)])
    if sent.exit_code and node.process().running:
        raise HarnessFailure(f"{node.name}: the signal was refused: {sent.output.strip()}")


def start_process(node: Node) -> None:
    """Start the target's process; nothing when it runs."""
    if not node.process().running:
        node.start()


def ended(node: Node, record: Ends) -> Proof:
    """Whether the process of a record has ended with the exit code of its signal."""
    state = node.process()
    proven = record.pid is not None and state.exit_code in _EXIT_CODES[record.signal]
    outcome = (
        "still runs"
        if state.running
        else f"ended with exit code {state.exit_code} at {state.finished_at}"
    )
    return Proof(proven, [f"{node.name}: process {record.pid} {outcome}"])


def runs_again(node: Node, pid: int | None) -> Proof:
    """Waits until a process other than this one runs; whether one does."""
    another = poll_until(lambda: node.pid() not in (None, pid), within_s=_DEATH_S)
    evidence = f"{node.name}: process {node.pid()} runs since {node.process().started_at}"
    return Proof(another, [evidence])


def unsignalled(node: Node) -> str | None:
    """None, or that a node's process cannot be sent a signal."""
    pid = node.pid()
    if pid is None or node.admin(["kill", "-0", str(pid)]).exit_code:
        return f"{node.name}: its process cannot be signalled"
    return None
