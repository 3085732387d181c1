"""`ackloss clean|doctor|prepare`: what dead runs left on this machine, and what runs on it need."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from ackloss.cli.options import with_cluster, with_inventory
from ackloss.cli.output import Output, with_output
from harness import registry
from harness.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.protocols import Provider, Target


@click.command()
@click.option("--dry-run", is_flag=True, help="Report what would be removed, and remove nothing.")
@click.option("--kept", is_flag=True, help="Also remove clusters kept by --keep-cluster.")
@with_inventory
@with_cluster
@with_output
def clean(
    out: Output, dry_run: bool, kept: bool, inventory: Path | None, cluster: Path | None
) -> None:
    """Remove what dead runs left behind, by label, and nothing else.

    Live runs are left alone, and so is everything that is not in this machine's state folder. A run
    whose entry there cannot be read is named, and removed with --kept. Run folders are never
    touched. With --inventory, only hosts are cleaned: those in the file, also of dead runs of other
    machines, and those of dead runs of this machine. With --cluster, only what dead runs created on
    your clusters is removed; the file states how to reach them.
    """
    from harness.clusters.cleaning import clean_all
    from harness.machine.state import registrations
    from harness.run.resolving import cluster_provider, hosts_provider

    if inventory is not None and cluster is not None:
        raise click.UsageError("--inventory and --cluster name two clusters: leave one out")
    only = hosts_provider(inventory) if inventory is not None else None
    only = cluster_provider(cluster) if cluster is not None else only
    cleaned = clean_all(dry_run=dry_run, kept=kept, only=only)
    if only is not None:
        cleaned.left += only.of_others({run.run_id for run in registrations()})
    out.document({"schema": 1, "dry_run": dry_run, **vars(cleaned)})
    if out.json:
        return
    verb = "would remove" if dry_run else "removed"
    for name in cleaned.removed:
        out.say(f"{verb} {name}")
    for name in cleaned.undone:
        out.say(f"in force until then: {name}")
    for sentence in cleaned.left:
        out.say(sentence, style="yellow")
    if not cleaned.removed:
        out.say("nothing to remove")


_STYLES = {"ok": "green", "warn": "yellow", "missing": "red", "old": "red"}


@click.command()
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@click.option("--out", "runs", type=click.Path(path_type=Path), default=Path("runs"))
@with_inventory
@with_cluster
@with_output
def doctor(
    out: Output, kinds: tuple[str, ...], runs: Path, inventory: Path | None, cluster: Path | None
) -> None:
    """Report what this machine lacks for runs on each kind of cluster, or on each KIND such as
    docker, and the command that fixes it. Changes nothing.

    With --inventory: also what your hosts lack. With --cluster: whether your cluster is reachable,
    which nodes it has, and whether a run may create what it needs there.

    The exit code is 5 if something that one of these kinds needs is missing or too old, else 0.
    """
    from harness.machine.checks import examine

    found = examine(_providers(kinds, inventory, cluster), runs)
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
            out.say(f"{each_kind.name}: runs are {each_kind.possible}", style=style)
    sys.exit(0 if found.ok else 5)


def _providers(
    kinds: Sequence[str], inventory: Path | None, cluster: Path | None
) -> list[Provider]:
    """The requested kinds; without any, those of the files, or else all."""
    from harness.run.resolving import cluster_provider, hosts_provider

    yours = [] if inventory is None else [hosts_provider(inventory)]
    yours += [] if cluster is None else [cluster_provider(cluster)]
    named = kinds or ([] if yours else registry.usable("clusters"))
    others = [name for name in dict.fromkeys(named) if name not in {y.plugin for y in yours}]
    return [*(registry.make("clusters", name, {}, key="KIND") for name in others), *yours]


@click.command()
@click.argument("words", nargs=-1, metavar="[SYSTEM [VERSION]...]")
@click.option("--system", hidden=True)
@click.option("--version", "versions", multiple=True, hidden=True)
@with_output
def prepare(
    out: Output, words: tuple[str, ...], system: str | None, versions: tuple[str, ...]
) -> None:
    """Build the node images and class-data archives that runs of VERSIONs of SYSTEM need and this
    machine lacks; by default, of the system and the version that plans default to.

    Existing ones are kept. A run also builds what is missing; this command does it in advance.
    """
    from harness.images.building import infra_image

    begun_s = time.monotonic()
    named, *further = [*filter(None, [system]), *words] or [""]
    name, target = _target(named)
    requested = [*further, *versions] or [target.default_version]
    for version in requested:
        target.check_version(version, key="VERSION")
    with ThreadPoolExecutor(max_workers=3) as pool:
        infra = pool.submit(infra_image, out.progress)
        tasks = [pool.submit(target.prepare_version, each, out.progress) for each in requested]
        made = [task.result() or each for task, each in zip(tasks, requested, strict=True)]
        infra.result()
    took_s = time.monotonic() - begun_s
    out.document({"schema": 1, "system": name, "versions": made, "took_s": round(took_s, 3)})
    if not out.json:
        images = f"node images ({name} {'; '.join(made)})"
        out.say(f"{images} and archives are ready ({took_s:.1f} s)")


def _target(system: str) -> tuple[str, Target[Any]]:
    """The named target, or the default one. Raises PlanError for one with nothing to prepare."""
    name = system or registry.default_target() or ""
    registry.check_name("targets", name, key="SYSTEM")
    target = registry.target_named(name)
    if not target.does("prepare_version"):
        raise PlanError(f"nothing has to be made for {name}", key="SYSTEM", hint="leave it out")
    return name, target
