"""Where the cluster of a run of this machine is, for kinds whose nodes are not on this machine: so
that what it leaves there is found when its process is dead. One entry a run, by kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from harness.errors import EnvironmentFailure
from harness.machine.paths import state_dir


def _entry(kind: str, run_id: str) -> Path:
    return state_dir() / kind / f"{run_id}.json"


Note = str | Sequence[str] | Mapping[str, Sequence[str]]
"""What an entry holds under one name."""


def remember(kind: str, run_id: str, entry: Mapping[str, Note]) -> None:
    """Note how the cluster of a run is reached, before anything of the run is there. Never a
    secret. Raises EnvironmentFailure."""
    path = _entry(kind, run_id)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(orjson.dumps(entry))
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write the state folder: {error.strerror}",
            file=str(path),
            hint="set ACKLOSS_STATE to a writable folder",
        ) from error


def remembered(kind: str, run_id: str) -> dict[str, Any] | None:
    """The entry of a run; `None` for a run that has none."""
    try:
        entry = orjson.loads(_entry(kind, run_id).read_bytes())
    except (OSError, ValueError):
        return None
    return entry if isinstance(entry, dict) else None


def forget(kind: str, run_id: str) -> None:
    """Nothing of the run is left there."""
    _entry(kind, run_id).unlink(missing_ok=True)
