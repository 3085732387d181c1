"""`ackloss campaign compare|prune`: campaigns compared over time, and kept small."""

from __future__ import annotations

import sys
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from ackloss.cli.output import Output, with_output

if TYPE_CHECKING:
    from analysis.comparison import CampaignComparison
    from harness.campaigns.folder import CampaignDir
    from harness.campaigns.journal import Run
    from harness.campaigns.prune import Pruned

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_PAGE = click.Path(dir_okay=False, path_type=Path)
_STYLES = {"regression": "red", "improvement": "green", "doubtful": "yellow"}


@click.command()
@click.argument(
    "folders", nargs=-1, type=_FOLDER, required=True, metavar="[OLDER ...] BASELINE CURRENT"
)
@click.option("--markdown", type=_PAGE, help="Also write the comparison as Markdown.")
@click.option("--html", type=_PAGE, help="Also write it as a page, with the trend.")
@click.option(
    "--lake", metavar="DIR|URL", help="Also show the trend over the campaigns in this lake."
)
@with_output
def compare(
    out: Output,
    folders: tuple[Path, ...],
    markdown: Path | None,
    html: Path | None,
    lake: str | None,
) -> None:
    """Compare CURRENT with BASELINE, cell by cell, and show the trend over all campaigns.

    The exit code is 1 if a cell loses more often than in the baseline (exact test at 5 %, corrected
    over all cells, and not explained by inconclusive runs), else 3 if a cell has no conclusive run
    in one of the two, else 0.
    """
    from analysis.comparison import NOT_JUDGED, compare_campaigns
    from harness.campaigns.folder import CampaignDir
    from reports import campaign_comparison as pages

    if len(folders) < 2:
        raise click.UsageError("name at least two campaigns, the oldest first")
    given = [CampaignDir.open(folder) for folder in folders]
    earlier = []
    if lake is not None:
        from analysis.lake.delta import open_lake
        from analysis.lake.stored import earlier_than

        earlier = [(each.summary(), each.named) for each in earlier_than(open_lake(lake), given)]
    comparison = compare_campaigns(given, earlier=earlier)
    if markdown is not None:
        pages.write_markdown(comparison, markdown)
    if html is not None:
        pages.write_page(comparison, html)
    out.document(comparison.json())
    if not out.json:
        _print_comparison(out, comparison)
    inconclusive = any(cell.status == NOT_JUDGED for cell in comparison.cells)
    sys.exit(1 if comparison.regressions else 3 if inconclusive else 0)


def _print_comparison(out: Output, comparison: CampaignComparison) -> None:
    from reports.campaign_comparison import changes, headline, ordered, value
    from reports.formatting import SIMULATED

    out.say(headline(comparison), style="bold")
    if comparison.simulated:
        out.say(SIMULATED, style="yellow")
    for sentence in comparison.conclusion:
        out.say(f"  {sentence}")
    for cell in ordered(comparison.cells):
        sentences = "; ".join([cell.in_words, *changes(cell)])
        out.say(f"{cell.name}: {sentences}", style=_STYLES.get(cell.status, ""))
    for row in comparison.differs:
        baseline, current = value(row.old), value(row.new)
        out.say(f"  {row.what} {row.key}: {baseline} in the baseline, {current} now")


@click.command()
@click.argument("folders", nargs=-1, type=_FOLDER, required=True)
@click.option("--keep", type=click.IntRange(0), required=True, help="Newest runs of each cell.")
@click.option("--dry-run", is_flag=True, help="Report what would be freed, and remove nothing.")
@with_output
def prune(out: Output, folders: tuple[Path, ...], keep: int, dry_run: bool) -> None:
    """Delete the large files of all runs in FOLDERS, except failures and the newest runs of each
    cell. The campaigns' counts do not change. For several campaigns, the totals are reported."""
    from harness.campaigns.folder import CampaignDir

    each = [_pruned(CampaignDir.open(folder), keep, dry_run) for folder in folders]
    runs, kept, freed_bytes = map(sum, zip(*map(astuple, each), strict=True))
    numbers = {"runs": runs, "kept": kept, "freed_bytes": freed_bytes}
    out.document({"schema": 1, "dry_run": dry_run, **numbers})
    if not out.json:
        would_be = "would be" if dry_run else "were"
        freed = f"{freed_bytes / 2**20:,.1f} MiB"
        out.say(f"{runs:,} runs {would_be} pruned ({freed}), {kept:,} stay complete")


def _pruned(where: CampaignDir, keep: int, dry_run: bool) -> Pruned:
    from harness.campaigns.prune import prune as prune_runs

    def is_failure(run: Run) -> bool:
        from analysis.campaign import outcome_of
        from analysis.statistics.cells import HARNESS_FAILURE, LOSS, WRONG, verdict_class

        outcome = outcome_of(where, run)
        return outcome is not None and verdict_class(outcome) in (LOSS, WRONG, HARNESS_FAILURE)

    return prune_runs(where, keep=keep, is_failure=is_failure, dry_run=dry_run)
