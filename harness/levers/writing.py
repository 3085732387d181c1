"""What levers share under which a node cannot store any more: can the target's process still write,
and does it live on?"""

from __future__ import annotations

from collections.abc import Mapping

from harness.levers.process import ProcessLever
from harness.protocols import NODE_DATA, Completed, Node, Token

# The target's process is root without capabilities.
_AS_TARGET = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"]
_OURS = "ackloss-try"
BLOCK_BYTES = 4096


def attempt(node: Node, folder: str) -> Completed:
    """Write one block into a file of ours with as few rights as the target's process has, and
    remove the file. The output is one line."""
    path = f"{NODE_DATA}/{folder}/{_OURS}"
    block = [f"bs={BLOCK_BYTES}", "count=1", "status=none"]
    made = node.admin([*_AS_TARGET, "dd", "if=/dev/zero", f"of={path}", *block])
    node.admin(["rm", "-f", "--", path])
    told = made.output.strip().splitlines()[:1] or ["it was written"]
    return Completed(made.exit_code, told[0])


def process_told(node: Node) -> tuple[bool, str]:
    """Whether the target's process runs, and in words."""
    state = node.process()
    told = "runs" if state.running else f"has ended with exit code {state.exit_code}"
    return state.running, f"its process {told}"


def revive(nodes: Mapping[str, Node], token: Token) -> None:
    """Start the process again if it died and was not dead before (a null pid in the token)."""
    if token["pid"] is not None:
        ProcessLever(nodes).undo(token)
