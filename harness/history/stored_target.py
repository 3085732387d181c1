"""The target of a stored run: what only the system's plug-in knows about its runs' files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness import registry
from harness.errors import HistoryError
from harness.history.run_folder import RunDir


def stored_target(run: RunDir) -> object | None:
    """The target of a run, by its plan.json; `None` if that cannot be read, or if this ackloss has
    no such target."""
    try:
        return target_of(run.read_json(run.plan))
    except HistoryError:
        return None


def target_of(plan: Mapping[str, Any]) -> object | None:
    """The target that a plan.json names, or the default one; `None` if there is no such target."""
    section = plan.get("target")
    system = section.get("system") if isinstance(section, Mapping) else None
    return registry.target_named(system)
