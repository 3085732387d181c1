"""Plans as the command line takes them: a file, changes, a seed, the user's own settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.cli.own_settings import OwnSettings
    from harness.run.resolving import ResolvedPlan


def resolved_plan(
    path: Path,
    changes: tuple[str, ...],
    seed: int | None,
    own: OwnSettings | None = None,
    *,
    force: bool = False,
) -> ResolvedPlan:
    """Read a plan, apply the changes, validate it and find its plug-ins. Raises PlanError, without
    `force` also for settings that its version does not support."""
    from harness.plan import parse_plan, read_plan
    from harness.run.resolving import refuse_unsupported, resolve

    document = read_plan(path, changes)
    if seed is not None:
        document["seed"] = seed
    plan = parse_plan(document, file=str(path))
    if own is not None:
        plan = parse_plan(own.added_to(document, plan), file=str(path))
    resolved = resolve(plan, file=str(path))
    refuse_unsupported(resolved, file=str(path), force=force)
    return resolved
