"""`ackloss clean`."""

from __future__ import annotations

import rich_click as click

from harness.cli.output import Output, with_output


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would be removed, remove nothing.")
@click.option("--kept", is_flag=True, help="Also clusters that --keep-cluster has kept.")
@with_output
def clean(out: Output, dry_run: bool, kept: bool) -> None:
    """Remove what dead runs left behind, by label, and nothing else.

    A run that is alive is left alone, and so is anything that this machine's state folder does not
    know. Run folders are never touched.
    """
    from harness.clusters.cleaning import clean_all

    told = clean_all(dry_run=dry_run, kept=kept)
    out.document({"schema": 1, "dry_run": dry_run, **told.document()})
    if out.json:
        return
    verb = "would remove" if dry_run else "removed"
    for name in told.removed:
        out.say(f"{verb} {name}")
    for name in told.undone:
        out.say(f"in force until then: {name}")
    for sentence in told.left:
        out.say(sentence, style="yellow")
    if not told.removed:
        out.say("nothing to remove")


def clean_before(out: Output) -> None:
    """Remove what dead runs left before another one begins, and say so; trouble with that is told
    and stops nothing."""
    from harness.clusters.cleaning import clean_all
    from harness.errors import AcklossError, EnvironmentFailure

    try:
        told = clean_all(dry_run=False, kept=False)
    except EnvironmentFailure:
        return  # what comes next says it better
    except AcklossError as error:
        out.say(f"what dead runs left could not be removed: {error}", style="yellow")
        return
    for name in told.removed:
        out.say(f"left by a dead run, removed: {name}", style="yellow")
    for name in told.undone:
        out.say(f"in force until then: {name}", style="yellow")
