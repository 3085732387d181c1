"""The pause and the process lever of simulated nodes, with the real levers' undo records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from harness.clusters.memory.node import EXIT_CODES, MemoryNode
from harness.clusters.memory.world import World
from harness.faults.records import DiskRecord, PauseRecord, ProcessRecord
from harness.protocols import Lever, Node, Proof, UndoRecord

Ends = ProcessRecord | DiskRecord
"""The records of the levers that end a process."""


@dataclass(frozen=True)
class MemoryPauseLever(Lever[PauseRecord]):
    """Stops a node's process where it is: what arrives for it waits until it resumes."""

    world: World
    name: ClassVar[str] = "pause"
    record_type: ClassVar[type[UndoRecord]] = PauseRecord

    def unavailable(self, node: Node, record: PauseRecord) -> str | None:
        """Where no process runs."""
        return not_running(node)

    def capture_prior_state(self, record: PauseRecord) -> PauseRecord:
        """Only faults of ours stop a simulated process."""
        return replace(record, stopped=False)

    def apply(self, record: PauseRecord) -> None:
        """Stop the process, if it is still the one that the record names."""
        node = self.world.nodes[record.node]
        with self.world.simulation.held():
            if record.pid is not None and node.pid() == record.pid:
                node.pause(record.fault)

    def undo(self, record: PauseRecord) -> None:
        """Let it go on unless another fault wants it stopped."""
        node = self.world.nodes.get(record.node)
        if node is not None and node.pid() == record.pid:
            with self.world.simulation.held():
                node.resume(record.fault)

    def probe(self, record: PauseRecord, *, applied: bool) -> Proof:
        """In force: it is stopped by this fault. Undone: it runs, or another fault stops it."""
        node, fault = self.world.nodes[record.node], record.fault
        same = node.pid() is not None and node.pid() == record.pid
        ours = same and fault in node.paused_by
        others = [each for each in node.paused_by if each != fault]
        state = "is stopped" if node.paused_by else "runs"
        if not same:
            state = "is not there"
        also = f", also paused by {', '.join(others)}" if others else ""
        waits = f", {len(node.host.backlog):,} events wait for it" if node.paused_by else ""
        evidence = [f"{node.name}: process {record.pid} {state}{waits}{also}"]
        return Proof(ours if applied else same and not ours, evidence)

    def leftover_state(self, node: Node) -> list[str]:
        """A process that is stopped."""
        by = self.world.nodes[node.name].paused_by
        return [f"{node.name}: its process is stopped by {', '.join(by)}"] if by else []


@dataclass(frozen=True)
class MemoryProcessLever(Lever[ProcessRecord]):
    """Ends a node's process; undone by starting it again."""

    world: World
    name: ClassVar[str] = "process"
    record_type: ClassVar[type[UndoRecord]] = ProcessRecord

    def unavailable(self, node: Node, record: ProcessRecord) -> str | None:
        """Where no process runs."""
        return not_running(node)

    def apply(self, record: ProcessRecord) -> None:
        """End the process that the record names."""
        end_process(self.world, record)

    def undo(self, record: ProcessRecord) -> None:
        """Start the process again, unless it was dead before or another fault keeps it dead."""
        start_again(self.world, record)

    def probe(self, record: ProcessRecord, *, applied: bool) -> Proof:
        """In force: it ended with the signal's exit code and was not started since. Undone: another
        process runs, or another fault keeps it dead."""
        node = self.world.nodes[record.node]
        return ended(node, record) if applied else runs_again(node, record)

    def leftover_state(self, node: Node) -> list[str]:
        """A process that does not run."""
        return [] if node.process().running else [f"{node.name}: its process does not run"]


def not_running(node: Node) -> str | None:
    """None, or that no process runs on a node."""
    return None if node.process().running else f"{node.name}: its process does not run"


def end_process(world: World, record: Ends) -> None:
    """End the process of a record by its signal, if it still runs, and note which fault it was."""
    node = world.nodes[record.node]
    with world.simulation.held():
        if record.pid is not None and node.pid() == record.pid:
            node.kill(record.signal)
            node.kept_dead_by.append(record.fault)


def start_again(world: World, record: Ends) -> None:
    """Start the process of a record's node, unless it was dead before or another fault keeps it
    dead; nothing when it runs, or when the node is gone."""
    node = world.nodes.get(record.node)
    if node is None:
        return
    with world.simulation.held():
        node.kept_dead_by = [fault for fault in node.kept_dead_by if fault != record.fault]
        if record.pid is not None and not node.kept_dead_by:
            node.start()


def ended(node: MemoryNode, record: Ends) -> Proof:
    """Whether a node's process ended by the record's signal and fault, and was not started
    since."""
    if record.pid is None:
        return Proof(False, [f"{node.name}: its process was dead before"])
    state, by_it = node.process(), record.fault in node.kept_dead_by
    outcome = (
        "still runs"
        if state.running
        else f"ended with exit code {state.exit_code} at {state.finished_at}"
        f"{'' if by_it else ', but not by this fault'}"
    )
    proven = by_it and state.exit_code == EXIT_CODES[record.signal]
    return Proof(proven, [f"{node.name}: process {record.pid} {outcome}"])


def runs_again(node: MemoryNode, record: Ends) -> Proof:
    """Whether a node has another process than the record's, had none before, or is kept dead by
    another fault."""
    if record.pid is None:
        return Proof(True, [f"{node.name}: its process was dead before"])
    if others := node.kept_dead_by:
        evidence = f"{node.name}: its process is kept dead by {', '.join(others)}"
        return Proof(record.fault not in others, [evidence])
    evidence = f"{node.name}: process {node.pid()} runs since {node.process().started_at}"
    return Proof(node.pid() not in (None, record.pid), [evidence])
