"""Commands that a lever cannot do without, the files by which faults are noted on a node, and
polling the world until something holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from harness.errors import HarnessFailure
from harness.protocols import Node


def poll_until(holds: Callable[[], bool], *, within_s: float, every_s: float = 0.05) -> bool:
    """Poll until something holds; False when it did not within the time."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


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
