"""`ackloss clean`."""

from __future__ import annotations

import rich_click as click

from harness.cli.output import Output, with_output


@click.command()
@click.option("--dry-run", is_flag=True, help="Report what would be removed, and remove nothing.")
@click.option("--kept", is_flag=True, help="Also remove clusters kept by --keep-cluster.")
@with_output
def clean(out: Output, dry_run: bool, kept: bool) -> None:
    """Remove what dead runs left behind, by label, and nothing else.

    Live runs are left alone, and so is everything that is not in this machine's state folder. Run
    folders are never touched.
    """
    from harness.clusters.cleaning import clean_all

    cleaned = clean_all(dry_run=dry_run, kept=kept)
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
