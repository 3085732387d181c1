"""What a damaged disk looks like: which files of a node are deleted, cut or changed, and how.

Pure functions of names, sizes and bytes; `harness.levers.disk` carries the changes out. They know
how Kafka stores a log: a folder `TOPIC-PARTITION` of segments, each named by its first offset and
made of record batches (format v2), and beside the folders `recovery-point-offset-checkpoint`, the
offset up to which each log was fsynced. Nothing at or above that offset need survive a power loss.
"""

from __future__ import annotations

import base64
import hashlib
import random
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from harness.faults.records import DiskRecord

CHECKPOINT = "recovery-point-offset-checkpoint"

_MOST_BYTES = 256 * 2**20
_SEGMENT = re.compile(r"\d{20}\.log$")
_HEADER_BYTES, _OVERHEAD_BYTES = 61, 12
_KEPT_BY_FORMAT = ("data/meta.properties", "data/bootstrap.checkpoint")


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change of one path below the node's data folder.

    delete  the file or the whole folder
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


class Batch(NamedTuple):
    """A record batch: its first and last offset, where it lies in its segment, and its length."""

    first: int
    last: int
    place: int
    size_bytes: int


Sizes = Mapping[str, int]
Read = Callable[[str], bytes]
"""The bytes of a file, empty when it is absent."""


def planned(record: DiskRecord, sizes: Sizes, read: Read) -> list[Change]:
    """The changes that a record requests, of files of these sizes; none when nothing fits."""
    if record.form == "reformat":
        return _reformatted(record, sizes, read)
    folders = matching(sizes, record.folders)
    if record.form == "wipe":
        return [Change(how="delete", path=folder, summary="deleted") for folder in folders]
    changes: list[Change] = []
    for folder in folders:
        draw = random.Random(f"{record.seed}/{record.fault}/{record.node}/{folder}")
        if record.form == "unsynced":
            changes += _unsynced(folder, record, sizes, read, draw)
        elif record.form == "truncate":
            changes += _truncated(folder, record.cut_bytes, sizes)
        else:
            changes += _flipped(folder, record.flip_count, sizes, read, draw)
    return changes


def matching(sizes: Sizes, patterns: Sequence[str]) -> list[str]:
    """The folders that match a pattern, part by part: `*` never spans a slash."""
    folders = sorted({path.rpartition("/")[0] for path in sizes} - {""})
    return [folder for folder in folders if any(_fits(folder, p) for p in patterns)]


def _fits(path: str, pattern: str) -> bool:
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def batches(segment: bytes) -> list[Batch]:
    """The complete batches of a segment, up to its end or to the first bytes that are none."""
    found, place = [], 0
    while place + _HEADER_BYTES <= len(segment):
        first, length = struct.unpack_from(">qi", segment, place)
        size_bytes = length + _OVERHEAD_BYTES
        complete = _HEADER_BYTES <= size_bytes <= len(segment) - place
        if not complete or segment[place + 16] != 2:
            break
        (delta,) = struct.unpack_from(">i", segment, place + 23)
        found.append(Batch(first, first + delta, place, size_bytes))
        place += size_bytes
    return found


def recovery_points(checkpoint: bytes) -> dict[str, int]:
    """The offset up to which each log was fsynced, by folder name; empty while there is no file."""
    rows = (line.rsplit(" ", 2) for line in checkpoint.decode().splitlines()[2:])
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in rows}


def segments(folder: str, sizes: Sizes) -> list[str]:
    """The segments of a log, the newest last."""
    found = [path for path in sizes if path.rpartition("/")[0] == folder]
    return sorted(path for path in found if _SEGMENT.match(path.rpartition("/")[2]))


