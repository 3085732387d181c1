"""The full lever: no byte is free any more on the disk on which a node stores.

A file of ours, `ackloss-full.FAULT`, takes all that is free; Kafka looks for folders there and does
not mind it. Only a disk that holds nothing but what the target stores, and is small, is filled:
nodes get one for plans that need it (`harness.protocols.BOUNDED_DISK`); any other is refused, as a
full one would hurt whoever else uses it. What else a node keeps lies beside it: its log goes on
telling what happens. A process that died of it is started again once there is space.

Token: {"node", "fault", "folder": "data", "pid": 17, "refusals": 0 (from `look`)}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from harness.errors import HarnessFailure
from harness.levers.commands import must
from harness.levers.waiting import poll_until
from harness.levers.writing import attempt, process_told, refusals, revive, tried
from harness.protocols import NODE_DATA, STORED, Node, Proof, Token

_OURS = "ackloss-full."
_LARGEST_BYTES = 1 << 30
_FILL_BYTES = 1 << 20
_FULL_S = 2
_NO_SPACE = "No space left on device"


@dataclass(frozen=True)
class FullLever:
    """Fills the disk on which a node stores."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "full"

    def look(self, token: Token) -> Token:
        """How often its process says so far that there was no space."""
        return {**token, "refusals": refusals(self.nodes[token["node"]], _NO_SPACE)}

    def apply(self, token: Token) -> None:
        """Take every byte that is free. Raises HarnessFailure when the disk is not ours to fill,
        or does not get full."""
        node = self.nodes[token["node"]]
        if why := unbounded(node, token["folder"]):
            raise HarnessFailure(why)
        _fill(node, token["folder"], token["fault"])

    def undo(self, token: Token) -> None:
        """Give back what this fault took, unless another one wants the disk full; start the process
        again if it died and was not dead before."""
        node, folder = self.nodes[token["node"]], token["folder"]
        must(node, ["rm", "-f", "--", _path(folder, token["fault"])])
        for other in _faults(node, folder):
            _fill(node, folder, other)
        revive(self.nodes, token)

    def probe(self, token: Token, *, applied: bool) -> Proof:
        """In force: no byte is free and the target could not write a block; `met` is how often its
        process itself was refused. Undone: it could, and its process runs, unless another fault
        keeps the disk full."""
        node, folder = self.nodes[token["node"]], token["folder"]
        disk, block, faults = _disk(node, folder), attempt(node, folder), _faults(node, folder)
        running, process = process_told(node)
        told = f"{disk.free_bytes:,} of {disk.size_bytes:,} bytes are free in {folder}"
        evidence = f"{node.name}: {told}; a block to be written: {block.output}; {process}"
        if applied:
            met, words = tried(node, token, _NO_SPACE)
            refused = block.exit_code != 0 and _NO_SPACE in block.output
            proven = token["fault"] in faults and disk.free_bytes == 0 and refused
            return Proof(proven, [f"{evidence}; {words}"], met)
        if faults:
            proven = token["fault"] not in faults
            evidence += f"; still filled by {', '.join(faults)}"
        else:
            free = disk.free_bytes > 0 and block.exit_code == 0
            proven = free and (running or token["pid"] is None)
        return Proof(proven, [evidence])

    def leftover_state(self, node: Node) -> list[str]:
        """Our files."""
        return [f"{node.name}: its disk is filled by {fault}" for fault in _faults(node, STORED)]


@dataclass(frozen=True)
class _Disk:
    mounted_at: str
    size_bytes: int
    free_bytes: int


def unbounded(node: Node, folder: str = STORED) -> str | None:
    """Null, or why the disk on which a node stores must not be filled."""
    disk = _disk(node, folder)
    alone = disk.mounted_at == f"{NODE_DATA}/{folder}"
    if alone and disk.size_bytes <= _LARGEST_BYTES:
        return None
    size = f"{disk.size_bytes / (1 << 30):.1f} GiB"
    others = "" if alone else " that others use too"
    return f"{node.name}: what it stores lies on a disk of {size}{others}"


def _disk(node: Node, folder: str) -> _Disk:
    path = f"{NODE_DATA}/{folder}"
    told = must(node, ["df", "-B1", "--output=target,size,avail", "--", path])
    found = re.search(r"(?m)^(/\S*) +(\d+) +(\d+)$", told)
    if found is None:
        raise HarnessFailure(f"{node.name}: the size of its disk is not told: {told.strip()[:200]}")
    return _Disk(found[1], int(found[2]), int(found[3]))


def _fill(node: Node, folder: str, fault: str) -> None:
    """Write into a fault's file until nothing is free, never more than the disk's size at once."""
    path, most = _path(folder, fault), _disk(node, folder).size_bytes // _FILL_BYTES
    sizes = [f"bs={_FILL_BYTES}", f"count={most}", "oflag=append", "conv=notrunc", "status=none"]

    def full() -> bool:
        node.admin(["dd", "if=/dev/zero", f"of={path}", *sizes])  # fails where the disk ends
        return _disk(node, folder).free_bytes == 0

    if not poll_until(full, within_s=_FULL_S):
        raise HarnessFailure(f"{node.name}: {_disk(node, folder).free_bytes} bytes stay free")


def _faults(node: Node, folder: str) -> list[str]:
    """The faults whose files lie there."""
    path = f"{NODE_DATA}/{folder}"
    told = node.admin(["find", path, "-maxdepth", "1", "-name", f"{_OURS}*", "-printf", "%f\\n"])
    return sorted(line.removeprefix(_OURS) for line in told.output.splitlines())


def _path(folder: str, fault: str) -> str:
    return f"{NODE_DATA}/{folder}/{_OURS}{fault}"
