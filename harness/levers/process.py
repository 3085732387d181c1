"""The process lever: ends the target's process on a node by a signal, and starts it again.

A signal counts as applied when the process has died of it, not when it was sent. The process is
identified by the id that it wrote itself when it started, never by a name pattern.

TERM requests a clean stop. A process that has not stopped in time (the `grace_s` of its record) is
killed, as any service manager does: it must not end by itself after the fault was healed. The exit
code then shows this, and the fault is not proven.

Which faults keep a process dead is noted on the node: one empty file for each, with the life of the
process that the fault ended. So if faults overlap, the process is started only when the last of
them is healed; and a process that has run in between is not proven dead, however it ended then. A
fault that found the process dead has ended nothing and starts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from harness.errors import HarnessFailure
from harness.faults.records import DiskRecord, PowerRecord, ProcessRecord, StorageRecord
from harness.levers.commands import marks, must, poll_until
from harness.protocols import Lever, Node, Proof

_FOLDER = "/tmp"  # noqa: S108  (not /run: who may signal a process need not be root)
_MARK = "ackloss.dead."
_DEATH_S = 30
_EXIT_CODES = {"KILL": (137,), "TERM": (143, 0)}

Ends = ProcessRecord | DiskRecord | PowerRecord
"""The records of the levers that end a process by its pid and a signal."""

Restarts = Ends | StorageRecord
"""The records of the levers whose undo starts the process again."""


@dataclass(frozen=True)
class ProcessLever(Lever[ProcessRecord]):
    """Ends the target's process by a signal; undone by starting it again."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "process"

    def unavailable(self, node: Node, record: ProcessRecord) -> str | None:
        return unsignalled(node)

    def apply(self, record: ProcessRecord) -> None:
        """Send the signal and wait until the process is gone."""
        end_process(self.nodes[record.node], record)

    def undo(self, record: ProcessRecord) -> None:
        start_again(self.nodes[record.node], record)

    def probe(self, record: ProcessRecord, *, applied: bool) -> Proof:
        """In force: it ended with the signal's exit code and was not started since. Undone: another
        process runs, or another fault keeps it dead."""
        node = self.nodes[record.node]
        return ended(node, record) if applied else runs_again(node, record)

    def leftover_state(self, node: Node) -> list[str]:
        return [] if node.process().running else [f"{node.name}: its process does not run"]


def end_process(node: Node, record: Ends) -> None:
    """End the process of a record by its signal, or else by SIGKILL, wait until it is gone, and
    note on the node which fault it was."""
    if record.pid is None:
        return  # it was dead before: the probe says so
    grace_s = record.grace_s if isinstance(record, ProcessRecord) else _DEATH_S
    for signal, within_s in ((record.signal, grace_s), ("KILL", _DEATH_S)):
        node.send_signal(signal, record.pid)
        if poll_until(lambda: not node.process().running, within_s=within_s):
            must(node, ["touch", _mark(_death(record), node.process().started_at)])
            return


def start_again(node: Node, record: Restarts) -> None:
    """Start the process that a fault has ended, unless it was dead before (the record then has no
    pid) or another fault keeps it dead; nothing when it runs."""
    if record.pid is None:
        return
    with suppress(HarnessFailure):  # where no command can be run, nothing is noted either
        death = _death(record)  # whichever life it ended
        if lives := [life for noted, life in _marks(node) if noted == death]:
            must(node, ["rm", "-f", *(_mark(death, life) for life in lives)])
        if kept_dead_by(node):
            return
    if not node.process().running:
        node.start()


def kept_dead_by(node: Node) -> list[str]:
    """The faults that ended the last life of a node's process; none while it runs."""
    state = node.process()
    if state.running:
        return []
    deaths = [death for death, life in _marks(node) if life == str(state.started_at)]
    return [death.partition(".")[2] for death in deaths]


def ended(node: Node, record: Ends, by: Sequence[str] | None = None) -> Proof:
    """Whether the process of a record has ended with the exit code of its signal, by this fault,
    and was not started since. `by` are the faults that keep it dead, where the node does not hold
    that in files."""
    if record.pid is None:
        return Proof(False, [f"{node.name}: its process was dead before"])
    state, by_it = node.process(), record.fault in (kept_dead_by(node) if by is None else by)
    outcome = (
        "still runs"
        if state.running
        else f"ended with exit code {state.exit_code} at {state.finished_at}"
        f"{'' if by_it else ', but not by this fault'}"
    )
    proven = by_it and state.exit_code in _EXIT_CODES[record.signal]
    return Proof(proven, [f"{node.name}: process {record.pid} {outcome}"])


def runs_again(
    node: Node, record: Restarts, by: Sequence[str] | None = None, *, another: bool = True
) -> Proof:
    """Waits until the process runs, `another` one than the record's; whether it does, was dead
    before, or is kept dead by another fault (`by`, as in `ended`)."""
    if record.pid is None:
        return Proof(True, [f"{node.name}: its process was dead before"])
    if others := (kept_dead_by(node) if by is None else by):
        evidence = f"{node.name}: its process is kept dead by {', '.join(others)}"
        return Proof(record.fault not in others, [evidence])
    not_it = (None, record.pid) if another else (None,)
    runs = poll_until(lambda: node.pid() not in not_it, within_s=_DEATH_S if by is None else 0)
    evidence = f"{node.name}: process {node.pid()} runs since {node.process().started_at}"
    return Proof(runs, [evidence])


def unsignalled(node: Node) -> str | None:
    """None, or that a node's process cannot be sent a signal."""
    pid = node.pid()
    if pid is None or node.admin(["kill", "-0", str(pid)]).exit_code:
        return f"{node.name}: its process cannot be signalled"
    return None


def _death(record: Restarts) -> str:
    """Which process a fault ends; nodes may be processes of one machine."""
    return f"{record.pid}.{record.fault}"


def _mark(death: str, life: str | None) -> str:
    """The file on the node that records that a fault ended a life of the process."""
    return f"{_FOLDER}/{_MARK}{death}@{life}"


def _marks(node: Node) -> list[tuple[str, str]]:
    """The deaths that are noted on a node, each with the start of the life that it ended."""
    noted = (mark.partition("@") for mark in marks(node, _FOLDER, _MARK))
    return [(death, life) for death, _, life in noted]
