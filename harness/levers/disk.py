"""The levers of what a node stores: it is damaged, cannot be changed, or has no room.

The disk lever: damages what a node has stored, as a lost disk or a power loss would.

Which files are deleted, cut or changed, and how, is planned by pure functions of names, sizes and
bytes. Folders are wiped, and the newest file of a folder is truncated or has bits flipped, whatever
the files are. What a power loss leaves, and what formatting writes, depends on how a target stores
(`Storage`).

The process is killed first (unless the damage is to happen under it), then the files are changed;
the undo starts the process again. What was deleted is not brought back: its loss is the fault. What
was on the disk before, and what was to change, is kept in our own file in the node's data folder,
`ackloss-disk/FAULT.json`, written before the first change: so a probe in any process can compare, a
second `apply` does nothing more, and `undo` removes the file.

Under two levers a node cannot store any more. That a block of ours cannot be written shows that
the mechanism works. The system has met the fault when its own process ended by itself, or when what
it writes beside its data (its log, on another disk) has more lines than before with the kernel's
words for the refusal. A process that died of the fault is started again when it is undone.

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

import json
import random
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import ClassVar, Final, Literal, Protocol, TypeVar

from pydantic import TypeAdapter

from harness.errors import HarnessFailure
from harness.faults.records import DiskRecord, FullRecord, ReadOnlyRecord, StorageRecord
from harness.levers.commands import marks, must, poll_until
from harness.levers.process import (
    end_process,
    ended,
    kept_dead_by,
    not_running,
    runs_again,
    start_again,
)
from harness.protocols import NODE_DATA, STORED, Completed, Lever, Node, Proof

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
        """If a command, a process to kill, or knowledge of the form's files is missing."""
        return unknown_storage(record, self.storage) or unequipped(node)

    def apply(self, record: DiskRecord) -> None:
        """Kill the process; unless it was applied before, record what is there and change it."""
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
        """Start it again, unless it was dead or another fault keeps it dead; remove our file."""
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


RecordT = TypeVar("RecordT", bound=StorageRecord)

TOOLS = ("find", "truncate", "dd", "df", "rm", "sh", "chmod", "setpriv")
"""The commands that `Node.admin` must have."""


def unequipped(node: Node) -> str | None:
    """None, or which commands a node lacks, or that its process does not run."""
    if node.admin(["which", *TOOLS]).exit_code:
        return f"{node.name} lacks one of {', '.join(TOOLS)}"
    return not_running(node)


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
    """Whether the target's process runs or a fault keeps it dead, and what is so, in words."""
    state = node.process()
    if state.running:
        return True, "its process runs"
    by = kept_dead_by(node)
    words = f"its process has ended with exit code {state.exit_code}"
    return bool(by), words + (f", kept dead by {', '.join(by)}" if by else "")


def refusals(node: Node, words: str) -> int | None:
    """How many lines beside a node's data have these words (a pattern of grep); None: not seen."""
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
        """Restore it unless another fault keeps it read-only; start the process that this ended."""
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
        """Folders that cannot be written to, but for those that the system removes meanwhile."""
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
        """Fill the disk. Raises HarnessFailure if that is not allowed, or it does not stay full."""
        node = self.nodes[record.node]
        if why := unbounded(node, record.folder):
            raise HarnessFailure(why)
        _fill(node, record.folder, record.fault)

    def undo(self, record: FullRecord) -> None:
        """Free it unless another fault keeps the disk full; start the process that this ended."""
        node, folder = self.nodes[record.node], record.folder
        must(node, ["rm", "-f", "--", _filler(folder, record.fault)])
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
    to_file = ["if=/dev/zero", f"of={_filler(folder, fault)}", *how]

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


def _filler(folder: str, fault: str) -> str:
    return f"{NODE_DATA}/{folder}/{_FULL}{fault}"
