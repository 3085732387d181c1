"""What ackloss keeps on this machine outside any run: its folders, the user's configuration, and
the register of runs, so that nothing of a dead run stays behind.

The configuration (`~/.config/ackloss/config.toml`, or the environment, which overrides it) holds
what is the same for all runs here and what a plan must not contain, since a plan may come from a
stranger.

A run registers itself here (id, folder, process) and takes a lock before its first act; the lock is
released when its process ends, however it ends. `ackloss clean` acts only on runs that are
registered here and whose lock is free, wherever their folder is.

For kinds of cluster whose nodes are not on this machine, an entry says where the cluster of a run
is, so that what the run leaves there is found when its process is dead.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
from filelock import FileLock, Timeout
from platformdirs import user_cache_dir, user_config_dir, user_state_dir
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.errors import EnvironmentFailure
from harness.machine.files import replace_state
from harness.plan import Image
from harness.wrong_values import explain


def cache_dir() -> Path:
    """Jars and class-data archives: may be deleted at any time, rebuilt when needed."""
    return Path(os.environ.get("ACKLOSS_CACHE") or user_cache_dir("ackloss"))


def state_dir() -> Path:
    """The register of this machine's runs, which `ackloss clean` works from. Without symbolic
    links: the kernel names mounts and the files of loop devices so."""
    return Path(os.environ.get("ACKLOSS_STATE") or user_state_dir("ackloss")).resolve()


@dataclass(frozen=True, kw_only=True)
class Registered:
    """A run that has begun and has not been cleaned up. `keep`: the user keeps its cluster; `kind`
    is that of its cluster."""

    run_id: str
    folder: Path
    pid: int
    keep: bool = False
    kind: str = "docker"

    def write(self) -> None:
        """Write the entry. Raises EnvironmentFailure; the entry is then as it was."""
        entry = {**asdict(self), "folder": str(self.folder)}
        replace_state(_entry(_RUNS, self.run_id), orjson.dumps(entry))


_RUNS: Final = "runs"


def _entry(kind: str, run_id: str) -> Path:
    return state_dir() / kind / f"{run_id}.json"


def _runs_dir() -> Path:
    return state_dir() / _RUNS


def _lock_path(run_id: str) -> Path:
    return _runs_dir() / f"{run_id}.lock"


@contextmanager
def registered(run_id: str, folder: Path, *, kind: str = "docker") -> Iterator[None]:
    """Register a run and hold its lock; the entry stays until `forget` is called."""
    try:
        _runs_dir().mkdir(parents=True, exist_ok=True)
        with FileLock(_lock_path(run_id), timeout=0):
            Registered(run_id=run_id, folder=folder.resolve(), pid=os.getpid(), kind=kind).write()
            yield
    except OSError as error:
        if error.filename and str(_runs_dir()) in str(error.filename):
            raise EnvironmentFailure(
                f"cannot write the state folder: {error.strerror}",
                file=str(_runs_dir()),
                hint="set ACKLOSS_STATE to a writable folder",
            ) from error
        raise


def keep(run_id: str) -> None:
    """Mark a run's cluster as one that the user keeps. Raises EnvironmentFailure."""
    if (entry := registration(run_id)) is not None:
        replace(entry, keep=True).write()


def forget(run_id: str) -> None:
    """Remove a run's entry: nothing of the run is left."""
    _entry(_RUNS, run_id).unlink(missing_ok=True)
    _lock_path(run_id).unlink(missing_ok=True)


def registration(run_id: str) -> Registered | None:
    """A registered run; `None` where there is no entry that can be read."""
    try:
        entry = orjson.loads(_entry(_RUNS, run_id).read_bytes())
        return Registered(**{**entry, "folder": Path(entry["folder"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def registrations() -> list[Registered]:
    """Every registered run, oldest first, except entries that cannot be read."""
    entries = (registration(path.stem) for path in sorted(_runs_dir().glob("*.json")))
    return [entry for entry in entries if entry is not None]


@contextmanager
def claimed(run_id: str) -> Iterator[bool]:
    """Hold a dead run's lock while the run is cleaned up; yields False when it is alive."""
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


Note = str | Sequence[str] | Mapping[str, Sequence[str]]
"""What an entry holds under one name."""


def remember_cluster(kind: str, run_id: str, entry: Mapping[str, Note]) -> None:
    """Note how the cluster of a run is reached, before anything of the run is there. Never a
    secret. Raises EnvironmentFailure; what was noted before is then still there."""
    replace_state(_entry(kind, run_id), orjson.dumps(entry))


def remembered_cluster(kind: str, run_id: str) -> dict[str, Any] | None:
    """The entry of a run; `None` for a run that has none."""
    try:
        entry = orjson.loads(_entry(kind, run_id).read_bytes())
    except (OSError, ValueError):
        return None
    return entry if isinstance(entry, dict) else None


def forget_cluster(kind: str, run_id: str) -> None:
    """Nothing of the run is left there."""
    _entry(kind, run_id).unlink(missing_ok=True)


class UserConfig(BaseModel):
    """The keys of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_image: Image | None = Field(
        None,
        description="The Debian or Ubuntu image that node images are built from. Without one, a "
        "Debian 12 is made from the distribution's packages. Environment: ACKLOSS_BASE_IMAGE.",
    )


def config_path() -> Path:
    """Where the file is or would be. Environment: ACKLOSS_CONFIG."""
    return Path(
        os.environ.get("ACKLOSS_CONFIG") or Path(user_config_dir("ackloss")) / "config.toml"
    )


@cache
def user_config() -> UserConfig:
    """The configuration of this machine's user. Raises EnvironmentFailure for an invalid file."""
    path = config_path()
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        given = {}
    except (OSError, ValueError) as error:
        raise EnvironmentFailure(f"cannot be read: {error}", file=str(path)) from error
    if base_image := os.environ.get("ACKLOSS_BASE_IMAGE"):
        given["base_image"] = base_image
    try:
        return UserConfig.model_validate(given)
    except ValidationError as error:
        found = explain(error, UserConfig, file=str(path))
        raise EnvironmentFailure(
            found.what, file=found.file, key=found.key, hint=found.hint
        ) from error
