"""`ackloss campaign compare|prune`: what to do with the campaigns of many nights."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from harness.cli.output import Output, with_output

if TYPE_CHECKING:
    from harness.campaigns.progress import Run

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_PAGE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("folders", nargs=-1, type=_FOLDER, required=True, metavar="OLD NEW [NEWER ...]")
@click.option("--markdown", type=_PAGE, help="Write it as Markdown, too.")
@click.option("--html", type=_PAGE, help="Write it as a page, with the trend.")
@with_output
def compare(
    out: Output, folders: tuple[Path, ...], markdown: Path | None, html: Path | None
) -> None:
    """The newest campaign against the one before, cell by cell; the trend over all that are given.

    Exit code 1 if a cell loses more often than in the night before (exact test at 5 %, corrected
    over all cells, and no runs that do not count can have made it so), else 3 if a cell has no
    conclusive run in one of the two, else 0.
    """
    from analysis.nights.document import nights_document
    from harness.campaigns.folder import CampaignDir

    if len(folders) < 2:
        raise click.UsageError("name two campaigns at least, the oldest first")
    document = nights_document([CampaignDir.open(folder) for folder in folders])
    _write(document, markdown, html)
    out.document(document)
    if not out.json:
        _say_nights(out, document)
    silent = any(cell["status"] == "not judged" for cell in document["cells"])
    sys.exit(1 if document["regressions"] else 3 if silent else 0)


@click.command()
@click.argument("folder", type=_FOLDER)
@click.option("--keep", type=click.IntRange(0), required=True, help="Newest runs of each cell.")
@click.option("--dry-run", is_flag=True, help="Say what would be freed, and remove nothing.")
@with_output
def prune(out: Output, folder: Path, keep: int, dry_run: bool) -> None:
    """Thin the runs in FOLDER but failures and the newest: no count of the campaign changes."""
    from harness.campaigns.folder import CampaignDir
    from harness.campaigns.prune import prune as thin

    where = CampaignDir.open(folder)

    def is_failure(run: Run) -> bool:
        from analysis.campaign import document_of
        from analysis.statistics.samples import HARNESS_FAILURE, LOSS, WRONG, verdict_class

        document = document_of(where, run)
        return document is not None and verdict_class(document) in (LOSS, WRONG, HARNESS_FAILURE)

    done = thin(where, keep=keep, is_failure=is_failure, dry_run=dry_run)
    out.document({"schema": 1, "dry_run": dry_run, **vars(done)})
    would = "would be" if dry_run else "were"
    freed = f"{done.freed_bytes / 2**20:,.1f} MiB"
    if not out.json:
        out.say(f"{done.runs:,} runs {would} thinned ({freed}), {done.kept:,} are kept whole")


def _write(document: dict[str, Any], markdown: Path | None, html: Path | None) -> None:
    from reports import nights

    if markdown is not None:
        nights.write_markdown(document, markdown)
    if html is not None:
        nights.write_page(document, html)


def _say_nights(out: Output, document: dict[str, Any]) -> None:
    from reports.nights import changes, headline, ordered, value

    out.say(headline(document), style="bold")
    for sentence in document["conclusion"]:
        out.say(f"  {sentence}")
    styles = {"regression": "red", "improvement": "green", "doubtful": "yellow"}
    for cell in ordered(document["cells"]):
        said = "; ".join([cell["in_words"], *changes(cell)])
        out.say(f"{cell['name']}: {said}", style=styles.get(cell["status"], ""))
    for row in document["differs"]:
        before, now = value(row["old"]), value(row["new"])
        out.say(f"  {row['what']} {row['key']}: {before} before, {now} now")
