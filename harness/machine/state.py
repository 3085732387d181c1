"""What this machine knows of its runs, so that nothing of a dead one stays behind.

A run registers itself here (id, folder, process) and holds a lock before its first act; the lock
dies with its process, whatever kills it. `ackloss clean` acts only on runs that are registered here
and whose lock is free, wherever their folder is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
from filelock import FileLock, Timeout

from harness.errors import EnvironmentFailure
from harness.machine.paths import state_dir


@dataclass(frozen=True, kw_only=True)
class Registered:
    """One run that has begun and has not been cleaned up."""

    run_id: str
    folder: Path
    pid: int
    keep: bool = False

    @property
    def alive(self) -> bool:
        """Whether the process that plays it still lives (it holds the run's lock)."""
        try:
            with FileLock(_lock_path(self.run_id), timeout=0):
                return False
        except Timeout:
            return True


def _runs_dir() -> Path:
    return state_dir() / "runs"


def _lock_path(run_id: str) -> Path:
    return _runs_dir() / f"{run_id}.lock"


def _entry_path(run_id: str) -> Path:
    return _runs_dir() / f"{run_id}.json"


@contextmanager
def registered(run_id: str, folder: Path) -> Iterator[None]:
    """Register a run and hold its lock; the entry stays until `forget` is called."""
    try:
        _runs_dir().mkdir(parents=True, exist_ok=True)
        with FileLock(_lock_path(run_id), timeout=0):
            write_entry(run_id, folder)
            yield
    except OSError as error:
        if error.filename and str(_runs_dir()) in str(error.filename):
            raise EnvironmentFailure(
                f"cannot write the state folder: {error.strerror}",
                file=str(_runs_dir()),
                hint="set ACKLOSS_STATE to a writable folder",
            ) from error
        raise


def write_entry(run_id: str, folder: Path, *, keep: bool = False) -> None:
    """Write a run's entry; `keep` marks a cluster that a person asked to keep."""
    entry = {"run_id": run_id, "folder": str(folder.resolve()), "pid": os.getpid(), "keep": keep}
    _entry_path(run_id).write_bytes(orjson.dumps(entry))


def forget(run_id: str) -> None:
    """Remove a run's entry: nothing of it is left."""
    _entry_path(run_id).unlink(missing_ok=True)
    _lock_path(run_id).unlink(missing_ok=True)


def registrations() -> list[Registered]:
    """Every registered run, oldest first; entries that cannot be read are left out."""
    found = []
    for path in sorted(_runs_dir().glob("*.json")):
        try:
            entry = orjson.loads(path.read_bytes())
            found.append(Registered(**{**entry, "folder": Path(entry["folder"])}))
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return found


@contextmanager
def claimed(run_id: str) -> Iterator[bool]:
    """Hold a dead run's lock while it is cleaned; yields False when it is alive after all."""
    lock = FileLock(_lock_path(run_id), timeout=0)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
