"""What a damaged disk looks like: which files of a node are deleted, cut or changed, and how.

Pure functions of names, sizes and bytes; `harness.levers.disk` carries the changes out. Folders are
wiped, and the newest file of a folder is truncated or has bits flipped, whatever the files are.
What a power loss leaves, and what formatting writes, depends on how a target stores (`Storage`).
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, Protocol

from harness.faults.records import DiskRecord

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
        ...

    @abstractmethod
    def unsynced(
        self, folder: str, record: DiskRecord, sizes: Sizes, read: Read, draw: random.Random
    ) -> list[Change]:
        """A folder as a power loss could leave it: what is not known to be fsynced is gone, but for
        the share that the record keeps. Raises ValueError when there is too much to read."""
        ...

    @abstractmethod
    def reformatted(self, record: DiskRecord, sizes: Sizes, read: Read) -> list[Change]:
        """A new disk in an old node: it holds only what formatting writes."""
        ...


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
        files = storage.segments(folder, sizes) if storage else _files(folder, sizes)
        newest = [path for path in files if sizes[path]][-1:]
        if record.form == "truncate":
            changes += [_truncated(path, record.cut_bytes, sizes) for path in newest]
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


def _files(folder: str, sizes: Sizes) -> list[str]:
    """The files of a folder by name: where a target numbers its files, the newest is last."""
    return sorted(path for path in sizes if path.rpartition("/")[0] == folder)


def check_size(read: Sizes) -> None:
    """Raise ValueError when files are too large to be read."""
    if sum(read.values()) > MOST_BYTES:
        raise ValueError(f"{', '.join(read)}: more than {MOST_BYTES:,} bytes to read")


def _truncated(path: str, cut_bytes: int, sizes: Sizes) -> Change:
    """A file without its last bytes."""
    return Change(
        how="resize",
        path=path,
        summary=f"its last {min(cut_bytes, sizes[path]):,} bytes cut off",
        size_bytes=max(0, sizes[path] - cut_bytes),
    )


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
