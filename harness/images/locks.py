"""Locks of things that are made once per machine, whichever process makes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock

from harness.errors import EnvironmentFailure
from harness.machine.paths import cache_dir


@contextmanager
def alone(what: str) -> Iterator[None]:
    """Hold the lock of something made once per machine: other processes wait, then find it."""
    folder = cache_dir() / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{what.replace('/', '_').replace(':', '_')}.lock")
        lock.acquire()
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write the cache folder: {error.strerror}",
            file=str(cache_dir()),
            hint="set ACKLOSS_CACHE to a writable folder",
        ) from error
    try:
        yield
    finally:
        lock.release()
