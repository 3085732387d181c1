"""Files that are replaced completely or not at all, also on a disk that becomes full; and programs
of this machine."""

from __future__ import annotations

import io
import os
import re
import secrets
import shutil
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from harness.errors import disk_errors

# Tar archives in memory, as Docker takes and gives files.


def packed(files: Mapping[str, bytes]) -> bytes:
    """An archive of these files, by name, and of the folders that they need."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        folders: set[str] = set()
        for name, content in files.items():
            for parent in reversed(Path(name).parents[:-1]):
                if str(parent) not in folders:
                    folders.add(str(parent))
                    folder = tarfile.TarInfo(str(parent))
                    folder.type, folder.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(folder)
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def unpacked(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Name and content of every regular file of an archive."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for member in members:
            if member.isfile() and (content := members.extractfile(member)) is not None:
                yield member.name, content.read()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; at the end the file is fsynced and renamed into place.
    Raises OSError; `path` is then as it was.

    Each writer has its own, so several may write at the same time: the last one counts. Its name
    begins with a dot, so what a crash leaves is ignored.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    try:
        yield partial
        with partial.open("rb") as stream:
            os.fsync(stream.fileno())
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file by one with this content. Raises OSError; `path` is then as it was."""
    with replacing(path) as partial:
        partial.write_bytes(content)


def replace_state(path: Path, content: bytes) -> None:
    """Replace a file of the state folder. Raises EnvironmentFailure; the file is then as it was."""
    hint = "set ACKLOSS_STATE to a writable folder"
    with disk_errors("cannot write the state folder", path, hint=hint):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)


def run_program(
    argv: Sequence[str], *, timeout_s: float, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program without input, and keep what it prints, whatever its exit code is. Raises
    OSError, and TimeoutExpired. `options`: as `subprocess.run` has them; with its own session,
    Ctrl-C at the terminal does not reach it."""
    return subprocess.run(
        argv,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
        stdin=subprocess.DEVNULL,
        **options,
    )


# Temporary folders named after their process, so that those of a dead process can be removed.

_NAME = re.compile(r"ackloss-(\d+)-\w+")


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A temporary folder of this process, removed at the end of its context."""
    return tempfile.TemporaryDirectory(prefix=f"ackloss-{os.getpid()}-")


def remove_abandoned(*, dry_run: bool) -> list[str]:
    """Remove this user's temporary folders whose process is dead; returns a line for each."""
    import psutil  # an executor of Spark makes temporary folders, and has none

    removed = []
    for path in sorted(Path(tempfile.gettempdir()).glob("ackloss-*")):
        match = _NAME.fullmatch(path.name)
        if match is None or not _is_our_folder(path):
            continue
        if not psutil.pid_exists(int(match[1])):
            removed.append(f"temporary folder {path}")
            if not dry_run:
                shutil.rmtree(path, ignore_errors=True)
    return removed


def _is_our_folder(path: Path) -> bool:
    """Whether it is a folder of this user; not one that its process has removed meanwhile."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
