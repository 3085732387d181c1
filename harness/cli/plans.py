"""Plans as the command line takes them: a file or a name, changes, a seed, the user's own
settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

if TYPE_CHECKING:
    from harness.cli.own_settings import OwnSettings
    from harness.run.resolving import ResolvedPlan


class FileOrName(click.ParamType[Path]):
    """A file that exists, or the name of one that comes with ackloss, which is looked up later."""

    name = "file or name"
    _file = click.Path(exists=True, dir_okay=False, path_type=Path)

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        from harness.plan.shipped import is_path

        text = str(value)
        if is_path(text) or Path(text).is_file():
            return Path(self._file.convert(text, param, ctx))
        return Path(text)


def resolved_plan(
    path: Path,
    changes: tuple[str, ...],
    seed: int | None,
    own: OwnSettings | None = None,
    *,
    force: bool = False,
) -> ResolvedPlan:
    """Read a plan, a file or a shipped one, apply the changes, validate it and find its plug-ins.
    Raises PlanError, without `force` also for settings that its version does not support."""
    from harness.plan import parse_plan, read_plan
    from harness.plan.shipped import PLANS, find
    from harness.run.resolving import refuse_unsupported, resolve

    document = read_plan(find(PLANS, path), changes)
    if seed is not None:
        document["seed"] = seed
    plan = parse_plan(document, file=str(path))
    if own is not None:
        plan = parse_plan(own.added_to(document, plan), file=str(path))
    resolved = resolve(plan, file=str(path))
    refuse_unsupported(resolved, file=str(path), force=force)
    return resolved
