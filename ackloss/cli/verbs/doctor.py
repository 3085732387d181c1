"""`ackloss doctor`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from ackloss.cli.output import Output, with_output
from ackloss.cli.plans import with_cluster, with_inventory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ackloss.cli.checkup import Kind
    from harness.protocols import Provider

_STYLES = {"ok": "green", "warn": "yellow", "missing": "red", "old": "red"}


@click.command()
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@click.option("--out", "runs", type=click.Path(path_type=Path), default=Path("runs"))
@with_inventory
@with_cluster
@with_output
def doctor(
    out: Output,
    kinds: tuple[str, ...],
    runs: Path,
    inventory: Path | None,
    cluster: Path | None,
) -> None:
    """Report what this machine lacks for runs on each kind of cluster, or on each KIND such as
    docker, and the command that fixes it. Changes nothing.

    With --inventory: also what your hosts lack. With --cluster: whether your cluster is reachable,
    which nodes it has, and whether a run may create what it needs there.

    The exit code is 5 if something that one of these kinds needs is missing or too old, else 0.
    """
    from ackloss.cli.checkup import examine
    from checkers.judging.spark import archive_ready

    found = examine(_providers(kinds, inventory, cluster), runs, has_archive=archive_ready())
    out.document(found.document())
    if not out.json:
        for need, findings in found.by_need.items():
            out.say(f"for {need}" if findings else f"for {need}: nothing is needed", style="bold")
            for each in findings:
                fix = f"   fix: {each.fix}" if each.fix else ""
                line = f"  {each.status:8}{each.name}: {each.detail}{fix}"
                out.say(line, style=_STYLES[each.status])
        for each_kind in found.kinds:
            style = _STYLES["ok" if each_kind.ok else "missing"]
            out.say(f"{each_kind.name}: runs are {_possible(each_kind)}", style=style)
    sys.exit(0 if found.ok else 5)


def _providers(
    kinds: Sequence[str], inventory: Path | None, cluster: Path | None
) -> list[Provider]:
    """The requested kinds; without any, those of the files, or else all."""
    from harness import registry
    from harness.run.resolving import cluster_provider, hosts_provider

    yours = [] if inventory is None else [hosts_provider(inventory)]
    yours += [] if cluster is None else [cluster_provider(cluster)]
    named = kinds or ([] if yours else registry.usable("clusters"))
    others = [name for name in dict.fromkeys(named) if name not in {y.plugin for y in yours}]
    return [*(registry.make("clusters", name, {}, key="KIND") for name in others), *yours]


def _possible(kind: Kind) -> str:
    if kind.lacks:
        return f"not possible: {', '.join(kind.lacks)}"
    return f"possible, but see {', '.join(kind.warnings)}" if kind.warnings else "possible"
