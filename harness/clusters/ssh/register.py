"""Which inventory a run of this machine uses, so that its hosts are found when it is dead."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.machine import reach

_KIND: Final = "ssh"


def remember_hosts(run_id: str, inventory: Path) -> None:
    """Note the inventory of a run, before anything of it is on a host. Raises
    EnvironmentFailure."""
    reach.remember(_KIND, run_id, {"inventory": str(inventory.resolve())})


def inventory_of(run_id: str) -> Path | None:
    """The inventory of a run; `None` for a run that has none."""
    entry = reach.remembered(_KIND, run_id)
    path = entry.get("inventory") if entry is not None else None
    return Path(path) if isinstance(path, str) else None


def forget_hosts(run_id: str) -> None:
    """Nothing of the run is on any host."""
    reach.forget(_KIND, run_id)
