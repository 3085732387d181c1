"""Where the cluster of a run of this machine is, for kinds whose nodes are not on this machine: so
that what it leaves there is found when its process is dead. One entry a run, by kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from harness.machine.files import replace_state
from harness.machine.state import state_dir


def _entry(kind: str, run_id: str) -> Path:
    return state_dir() / kind / f"{run_id}.json"


Note = str | Sequence[str] | Mapping[str, Sequence[str]]
"""What an entry holds under one name."""


def remember(kind: str, run_id: str, entry: Mapping[str, Note]) -> None:
    """Note how the cluster of a run is reached, before anything of the run is there. Never a
    secret. Raises EnvironmentFailure; what was noted before is then still there."""
    replace_state(_entry(kind, run_id), orjson.dumps(entry))


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