def _unsynced(
    folder: str, record: DiskRecord, sizes: Sizes, read: Read, draw: random.Random
) -> list[Change]:
    """A log as a power loss could leave it: everything below its recovery point, and of the batches
    above only the first ones, `keep_share` of them."""
    above, name = folder.rpartition("/")[::2]
    if name.startswith("__cluster_metadata"):
        return []  # each of its writes is fsynced
    synced = recovery_points(read(f"{above}/{CHECKPOINT}")).get(name, 0)
    logs = segments(folder, sizes)
    ends = [*(_base(path) for path in logs[1:]), None]
    logs = [path for path, end in zip(logs, ends, strict=True) if end is None or end > synced]
    _check_size({path: sizes[path] for path in logs})
    loose = [(path, b) for path in logs for b in batches(read(path)) if b.first >= synced]
    share = draw.random() if record.keep_share == "random" else record.keep_share
    kept = int(share * len(loose))
    if kept == len(loose):
        return []
    path, lost = loose[kept]
    summary = (
        f"cut at offset {lost.first:,}, its end was {loose[-1][1].last + 1:,}, "
        f"fsynced up to {synced:,}"
    )
    torn = draw.randint(1, lost.size_bytes - 1) if record.tail == "torn" else 0
    return [
        Change(
            how="zero" if record.tail == "zeros" else "resize",
            path=path,
            summary=summary,
            size_bytes=lost.place + torn,
        ),
        *_deleted([later for later in logs if _base(later) > _base(path)], sizes),
    ]


def _deleted(logs: Sequence[str], sizes: Sizes) -> list[Change]:
    """Segments that are entirely above a cut, with their indexes and snapshots."""
    stems = {path.rpartition(".")[0] for path in logs}
    return [
        Change(how="delete", path=path, summary="deleted, it began above the cut")
        for path in sorted(sizes)
        if path.rpartition(".")[0] in stems
    ]


def _base(segment: str) -> int:
    return int(segment.rpartition("/")[2].partition(".")[0])


def _truncated(folder: str, cut_bytes: int, sizes: Sizes) -> list[Change]:
    """The newest segment that holds anything, without its last bytes."""
    return [
        Change(
            how="resize",
            path=path,
            summary=f"its last {min(cut_bytes, sizes[path]):,} bytes cut off",
            size_bytes=max(0, sizes[path] - cut_bytes),
        )
        for path in _newest(folder, sizes)
    ]


def _flipped(
    folder: str, flip_count: int, sizes: Sizes, read: Read, draw: random.Random
) -> list[Change]:
    """Bits of the newest segment that holds anything, drawn from the seed."""
    changes = []
    for path in _newest(folder, sizes):
        _check_size({path: sizes[path]})
        content = bytearray(read(path))
        bits = sorted(draw.sample(range(8 * len(content)), min(flip_count, 8 * len(content))))
        for bit in bits:
            content[bit // 8] ^= 1 << bit % 8
        places = sorted({bit // 8 for bit in bits})
        flips = tuple((place, content[place]) for place in places)
        summary = f"{len(bits):,} bits flipped, the first in byte {places[0]:,}"
        changes.append(Change(how="flip", path=path, summary=summary, flips=flips))
    return changes


def _newest(folder: str, sizes: Sizes) -> list[str]:
    return [path for path in segments(folder, sizes) if sizes[path]][-1:]


def _check_size(read: Sizes) -> None:
    if sum(read.values()) > _MOST_BYTES:
        raise ValueError(f"{', '.join(read)}: more than {_MOST_BYTES:,} bytes to read")


def _reformatted(record: DiskRecord, sizes: Sizes, read: Read) -> list[Change]:
    """A new disk in an old node: it holds only what formatting writes, with another directory id.
    The id is made from the old one and the fault, so that both are known afterwards."""
    tops = sorted({"/".join(path.split("/")[:2]) for path in sizes if path.startswith("data/")})
    meta, _ = _KEPT_BY_FORMAT
    old = read(meta).decode()
    if not old:
        return []
    digest = hashlib.sha256(f"{record.seed}/{record.fault}/{old}".encode()).digest()
    new_id = base64.urlsafe_b64encode(digest[:16]).decode().rstrip("=")
    return [
        *(
            Change(how="delete", path=top, summary="deleted")
            for top in tops
            if top not in _KEPT_BY_FORMAT
        ),
        Change(
            how="write",
            path=meta,
            summary=f"written again with directory.id {new_id}",
            content=re.sub(r"(?m)^directory\.id=.*$", f"directory.id={new_id}", old),
        ),
    ]
