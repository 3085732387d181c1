"""The levers under which a node cannot store any more.

That a block of ours cannot be written shows that the mechanism works. The system has met the fault
when its own process ended by itself, or when what it writes beside its data (its log, on another
disk) has more lines than before with the kernel's words for the refusal. A process that died of the
fault is started again when it is undone.

*Read-only*: no file can be created, renamed or removed in a node's data, as on a disk that the
kernel has mounted read-only after an error. Files that are open already can still be written. The
target's process has no capabilities, so a folder's permissions bind it: the write permission is
removed from every folder of the data, and the undo restores it for every folder that lacks it (a
system that stores data can write to all its folders, so those are ours), unless another fault still
keeps the data read-only: each is noted beside the data, by an empty file.

*Full*: no byte is free any more on the disk on which a node stores. Our file `ackloss-full.FAULT`
takes all free space; a system that looks for folders there ignores it. Only a small disk that holds
nothing but what the target stores is filled: nodes get one for plans that need it
(`harness.protocols.BOUNDED_DISK`). Any other disk is refused, because filling it would harm others.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeVar

from harness.errors import HarnessFailure
from harness.faults.records import FullRecord, ReadOnlyRecord, StorageRecord
from harness.levers.commands import marks, must, poll_until
from harness.levers.process import kept_dead_by, start_again
from harness.protocols import NODE_DATA, STORED, Completed, Lever, Node, Proof

RecordT = TypeVar("RecordT", bound=StorageRecord)

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
_TRY = "ackloss-try"
BLOCK_BYTES = 4096
_OF_A_SIGNAL = (137, 143)


def attempt(node: Node, folder: str) -> Completed:
    """Write one block into a file of ours with as few rights as the target's process has, and
    remove the file. The output is one line."""
    path = f"{NODE_DATA}/{folder}/{_TRY}"
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
    state = node.process()
    by_itself = not state.running and state.exit_code not in (None, *_OF_A_SIGNAL)
    ended = record.pid is not None and by_itself and not kept_dead_by(node)
    evidence = [f"its own log has {lines:,} new lines of a refused write"] if lines else []
    evidence += ["its process ended of it"] if ended else []
    return lines + ended, " and ".join(evidence) or "its own process was refused nothing so far"


@dataclass(frozen=True)
class _StorageLever(Lever[RecordT]):
    """What both have in common."""

    nodes: Mapping[str, Node]
    words: ClassVar[str]
    """What the process logs when it is refused, as a pattern of grep."""

    def unavailable(self, node: Node, record: RecordT) -> str | None:
        return unequipped(node)

    def capture_prior_state(self, record: RecordT) -> RecordT:
        """How many times its process has logged so far that it was refused."""
        return replace(record, refusals=refusals(self.nodes[record.node], self.words))


_READ_ONLY = "ackloss-read-only."
_GONE = ": No such file or directory"


@dataclass(frozen=True)
class ReadOnlyLever(_StorageLever[ReadOnlyRecord]):
    """Removes the write permission from the folders of a node's data."""

    name: ClassVar[str] = "read-only"
    words: ClassVar[str] = "Permission denied|AccessDenied|Read-only file system"

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
        if not _read_only_by(node):
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
            met, refused = tried(node, record, self.words)
            proven = beside.exit_code == 0 and inside.exit_code != 0
            return Proof(proven, [f"{evidence}; {refused}"], met)
        if others := _read_only_by(node):
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
    return f"{NODE_DATA}/{_READ_ONLY}{fault}"


def _read_only_by(node: Node) -> list[str]:
    return marks(node, NODE_DATA, _READ_ONLY)


def _chmod(node: Node, folder: str, mode: Literal["u-w", "u+w"]) -> None:
    due = ["-perm", "-u+w"] if mode == "u-w" else ["!", "-perm", "-u+w"]
    argv = ["find", f"{NODE_DATA}/{folder}", "-type", "d", *due, "-exec", "chmod", mode, "{}", "+"]
    must(node, argv)


_FULL = "ackloss-full."
_LARGEST_BYTES = 1 << 30
_FILL_BYTES = (1 << 20, 4096, 512)
"""Each fills what is less than the one before: a file system may refuse a complete block."""
_FULL_S = 5
_LOOKS_AGAIN_S = 0.5
_NO_SPACE = "No space left on device"


