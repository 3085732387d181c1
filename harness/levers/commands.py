"""Commands that a lever cannot do without, and the files by which faults are noted on a node."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import HarnessFailure
from harness.protocols import Node


def must(node: Node, argv: Sequence[str]) -> str:
    """Run a command on a node; its output. Raises HarnessFailure when it fails."""
    done = node.admin(argv)
    if done.exit_code:
        raise HarnessFailure(f"{node.name}: {' '.join(argv)} failed: {done.output.strip()[:300]}")
    return done.output


def marks(node: Node, folder: str, prefix: str) -> list[str]:
    """Which marks of faults a folder of a node has: for each file whose name begins with the
    prefix, the rest of the name. Raises HarnessFailure when the folder cannot be listed: a fault
    that is not seen would be undone while another one still needs it."""
    names = must(node, ["ls", folder]).splitlines()
    return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))
