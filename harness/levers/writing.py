"""What levers share under which a node cannot store any more: can the target's process still write,
does it live on, and did it try at all?

That a block of ours cannot be written shows that the mechanism works. The system met it when its
own process ended, or when what it writes beside its data (its log, on another disk) has more lines
than before with the words of the kernel's refusal.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.levers.process import ProcessLever
from harness.protocols import NODE_DATA, STORED, Completed, Node, Token

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


def refusals(node: Node, words: str) -> int | None:
    """How many lines the process has written beside its data with these words (a pattern of grep).
    Null when that cannot be seen."""
    counts = ["grep", "-rhacE", f"--exclude-dir={STORED}", "-e", words, NODE_DATA]
    done = node.admin(counts)
    told = done.output.split()
    if done.exit_code not in (0, 1) or not all(count.isdigit() for count in told):
        return None
    return sum(map(int, told))


def tried(node: Node, token: Token, words: str) -> tuple[int | None, str]:
    """How often the process itself was refused since the fault, its end counted too, and in words.
    Null for a token of before, which says nothing about the time before."""
    if "refusals" not in token:
        return None, "whether it tried is not known"
    lines = max(0, (refusals(node, words) or 0) - (token["refusals"] or 0))
    ended = token["pid"] is not None and not node.process().running
    told = f"its own log says {lines:,} times that it was refused" if lines else ""
    if ended:
        told = " and ".join([*([told] if told else []), "its process ended of it"])
    return lines + ended, told or "its own process was refused nothing so far"
