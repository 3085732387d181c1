"""The commands needed by the levers that change or block what a node stores."""

from __future__ import annotations

from harness.protocols import Node

TOOLS = ("find", "truncate", "dd", "df", "rm", "sh", "chmod", "setpriv")
"""The commands that `Node.admin` must have."""


def unequipped(node: Node) -> str | None:
    """None, or which commands a node lacks, or that its process does not run."""
    if node.admin(["which", *TOOLS]).exit_code:
        return f"{node.name} lacks one of {', '.join(TOOLS)}"
    if not node.process().running:
        return f"{node.name}: its process does not run"
    return None
