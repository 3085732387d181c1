"""The disk lever: damages what a node has stored, as a lost disk or a power loss would.

The process is killed first (unless the damage is to happen under it), then the files are changed;
the undo starts the process again. What was deleted is not brought back: its loss is the fault. What
was on the disk before, and what was to change, is kept in our own file in the node's data folder,
`ackloss-disk/FAULT.json`, written before the first change: so a probe in any process can compare, a
second `apply` does nothing more, and `undo` removes the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar, Final

from pydantic import TypeAdapter

from harness.errors import HarnessFailure
from harness.faults.records import DiskRecord
from harness.levers.commands import must
from harness.levers.disk_changes import Change, Storage, planned, unknown_storage
from harness.levers.equipment import unequipped
from harness.levers.process import end_process, ended, runs_again, start_again
from harness.protocols import NODE_DATA, Lever, Node, Proof, UndoRecord

_DAMAGES = "ackloss-disk"
_FLIP = 'printf %b "$1" | dd of="$2" bs=1 seek="$3" conv=notrunc status=none'


@dataclass(frozen=True, kw_only=True)
class Damage:
    """Our file of one fault on a node: every file's size before, and the changes to be made."""

    before: dict[str, int]
    changes: tuple[Change, ...]


_DAMAGE: Final = TypeAdapter(Damage)


@dataclass(frozen=True)
class DiskLever(Lever[DiskRecord]):
    """Deletes, cuts or changes files of a node whose process it has killed. `storage` is how the
    target stores; without it, the forms that depend on that are unavailable."""

    nodes: Mapping[str, Node]
    storage: Storage | None = None
    name: ClassVar[str] = "disk"
    record_type: ClassVar[type[UndoRecord]] = DiskRecord

    def unavailable(self, node: Node, record: DiskRecord) -> str | None:
        """If a command, a process to kill, or knowledge of the files that the form needs is
        missing."""
        return unknown_storage(record, self.storage) or unequipped(node)

    def apply(self, record: DiskRecord) -> None:
        """Kill the process, record what is there, change it. If it was applied before, only the
        first."""
        node = self.nodes[record.node]
        if not record.alive:
            end_process(node, record)
            if node.process().running:
                raise HarnessFailure(f"{node.name}: its process still runs: files left alone")
        if _damage(node, record.fault) is not None:
            return
        sizes = _sizes(node)
        try:
            changes = planned(record, sizes, lambda path: _read(node, path), self.storage)
        except ValueError as error:
            raise HarnessFailure(f"{node.name}: {error}") from error
        damage = Damage(before=sizes, changes=tuple(changes))
        node.put({_path(record.fault): json.dumps(asdict(damage)).encode()})
        for change in changes:
            _make(node, change, sizes.get(change.path, 0))

    def undo(self, record: DiskRecord) -> None:
        """Start the process again, unless it was dead before or another fault keeps it dead, and
        remove our file."""
        node = self.nodes[record.node]
        start_again(node, record)
        must(node, ["rm", "-f", "--", f"{NODE_DATA}/{_path(record.fault)}"])
        node.admin(["rmdir", f"{NODE_DATA}/{_DAMAGES}"])  # fails, as it should, if others are there

    def probe(self, record: DiskRecord, *, applied: bool) -> Proof:
        """In force: the files are as our file says they were to become, under a dead process.
        Undone: the process runs, unless another fault keeps it dead, and our file is gone."""
        node = self.nodes[record.node]
        files = _in_force(node, record) if applied else _gone(node, record)
        process = _process(node, record, applied=applied)
        return Proof(files.proven and process.proven, [*process.evidence, *files.evidence])

    def leftover_state(self, node: Node) -> list[str]:
        """Our files that are on a node."""
        found = node.admin(["find", f"{NODE_DATA}/{_DAMAGES}", "-name", "*.json"])
        damages = found.output.splitlines() if found.exit_code == 0 else []
        return [f"{node.name}: files were damaged: {damage}" for damage in damages]


