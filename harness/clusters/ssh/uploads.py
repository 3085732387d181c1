"""Folders and files that the nodes' image would hold, uploaded to a host once and kept there."""

from __future__ import annotations

import hashlib
import tarfile
from functools import lru_cache
from pathlib import Path

from harness.clusters.ssh.host import Host
from harness.clusters.ssh.scripts import UPLOADS
from harness.errors import EnvironmentFailure
from harness.machine.scratch import scratch

_UNPACK_S = 120


def uploaded(host: Host, source: Path, run_id: str) -> str:
    """Where a local file or folder is on a host; uploaded unless it is there. What was begun and
    not finished has the run's id in its name, and goes with the run. Raises EnvironmentFailure."""
    kept = f"{UPLOADS}/{digest(source)}"
    inside = f"{kept}/{source.name}"
    if host.admin(["test", "-e", inside]).exit_code == 0:
        return inside
    half = f"{kept}.{run_id}"
    user = host.entry.user
    begin = 'mkdir -p "$0" "$1.part" && : >"$1.tar" && chown "$2" "$1.tar"'
    _must(host, ["sh", "-c", begin, UPLOADS, half, user])
    with scratch() as folder:
        packed = Path(folder) / "upload.tar"
        with tarfile.open(packed, "w") as archive:
            archive.add(source, source.name)
        with packed.open("rb") as content:
            host.connection.upload(content, f"{half}.tar", size_bytes=packed.stat().st_size)
    unpack = (
        'tar -x --no-same-owner -C "$0.part" -f "$0.tar" && rm "$0.tar" && '
        '{ mv -T "$0.part" "$1" 2>/dev/null || rm -rf "$0.part"; }'
    )
    _must(host, ["sh", "-c", unpack, half, kept], timeout_s=_UNPACK_S)
    return inside


@lru_cache(maxsize=64)
def digest(source: Path) -> str:
    """A hash of the names and contents of a file, or of all files of a folder."""
    total = hashlib.sha256()
    files = [source] if source.is_file() else sorted(p for p in source.rglob("*") if p.is_file())
    for path in files:
        with path.open("rb") as content:
            total.update(str(path.relative_to(source.parent)).encode())
            total.update(hashlib.file_digest(content, "sha256").digest())
    return total.hexdigest()[:24]


def _must(host: Host, argv: list[str], *, timeout_s: float = 10) -> None:
    done = host.admin(argv, timeout_s=timeout_s)
    if done.exit_code:
        raise EnvironmentFailure(
            f"{host.where}: files cannot be uploaded: {done.output.strip()[:300]}",
            hint="`ackloss doctor --inventory` shows the room on its disk",
        )