@dataclass(frozen=True)
class FullLever(_StorageLever[FullRecord]):
    """Fills the disk on which a node stores."""

    name: ClassVar[str] = "full"
    words: ClassVar[str] = _NO_SPACE

    def unavailable(self, node: Node, record: FullRecord) -> str | None:
        return super().unavailable(node, record) or unbounded(node, record.folder)

    def apply(self, record: FullRecord) -> None:
        """Take every free byte. Raises HarnessFailure if the disk must not be filled, or does not
        become and stay full."""
        node = self.nodes[record.node]
        if why := unbounded(node, record.folder):
            raise HarnessFailure(why)
        _fill(node, record.folder, record.fault)

    def undo(self, record: FullRecord) -> None:
        """Give back what this fault took, unless another fault keeps the disk full; start the
        process again if it died, was not dead before and is not kept dead by another fault."""
        node, folder = self.nodes[record.node], record.folder
        must(node, ["rm", "-f", "--", _path(folder, record.fault)])
        for other in _filled_by(node, folder):
            _fill(node, folder, other)
        start_again(node, record)

    def probe(self, record: FullRecord, *, applied: bool) -> Proof:
        """In force: no byte is free and the target cannot write a block; `met` counts how many
        times its process itself was refused. Undone: it can write, and its process runs, unless
        another fault keeps the disk full."""
        node, folder = self.nodes[record.node], record.folder
        disk, block, faults = _disk(node, folder), attempt(node, folder), _filled_by(node, folder)
        in_order, process = process_state(node)
        space = f"{disk.free_bytes:,} of {disk.size_bytes:,} bytes are free in {folder}"
        evidence = f"{node.name}: {space}; writing a block: {block.output}; {process}"
        if applied:
            met, words = tried(node, record, _NO_SPACE)
            refused = block.exit_code != 0 and _NO_SPACE in block.output
            proven = record.fault in faults and disk.free_bytes == 0 and refused
            return Proof(proven, [f"{evidence}; {words}"], met)
        if faults:
            proven = record.fault not in faults
            evidence += f"; still filled by {', '.join(faults)}"
        else:
            free = disk.free_bytes > 0 and block.exit_code == 0
            proven = free and (in_order or record.pid is None)
        return Proof(proven, [evidence])

    def leftover_state(self, node: Node) -> list[str]:
        return [f"{node.name}: its disk is filled by {fault}" for fault in _filled_by(node, STORED)]


@dataclass(frozen=True)
class _Disk:
    mounted_at: str
    size_bytes: int
    free_bytes: int


def unbounded(node: Node, folder: str = STORED) -> str | None:
    """None, or why the disk on which a node stores must not be filled."""
    disk = _disk(node, folder)
    alone = disk.mounted_at == f"{NODE_DATA}/{folder}"
    if alone and disk.size_bytes <= _LARGEST_BYTES:
        return None
    size = f"{disk.size_bytes / (1 << 30):.1f} GiB"
    others = "" if alone else " that others use too"
    return f"{node.name}: what it stores lies on a disk of {size}{others}"


def _disk(node: Node, folder: str) -> _Disk:
    path = f"{NODE_DATA}/{folder}"
    output = must(node, ["df", "-B1", "--output=target,size,avail", "--", path])
    found = re.search(r"(?m)^(/\S*) +(\d+) +(\d+)$", output)
    if found is None:
        raise HarnessFailure(f"{node.name}: df shows no size of its disk: {output.strip()[:200]}")
    return _Disk(found[1], int(found[2]), int(found[3]))


def _fill(node: Node, folder: str, fault: str) -> None:
    """Write into a fault's file until nothing is free, each time at most the disk's size. A system
    that replaces a file while the disk becomes full gives back the old one's blocks, so nothing
    must be free a moment later either."""
    size, how = _disk(node, folder).size_bytes, ["oflag=append", "conv=notrunc", "status=none"]
    to_file = ["if=/dev/zero", f"of={_path(folder, fault)}", *how]

    def full() -> bool:
        return _disk(node, folder).free_bytes == 0

    def filled() -> bool:
        for block in _FILL_BYTES:  # each fails where the disk ends
            node.admin(["dd", *to_file, f"bs={block}", f"count={size // block}"])
        if not full():
            return False
        time.sleep(_LOOKS_AGAIN_S)
        return full()

    if not poll_until(filled, within_s=_FULL_S):
        raise HarnessFailure(f"{node.name}: {_disk(node, folder).free_bytes} bytes stay free")


def _filled_by(node: Node, folder: str) -> list[str]:
    return marks(node, f"{NODE_DATA}/{folder}", _FULL)


def _path(folder: str, fault: str) -> str:
    return f"{NODE_DATA}/{folder}/{_FULL}{fault}"