def _process(node: Node, record: DiskRecord, *, applied: bool) -> Proof:
    if not applied:
        return runs_again(node, record, another=not record.alive)
    if record.pid is None:
        dead = not node.process().running
        return Proof(dead, [f"{node.name}: its process was dead before"])
    if not record.alive:
        return ended(node, record)
    outcome = "still runs" if node.process().running else "has ended"
    return Proof(True, [f"{node.name}: process {record.pid} {outcome}"])


def _in_force(node: Node, record: DiskRecord) -> Proof:
    damage = _damage(node, record.fault)
    if damage is None:
        return Proof(False, [f"{node.name}: no file was changed"])
    if not damage.changes:
        return Proof(False, [f"{node.name}: there was nothing to change ({record.form})"])
    sizes = _sizes(node)
    proofs = [_seen(node, change, damage.before, sizes) for change in damage.changes]
    return Proof(
        all(proof.proven for proof in proofs), [line for p in proofs for line in p.evidence]
    )


def _seen(node: Node, change: Change, before: Mapping[str, int], sizes: Mapping[str, int]) -> Proof:
    """Whether a change is there, in what is on the disk now."""
    path = change.path
    if change.how == "delete":
        was, left = _below(path, before), _below(path, sizes)
        counts = f"{len(was)} files with {sum(was):,} bytes before, {len(left)} now"
        return Proof(bool(was) and not left, [f"{node.name}: {path}: {counts}"])
    if change.how == "resize":
        proven = sizes.get(path) == change.size_bytes < before[path]
    else:
        content = _read(node, path)
        proven = {
            "zero": not any(content[change.size_bytes :]) and len(content) == before[path],
            "flip": all(content[at : at + 1] == bytes([byte]) for at, byte in change.flips),
            "write": content == change.content.encode(),
        }[change.how]
    summary = change.summary if proven else f"NOT {change.summary}"
    evidence = f"{before[path]:,} bytes before, {sizes.get(path, 0):,} now; {summary}"
    return Proof(proven, [f"{node.name}: {path}: {evidence}"])


def _gone(node: Node, record: DiskRecord) -> Proof:
    left = _damage(node, record.fault) is not None
    return Proof(not left, [f"{node.name}: our file of this fault is left"] if left else [])


def _below(path: str, sizes: Mapping[str, int]) -> list[int]:
    return [size for name, size in sizes.items() if name == path or name.startswith(f"{path}/")]


def _make(node: Node, change: Change, size_bytes: int) -> None:
    """Make one change, in place."""
    path = f"{NODE_DATA}/{change.path}"
    if change.how == "delete":
        must(node, ["rm", "-rf", "--", path])
    elif change.how == "write":
        node.put({change.path: change.content.encode()})
    elif change.how == "flip":
        for place, byte in change.flips:
            must(node, ["sh", "-c", _FLIP, "flip", f"\\0{byte:03o}", path, str(place)])
    else:
        must(node, ["truncate", "-s", str(change.size_bytes), "--", path])
        if change.how == "zero":
            must(node, ["truncate", "-s", str(size_bytes), "--", path])


def _sizes(node: Node) -> dict[str, int]:
    """Every file below the node's data folder with its size, without our own."""
    listed = node.admin(["find", NODE_DATA, "-type", "f", "-printf", "%s %P\\n"])
    found = re.findall(r"(?m)^(\d+) (.+)$", listed.output)
    return {path: int(size) for size, path in found if not path.startswith(f"{_DAMAGES}/")}


def _read(node: Node, path: str) -> bytes:
    return next(iter(node.get(path).values()), b"")


def _path(fault: str) -> str:
    return f"{_DAMAGES}/{fault}.json"


def _damage(node: Node, fault: str) -> Damage | None:
    content = _read(node, _path(fault))
    return _DAMAGE.validate_json(content) if content else None
