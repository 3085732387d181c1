"""The disk lever: damages what a node has stored, as a lost disk or a power loss would.

Which files are deleted, cut or changed, and how, is planned by pure functions of names, sizes and
bytes. Folders are wiped, and the newest file of a folder is truncated or has bits flipped, whatever
the files are. What a power loss leaves, and what formatting writes, depends on how a target stores
(`Storage`).

The process is killed first (unless the damage is to happen under it), then the files are changed;
the undo starts the process again. What was deleted is not brought back: its loss is the fault. What
was on the disk before, and what was to change, is kept in our own file in the node's data folder,
`ackloss-disk/FAULT.json`, written before the first change: so a probe in any process can compare, a
second `apply` does nothing more, and `undo` removes the file.
"""

from __future__ import annotations

import json
import random
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import ClassVar, Final, Literal, Protocol

from pydantic import TypeAdapter

from harness.errors import HarnessFailure
from harness.faults.records import DiskRecord
from harness.levers.commands import must
from harness.levers.process import end_process, ended, runs_again, start_again
from harness.levers.storage import unequipped
from harness.protocols import NODE_DATA, Lever, Node, Proof

MOST_BYTES = 256 * 2**20
"""How much is read of one folder, at most."""

Sizes = Mapping[str, int]
Read = Callable[[str], bytes]
"""The bytes of a file, empty when it is absent."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change of one path below the node's data folder.

    delete  the file or the complete folder
    resize  cut to `size_bytes`
    zero    keep the length, zeros from `size_bytes` on
    flip    the byte at each place becomes another: `flips` are (place, new byte)
    write   the file becomes `content`
    """

    how: Literal["delete", "resize", "zero", "flip", "write"]
    path: str
    summary: str
    size_bytes: int = 0
    flips: tuple[tuple[int, int], ...] = ()
    content: str = ""


class Storage(Protocol):
    """How a target stores, as far as a damage depends on it. Pure: the files are given."""

    @abstractmethod
    def segments(self, folder: str, sizes: Sizes) -> list[str]:
        """The files of a folder that hold what clients wrote, the newest last."""

    @abstractmethod
    def unsynced(
        self, folder: str, record: DiskRecord, sizes: Sizes, read: Read, draw: random.Random
    ) -> list[Change]:
        """A folder as a power loss could leave it: what is not known to be fsynced is gone, but for
        the share that the record keeps. Raises ValueError when there is too much to read."""

    @abstractmethod
    def reformatted(self, record: DiskRecord, sizes: Sizes, read: Read) -> list[Change]:
        """A new disk in an old node: it holds only what formatting writes."""


def planned(record: DiskRecord, sizes: Sizes, read: Read, storage: Storage | None) -> list[Change]:
    """The changes that a record requests, of files of these sizes; none when nothing matches.

    Raises ValueError for a form that needs to know how the target stores, where that is unknown.
    """
    folders = matching(sizes, record.folders)
    if record.form == "wipe":
        return [Change(how="delete", path=folder, summary="deleted") for folder in folders]
    if why := unknown_storage(record, storage):
        raise ValueError(why)
    if storage is not None and record.form == "reformat":
        return storage.reformatted(record, sizes, read)
    changes: list[Change] = []
    for folder in folders:
        draw = random.Random(f"{record.seed}/{record.fault}/{record.node}/{folder}")
        if storage is not None and record.form == "unsynced":
            changes += storage.unsynced(folder, record, sizes, read, draw)
            continue
        # by name: where a target numbers its files, the newest is last
        inside = sorted(path for path in sizes if path.rpartition("/")[0] == folder)
        files = storage.segments(folder, sizes) if storage else inside
        newest = [path for path in files if sizes[path]][-1:]
        if record.form == "truncate":
            for path in newest:
                left = max(0, sizes[path] - record.cut_bytes)
                summary = f"its last {sizes[path] - left:,} bytes cut off"
                changes.append(Change(how="resize", path=path, summary=summary, size_bytes=left))
        else:
            changes += [_flipped(path, record.flip_count, sizes, read, draw) for path in newest]
    return changes


def unknown_storage(record: DiskRecord, storage: Storage | None) -> str | None:
    """None, or why a damage is impossible without knowing how the target stores."""
    if storage is None and record.form in ("unsynced", "reformat"):
        return f"how the target stores is not known, and the form {record.form!r} depends on it"
    return None


def matching(sizes: Sizes, patterns: Sequence[str]) -> list[str]:
    """The folders that match a pattern, part by part: `*` never spans a slash."""
    folders = sorted({path.rpartition("/")[0] for path in sizes} - {""})
    return [folder for folder in folders if any(_fits(folder, p) for p in patterns)]


def _fits(path: str, pattern: str) -> bool:
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def check_size(read: Sizes) -> None:
    """Raise ValueError when files are too large to be read."""
    if sum(read.values()) > MOST_BYTES:
        raise ValueError(f"{', '.join(read)}: more than {MOST_BYTES:,} bytes to read")


def _flipped(path: str, flip_count: int, sizes: Sizes, read: Read, draw: random.Random) -> Change:
    """A file with some bits flipped, drawn from the seed."""
    check_size({path: sizes[path]})
    content = bytearray(read(path))
    bits = sorted(draw.sample(range(8 * len(content)), min(flip_count, 8 * len(content))))
    for bit in bits:
        content[bit // 8] ^= 1 << bit % 8
    places = sorted({bit // 8 for bit in bits})
    flips = tuple((place, content[place]) for place in places)
    summary = f"{len(bits):,} bits flipped, the first in byte {places[0]:,}"
    return Change(how="flip", path=path, summary=summary, flips=flips)


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
        process = _process(node, record, applied=applied)
        if applied:
            files = _in_force(node, record)
        elif _damage(node, record.fault) is None:
            files = Proof(True, [])
        else:
            files = Proof(False, [f"{node.name}: our file of this fault is left"])
        return Proof(files.proven and process.proven, [*process.evidence, *files.evidence])

    def leftover_state(self, node: Node) -> list[str]:
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


def _below(path: str, sizes: Mapping[str, int]) -> list[int]:
    return [size for name, size in sizes.items() if name == path or name.startswith(f"{path}/")]


def _make(node: Node, change: Change, size_bytes: int) -> None:
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
