"""ZooKeeper's log of transactions, as servers leave it at the end of a run:
`nodes/<node>/log.<first zxid>`, without the zeros up to the size that it is allocated with.

After its header a log has entries (`FileTxnLog`): the Adler-32 of a transaction, its length, its
bytes (session, number of the request, zxid, time, kind, then the record), and 0x42. A last one that
is not complete was being written. A server that takes a snapshot of its leader (SNAP) keeps the
logs that it had; one that has to cut its log (TRUNC) does not.
"""

from __future__ import annotations

import re
import struct
import tarfile
import zlib
from base64 import b64decode
from collections.abc import Iterator
from io import BytesIO
from itertools import groupby
from typing import IO, Any, Final

from harness.history.run_folder import RunDir
from harness.protocols import Node
from harness.protocols.explanations import Holding
from targets.zookeeper.configuration import DATA

BYTES_AT_MOST: Final = 8 * 1024 * 1024
"""What is copied of one server, or nothing."""

_NAMED: Final = re.compile(r"log\.[0-9a-f]+")
_COPY: Final = 'cd "$0" && tar -cS log.* 2>/dev/null | head -c "$1" | base64'
_COPY_S: Final = 30.0
_MAGIC: Final = b"ZKLG"
_FILE: Final = struct.Struct(">4siq")
_FRAME: Final = struct.Struct(">qi")
_TRANSACTION: Final = struct.Struct(">qiqqi")
_END: Final = b"B"
_LONGEST: Final = 16 * 1024 * 1024


class Damaged(Exception):
    """What follows in a log is not known: one sentence that says why."""


def copied(node: Node) -> dict[str, bytes]:
    """The logs of a server by their names, without their final zeros, most of which do not leave
    the node (`tar -S`). None where they are too large, or it has no such folder."""
    folder, most = f"{DATA}/version-2", str(BYTES_AT_MOST)
    done = node.admin(["sh", "-c", _COPY, folder, most], timeout_s=_COPY_S)
    try:
        with tarfile.open(fileobj=BytesIO(b64decode(done.output))) as logs:
            return {log.name: _written(logs, log) for log in logs if _NAMED.fullmatch(log.name)}
    except (ValueError, tarfile.TarError):
        return {}


def _written(logs: tarfile.TarFile, log: tarfile.TarInfo) -> bytes:
    """A log up to the last of its blocks that are not zeros; a block of them may end it."""
    blocks, end = _file(logs, log), 0
    segments: Any = log.sparse or [(0, log.size)]
    for at, size in segments:
        blocks.seek(at)
        end = at + size if blocks.read(size).strip(b"\0") else end
    return _file(logs, log).read(end).rstrip(b"\0")


def _file(logs: tarfile.TarFile, log: tarfile.TarInfo) -> IO[bytes]:
    """One that is read forwards: `tarfile` does not find its way back in a sparse one."""
    found = logs.extractfile(log)
    assert found is not None
    return found


def transactions(raw: bytes) -> Iterator[int]:
    """The zxids of those of one log without its final zeros, in order. Raises Damaged behind the
    last one before bytes that no server has written so."""
    if len(raw) < _FILE.size:
        return
    if not raw.startswith(_MAGIC):
        raise Damaged("it does not begin as a log does")
    at = _FILE.size
    while at + _FRAME.size <= len(raw):
        checksum, length = _FRAME.unpack_from(raw, at)
        begin, end = at + _FRAME.size, at + _FRAME.size + length
        if not _TRANSACTION.size <= length <= _LONGEST:
            raise Damaged(f"at byte {at:,} no transaction is {length:,} bytes long")
        if end >= len(raw):
            return
        if zlib.adler32(raw[begin:end]) != checksum or raw[end : end + 1] != _END:
            raise Damaged(f"the transaction at byte {at:,} has another checksum")
        _, _, zxid, _, _ = _TRANSACTION.unpack_from(raw, begin)
        yield zxid
        at = end + 1


def held(rundir: RunDir) -> Iterator[Holding]:
    """What the logs of a run's servers have, of each server that left some."""
    named = [f for f in rundir.of_run.path.glob("nodes/*/log.*") if _NAMED.fullmatch(f.name)]
    named.sort(key=lambda file: (file.parent.name, int(file.suffix[1:], 16)))
    for node, files in groupby(named, key=lambda file: file.parent.name):
        places, why_not = dict[int, str](), ""
        for file in files:
            try:
                for zxid in transactions(file.read_bytes()):
                    places[zxid] = f"nodes/{node}/{file.name}:{zxid:#x}"
            except Damaged as error:
                why_not = f"{file.name}: {error}"
        yield Holding(node=node, places=places, why_not=why_not)
