"""Plans as the command line takes them: a file or a name, changes, a seed, the user's own
settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from harness.run.own_settings import OwnSettings
    from harness.run.resolving import ResolvedPlan


with_inventory = click.option(
    "--inventory",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Your hosts, over SSH: see docs/how-to/ssh.md.",
)


with_cluster = click.option(
    "--cluster",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A cluster that you run: see docs/how-to/external.md.",
)


class FileOrName(click.ParamType[Path]):
    """A file that exists, or the name of one that comes with ackloss, which is looked up later."""

    name = "file or name"
    _file = click.Path(exists=True, dir_okay=False, path_type=Path)

    def __init__(self, kind: str = "plan") -> None:
        self._kind = kind

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        from harness.plan.shipped import is_path

        text = str(value)
        if not text:  # as a path it would be this folder
            hint = f"name a file, or one that `ackloss list {self._kind}s` shows"
            self.fail(f"the name of a {self._kind} is empty; {hint}", param, ctx)
        if is_path(text) or Path(text).is_file():
            return Path(self._file.convert(text, param, ctx))
        return Path(text)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names that begin so, also by their last part; the shell has the files."""
        from harness.plan.shipped import named_files

        names = list(named_files(f"{self._kind}s"))
        last = Counter(name.rpartition("/")[2] for name in names)
        names += [name for name, times in last.items() if times == 1 and name not in names]
        of_files = self._file.shell_complete(ctx, param, incomplete)
        return of_files + [CompletionItem(name) for name in names if name.startswith(incomplete)]


def resolved_plan(
    path: Path,
    changes: tuple[str, ...],
    seed: int | None,
    own: OwnSettings | None = None,
    *,
    force: bool = False,
    inventory: Path | None = None,
    cluster: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> ResolvedPlan:
    """Read a plan, a file or a shipped one, apply the changes, validate it and find its plug-ins;
    with an inventory, its cluster is on the hosts of that file, with `cluster` it is the one of
    that file, and what of the plan is ignored there is reported to `say`. Raises PlanError, without
    `force` also for settings that its version does not support."""
    from harness.plan import parse_plan, read_plan
    from harness.plan.shipped import PLANS, find
    from harness.run.own_settings import blaming, lengthened
    from harness.run.resolving import HOSTS, Place, on_cluster, refuse_unsupported, resolve

    document = read_plan(find(PLANS, path), changes)
    if seed is not None:
        document["seed"] = seed
    if inventory is not None:
        document["cluster"] = {"kind": HOSTS}
    place: Place | None = None
    if cluster is not None:
        document, place, ignored = on_cluster(document, cluster, file=str(path))
        for sentence in ignored:
            say(f"{path}: {sentence}")
    if own:
        document = lengthened(own.applied(document))
    with blaming(document):
        plan = parse_plan(document, file=str(path))
        resolved = resolve(plan, file=str(path), inventory=inventory, place=place)
        refuse_unsupported(resolved, file=str(path), force=force)
    return resolved
