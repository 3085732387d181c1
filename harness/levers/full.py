"""The full lever: no byte is free any more on the disk on which a node stores.

Our file `ackloss-full.FAULT` takes all free space; a system that looks for folders there ignores
it. Only a small disk that holds nothing but what the target stores is filled: nodes get one for
plans that need it (`harness.protocols.BOUNDED_DISK`). Any other disk is refused, because filling it
would harm others. Everything else that a node keeps is on another disk, so its log continues. A
process that died of the fault is started again once there is space.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from harness.errors import HarnessFailure
from harness.faults.records import FullRecord
from harness.levers.commands import marks, must, poll_until
from harness.levers.process import start_again
from harness.levers.writing import attempt, process_state, refusals, tried, unequipped
from harness.protocols import NODE_DATA, STORED, Lever, Node, Proof, UndoRecord

_OURS = "ackloss-full."
_LARGEST_BYTES = 1 << 30
_FILL_BYTES = (1 << 20, 4096, 512)
"""Each fills what is less than the one before: a file system may refuse a complete block."""
_FULL_S = 5
_LOOKS_AGAIN_S = 0.5
_NO_SPACE = "No space left on device"


@dataclass(frozen=True)
class FullLever(Lever[FullRecord]):
    """Fills the disk on which a node stores."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "full"
    record_type: ClassVar[type[UndoRecord]] = FullRecord

    def unavailable(self, node: Node, record: FullRecord) -> str | None:
        """If a command that it needs is missing, or the disk must not be filled."""
        return unequipped(node) or unbounded(node, record.folder)

    def capture_prior_state(self, record: FullRecord) -> FullRecord:
        """How many times its process has logged so far that there was no space."""
        return replace(record, refusals=refusals(self.nodes[record.node], _NO_SPACE))

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
        for other in _faults(node, folder):
            _fill(node, folder, other)
        start_again(node, record)

    def probe(self, record: FullRecord, *, applied: bool) -> Proof:
        """In force: no byte is free and the target cannot write a block; `met` counts how many
        times its process itself was refused. Undone: it can write, and its process runs, unless
        another fault keeps the disk full."""
        node, folder = self.nodes[record.node], record.folder
        disk, block, faults = _disk(node, folder), attempt(node, folder), _faults(node, folder)
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
        return [f"{node.name}: its disk is filled by {fault}" for fault in _faults(node, STORED)]


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


def _faults(node: Node, folder: str) -> list[str]:
    return marks(node, f"{NODE_DATA}/{folder}", _OURS)


def _path(folder: str, fault: str) -> str:
    return f"{NODE_DATA}/{folder}/{_OURS}{fault}"
