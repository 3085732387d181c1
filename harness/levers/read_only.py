"""The read-only lever: no file can be created, renamed or removed in a node's data, as on a disk
that the kernel has mounted read-only after an error. Files that are open already can still be
written.

The target's process has no capabilities, so a folder's permissions bind it: the write permission is
removed from every folder of the data, and the undo restores it for every folder that lacks it (a
system that stores data can write to all its folders, so those are ours), unless another fault still
keeps the data read-only: each is noted beside the data, by an empty file. A process that died of
the fault is started again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from harness.faults.records import ReadOnlyRecord
from harness.levers.commands import marks, must
from harness.levers.process import start_again
from harness.levers.writing import attempt, process_state, refusals, tried, unequipped
from harness.protocols import NODE_DATA, Lever, Node, Proof, UndoRecord

_OURS = "ackloss-read-only."
_GONE = ": No such file or directory"
_REFUSED = "Permission denied|AccessDenied|Read-only file system"


@dataclass(frozen=True)
class ReadOnlyLever(Lever[ReadOnlyRecord]):
    """Removes the write permission from the folders of a node's data."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "read-only"
    record_type: ClassVar[type[UndoRecord]] = ReadOnlyRecord

    def unavailable(self, node: Node, record: ReadOnlyRecord) -> str | None:
        """If a command that it needs is missing, or there is no process to refuse."""
        return unequipped(node)

    def capture_prior_state(self, record: ReadOnlyRecord) -> ReadOnlyRecord:
        """How many times its process has logged so far that a write was refused."""
        return replace(record, refusals=refusals(self.nodes[record.node], _REFUSED))

    def apply(self, record: ReadOnlyRecord) -> None:
        """Remove the write permission from every folder that has it."""
        node = self.nodes[record.node]
        must(node, ["touch", "--", _mark(record.fault)])
        _chmod(node, record.folder, "u-w")

    def undo(self, record: ReadOnlyRecord) -> None:
        """Restore it, unless another fault keeps the data read-only, and start the process again if
        it died, was not dead before and is not kept dead by another fault."""
        node = self.nodes[record.node]
        must(node, ["rm", "-f", "--", _mark(record.fault)])
        if not _faults(node):
            _chmod(node, record.folder, "u+w")
        start_again(node, record)

    def probe(self, record: ReadOnlyRecord, *, applied: bool) -> Proof:
        """In force: a file can be made beside the data but not in it; `met` counts how many times
        the process itself was refused. Undone: a file can be made in the data, and the process
        runs or is kept dead by another fault; or another fault keeps the data read-only."""
        node, folder = self.nodes[record.node], record.folder
        beside, inside = attempt(node, "."), attempt(node, folder)
        in_order, process = process_state(node)
        evidence = f"{node.name}: making a file in {folder}: {inside.output}; {process}"
        if applied:
            met, refused = tried(node, record, _REFUSED)
            proven = beside.exit_code == 0 and inside.exit_code != 0
            return Proof(proven, [f"{evidence}; {refused}"], met)
        if others := _faults(node):
            return Proof(
                record.fault not in others, [f"{evidence}; still read-only by {', '.join(others)}"]
            )
        proven = inside.exit_code == 0 and (in_order or record.pid is None)
        return Proof(proven, [evidence])

    def leftover_state(self, node: Node) -> list[str]:
        """Folders that cannot be written to. A folder that the system removes meanwhile does not
        count."""
        found = node.admin(["find", NODE_DATA, "-type", "d", "!", "-perm", "-u+w"])
        lines = [line for line in found.output.splitlines() if not line.endswith(_GONE)]
        return [f"{node.name}: read-only: {line}" for line in lines]


def _mark(fault: str) -> str:
    """The file that records that a fault keeps a node's data read-only."""
    return f"{NODE_DATA}/{_OURS}{fault}"


def _faults(node: Node) -> list[str]:
    return marks(node, NODE_DATA, _OURS)


def _chmod(node: Node, folder: str, mode: Literal["u-w", "u+w"]) -> None:
    due = ["-perm", "-u+w"] if mode == "u-w" else ["!", "-perm", "-u+w"]
    argv = ["find", f"{NODE_DATA}/{folder}", "-type", "d", *due, "-exec", "chmod", mode, "{}", "+"]
    must(node, argv)
