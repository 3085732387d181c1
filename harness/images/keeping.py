"""What is made of an image, once, as it takes long: kept in the cache folder by the image's id."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from harness.errors import disk_errors
from harness.machine.files import replace_file, scratch
from harness.machine.state import cache_dir
from harness.protocols import ImageRef
from harness.protocols.systems import Say as Say


def quietly(line: str) -> None:
    """Shows nothing."""


@contextmanager
def step(say: Say, what: str) -> Iterator[None]:
    """Report a long step before it begins, and when it is done, with its time. The caller reports a
    failure."""
    say(f"{what} ...")
    begun_s = time.monotonic()
    yield
    say(f"{what}: {time.monotonic() - begun_s:.1f} s")


@contextmanager
def alone(what: str) -> Iterator[None]:
    """Hold the lock of something made once per machine: other processes wait, then find it."""
    folder = cache_dir() / "locks"
    hint = "set ACKLOSS_CACHE to a writable folder"
    with disk_errors("cannot write the cache folder", cache_dir(), hint=hint):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{what.replace('/', '_').replace(':', '_')}.lock")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def kept_folder(made: Path, make: Callable[[Path], None]) -> Path:
    """A folder in the cache, filled now unless it is there."""
    with alone(f"{made.name}-{made.parent.name}"):
        if not made.exists():
            made.parent.mkdir(parents=True, exist_ok=True)
            with scratch() as folder:
                make(Path(folder))
                half = made.with_name(f".{made.name}.{os.getpid()}")
                shutil.copytree(folder, half)
                half.replace(made)
    return made


def kept(image: ImageRef, name: str, depends_on: str, make: Callable[[], bytes]) -> Path:
    """Something made of an image, and of what it depends on: made now unless it is there."""
    made = place(image, name, depends_on)
    with alone(f"{made.stem}-{made.parent.name}"):
        if not made.exists():
            keep(made, make())
    return made


def place(image: ImageRef, name: str, depends_on: str) -> Path:
    """Where something made of an image, and of what it depends on, is kept."""
    digest = hashlib.sha256(depends_on.encode()).hexdigest()[:12]
    folder = cache_dir() / "images" / image.id.removeprefix("sha256:")[:16]
    stem, _, suffix = name.partition(".")
    return folder / f"{stem}-{digest}.{suffix}"


def keep(path: Path, content: bytes) -> None:
    """Write a file completely or not at all; makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, content)
