"""Commands that a lever cannot do without."""

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
