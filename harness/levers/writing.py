"""What the levers share under which a node cannot store any more: can the target's process still
write, is it alive, and did it try at all?

That a block of ours cannot be written shows that the mechanism works. The system has met the fault
when its own process ended by itself, or when what it writes beside its data (its log, on another
disk) has more lines than before with the kernel's words for the refusal.
"""

from __future__ import annotations

from harness.faults.records import StorageRecord
from harness.levers.process import kept_dead_by
from harness.protocols import NODE_DATA, STORED, Completed, Node

TOOLS = ("find", "truncate", "dd", "df", "rm", "sh", "chmod", "setpriv")
"""The commands that `Node.admin` must have."""


def unequipped(node: Node) -> str | None:
    """None, or which commands a node lacks, or that its process does not run."""
    if node.admin(["which", *TOOLS]).exit_code:
        return f"{node.name} lacks one of {', '.join(TOOLS)}"
    if not node.process().running:
        return f"{node.name}: its process does not run"
    return None


# The target's process is root without capabilities.
_AS_TARGET = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"]
_OURS = "ackloss-try"
BLOCK_BYTES = 4096
_OF_A_SIGNAL = (137, 143)


def attempt(node: Node, folder: str) -> Completed:
    """Write one block into a file of ours with as few rights as the target's process has, and
    remove the file. The output is one line."""
    path = f"{NODE_DATA}/{folder}/{_OURS}"
    block = [f"bs={BLOCK_BYTES}", "count=1", "status=none"]
    made = node.admin([*_AS_TARGET, "dd", "if=/dev/zero", f"of={path}", *block])
    node.admin(["rm", "-f", "--", path])
    lines = made.output.strip().splitlines()[:1] or ["it was written"]
    return Completed(made.exit_code, lines[0])


def process_state(node: Node) -> tuple[bool, str]:
    """Whether the target's process runs, or a fault that ended it keeps it dead, and in words what
    is so."""
    state = node.process()
    if state.running:
        return True, "its process runs"
    by = kept_dead_by(node)
    words = f"its process has ended with exit code {state.exit_code}"
    return bool(by), words + (f", kept dead by {', '.join(by)}" if by else "")


def refusals(node: Node, words: str) -> int | None:
    """How many lines the process has written beside its data with these words (a pattern of grep).
    None when that cannot be seen."""
    counts = ["grep", "-rhacE", f"--exclude-dir={STORED}", "-e", words, NODE_DATA]
    done = node.admin(counts)
    found = done.output.split()
    if done.exit_code not in (0, 1) or not all(count.isdigit() for count in found):
        return None
    return sum(map(int, found))


def tried(node: Node, record: StorageRecord, words: str) -> tuple[int, str]:
    """How many times the process itself was refused since the fault began, its end included unless
    a signal or another fault ended it, and the same in words. Where the count from before could
    not be seen, no line counts."""
    lines = 0
    if record.refusals is not None:
        lines = max(0, (refusals(node, words) or 0) - record.refusals)
    ended = record.pid is not None and _ended_by_itself(node)
    evidence = [f"its own log has {lines:,} new lines of a refused write"] if lines else []
    evidence += ["its process ended of it"] if ended else []
    return lines + ended, " and ".join(evidence) or "its own process was refused nothing so far"


def _ended_by_itself(node: Node) -> bool:
    state = node.process()
    by_itself = state.exit_code not in (None, *_OF_A_SIGNAL)
    return not state.running and by_itself and not kept_dead_by(node)
