"""Temporary folders named after their process, so that those of a dead process can be removed."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

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
