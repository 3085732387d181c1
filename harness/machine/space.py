"""Disk and memory of this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil

DISK_MIN_BYTES = 2 << 30
"""What a run needs on a disk that it writes to."""


def free_bytes(folder: Path) -> int:
    """Free space where something will be written; the folder itself need not exist yet."""
    return shutil.disk_usage(existing(folder)).free


def existing(folder: Path) -> Path:
    """The folder, or the nearest existing one above it."""
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    return folder


def memory_available() -> int:
    """Bytes of memory that programs may still use."""
    return int(psutil.virtual_memory().available)


def gib(count_bytes: int) -> str:
    """A size in words."""
    return f"{count_bytes / (1 << 30):.1f} GiB"
