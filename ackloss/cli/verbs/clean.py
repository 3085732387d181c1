"""`ackloss clean`."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from ackloss.cli.output import Output, with_output
from ackloss.cli.plans import with_cluster, with_inventory


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
