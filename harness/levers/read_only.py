"""The read-only lever: no file can be made, renamed or removed in a node's data, as on a disk that
the kernel has mounted read-only after an error. Files that are open already can still be written.

The target's process has no capabilities, so a folder's permissions bind it: the right to
write is taken from every folder of the data, and given back by undo to every folder that lacks it
(a system that stores data can write to all its folders, so those are ours). A process that died of
it is started again.

Token: {"node", "folder": "data", "pid": 17, "refusals": 0 (from `look`)}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from harness.levers.commands import must
from harness.levers.writing import attempt, process_told, refusals, revive, tried
from harness.protocols import NODE_DATA, Node, Proof, Token

_REFUSED = "Permission denied|AccessDenied|Read-only file system"


@dataclass(frozen=True)
class ReadOnlyLever:
    """Takes the right to write from the folders of a node's data."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "read-only"

    def look(self, token: Token) -> Token:
        """How often its process says so far that it was refused."""
        return {**token, "refusals": refusals(self.nodes[token["node"]], _REFUSED)}

    def apply(self, token: Token) -> None:
        """Take the right to write from every folder that has it."""
        _chmod(self.nodes[token["node"]], token["folder"], "u-w")

    def undo(self, token: Token) -> None:
        """Give it back, and start the process again if it died and was not dead before."""
        node = self.nodes[token["node"]]
        _chmod(node, token["folder"], "u+w")
        revive(self.nodes, token)

    def probe(self, token: Token, *, applied: bool) -> Proof:
        """In force: no file can be made in the data, but beside it; `met` is how often the process
        itself was refused. Undone: in the data too, and the process runs."""
        node, folder = self.nodes[token["node"]], token["folder"]
        beside, inside = attempt(node, "."), attempt(node, folder)
        running, process = process_told(node)
        evidence = f"{node.name}: a file to be made in {folder}: {inside.output}; {process}"
        if applied:
            met, told = tried(node, token, _REFUSED)
            proven = beside.exit_code == 0 and inside.exit_code != 0
            return Proof(proven, [f"{evidence}; {told}"], met)
        proven = inside.exit_code == 0 and (running or token["pid"] is None)
        return Proof(proven, [evidence])

    def leftover_state(self, node: Node) -> list[str]:
        """Folders that cannot be written to."""
        found = node.admin(["find", NODE_DATA, "-type", "d", "!", "-perm", "-u+w"])
        return [f"{node.name}: read-only: {folder}" for folder in found.output.splitlines()]


def _chmod(node: Node, folder: str, mode: Literal["u-w", "u+w"]) -> None:
    """Change every folder that is not yet as wanted."""
    due = ["-perm", "-u+w"] if mode == "u-w" else ["!", "-perm", "-u+w"]
    argv = ["find", f"{NODE_DATA}/{folder}", "-type", "d", *due, "-exec", "chmod", mode, "{}", "+"]
    must(node, argv)
