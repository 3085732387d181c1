"""Checks of this machine, each a finding with the command that fixes it. They change nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil

from harness.protocols import Finding, Status

# Disk and memory of this machine.

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


DISK_LOW_BYTES: Final = 8 << 30
_MAVEN_MIN: Final = (3, 6)


def disk(name: str, folder: Path, *, by_us: bool = True) -> Finding:
    """Free space where something will be written, by us or by another's daemon; the folder itself
    need not exist yet."""
    place, free = existing(folder), free_bytes(folder)
    detail = f"{gib(free)} free at {folder}"
    if by_us and not os.access(place, os.W_OK):
        return Finding(
            name, Status.MISSING, f"{detail}, but it is not writable", f"chown $USER {place}"
        )
    if free < DISK_MIN_BYTES:
        return Finding(
            name, Status.MISSING, f"{detail}; a run needs {gib(DISK_MIN_BYTES)}", "df -h"
        )
    return Finding(name, Status.WARN if free < DISK_LOW_BYTES else Status.OK, detail)


def program(name: str, why: str) -> Finding:
    """Whether a program is installed; `why` it is needed."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        return Finding(name, Status.MISSING, why, f"apt-get install {name}")
    return Finding(name, Status.OK, path)


def maven() -> Finding:
    """Maven, which fetches the jars of systems that are made of some."""
    printed = output(["mvn", "--version"])
    fix = "apt-get install maven"
    if printed is None:
        return Finding("maven", Status.MISSING, "needed to fetch jars", fix)
    detail = re.sub(r"\x1b\[[0-9;]*m", "", printed).splitlines()[0]
    if version(detail) < _MAVEN_MIN:
        return Finding("maven", Status.OLD, f"{detail}; 3.6 is needed", fix)
    return Finding("maven", Status.OK, detail)


def prepared(name: str, exists: bool, detail: str = "exists") -> Finding:
    """Something that `ackloss prepare` makes, or else the first run that needs it."""
    if exists:
        return Finding(name, Status.OK, detail)
    return Finding(name, Status.WARN, "not made yet", "ackloss prepare")


def output(argv: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout + done.stderr


def version(text: str) -> tuple[int, ...]:
    """The first version in a text, as numbers; (0,) if there is none."""
    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in found.group().split(".")) if found else (0,)
