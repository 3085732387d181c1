"""`ackloss lake build|query|report`: what many campaigns found as tables, SQL over them, and a page
of their rates and trends."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from ackloss.cli.options import PathOrUrl, key_and_value
from ackloss.cli.output import Output, merged_exit_code, with_output
from harness.errors import AcklossError, EnvironmentFailure, HistoryError, PlanError
from harness.urls import is_url

if TYPE_CHECKING:
    from analysis.lake.build import Built
    from analysis.lake.overview import Overview
    from harness.storage import Folder

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def lake() -> None:
    """Keep the results of many campaigns as Delta tables, and query them with SQL."""


@lake.command()
@click.argument("campaigns", nargs=-1, required=True, type=PathOrUrl(files=False))
@click.option("--to", "address", required=True, metavar="DIR|URL", help="The lake: a folder, s3://")
@click.option("--ops", is_flag=True, help="Also add every operation (large).")
@with_output
def build(out: Output, campaigns: tuple[str, ...], address: str, ops: bool) -> None:
    """Add new and changed runs of CAMPAIGNS (their folders, or the URLs of their archives) to a
    lake, and create the lake if it does not exist.

    Unchanged runs that are already in the lake are not read or written again. The exit code is 4
    if a campaign cannot be read (the others are still added).
    """
    from analysis.lake.delta import folder_of, open_or_new

    place = folder_of(address)
    open_or_new(place)  # refused once, and not of each campaign
    built: list[Built] = []
    errors: list[AcklossError] = []
    for given in campaigns:
        try:
            done = _built(place, given, ops)
        except (HistoryError, PlanError, EnvironmentFailure) as error:
            if isinstance(error, EnvironmentFailure) and not is_url(given):
                raise  # of the lake
            errors.append(error)
            continue
        built.append(done)
        out.say(f"{done.campaign}: {_changes(done.added, done.replaced)} {done.runs:,} runs")
        if done.absent:
            out.say(f"{done.campaign}: {done.absent:,} more are not in its archive yet")
        for run_id, why in done.kept.items():
            out.note(f"{done.campaign}: the rows of the run {run_id} stay as they were: {why}")
        for run_id, why in done.unread.items():
            out.note(f"{done.campaign}: the run {run_id} counts as unknown: {why}")
    if not built and len(errors) == 1:
        raise errors[0]
    for bad in errors:
        out.error(bad)
    out.document({"schema": 1, "lake": place.place(), "campaigns": built})
    sys.exit(merged_exit_code([], errors=errors))


def _built(place: Folder, given: str, ops: bool) -> Built:
    """The lake brought up to date with a campaign's folder or archive. Raises AcklossError."""
    from analysis.lake.build import build as add
    from analysis.lake.sources import archived
    from harness.campaigns.folder import CampaignDir
    from harness.storage import Folder

    archive = Folder.at(given) if is_url(given) else None
    path = archive.local if archive else Path(given)
    if archive is None or path is not None:
        return add(place, CampaignDir.open(path or Path(given)), ops=ops)
    with archived(archive, ops=ops) as copied:
        return add(place, copied.folder, ops=ops, copied=copied)


def _changes(added: int, replaced: int) -> str:
    if not added and not replaced:
        return "nothing new in"
    again = f" and {replaced:,} replaced" if replaced else ""
    return f"{added:,} added{again} of"


@lake.command()
@click.argument("sql")
@click.option("--lake", "address", required=True, metavar="DIR|URL", help="The lake.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV on stdout.")
@click.option("--master", help="Spark's master, default local[*].")
@click.option("--conf", multiple=True, metavar="K=V", help="Any Spark setting (repeatable).")
@with_output
def query(
    out: Output, sql: str, address: str, as_csv: bool, master: str | None, conf: tuple[str, ...]
) -> None:
    """Run SQL on Spark over the tables of a lake: campaigns, runs, cells, faults, findings,
    observations, ops.

    docs/how-to/lake.md lists their columns and shows questions to ask.
    """
    from analysis.lake import query as asking
    from analysis.lake.delta import open_lake
    from reports.formatting import SIMULATED

    if as_csv and out.json:
        raise click.UsageError("use either --json or --csv")
    settings = dict(key_and_value("--conf", text) for text in conf)
    asked = open_lake(address)
    answer = asking.query(asked, sql, master=master, conf=settings)
    if asked.simulated:
        out.note(SIMULATED)
    if as_csv:
        out.write(asking.as_csv(answer).decode())
        return
    names, rows = answer.column_names, asking.rows(answer)
    found = {"columns": names, "rows": [dict(zip(names, row, strict=True)) for row in rows]}
    out.document({"schema": 1, "simulated": asked.simulated, **found})
    if not out.json:
        out.table(names, ([asking.text(value) for value in row] for row in rows))


@lake.command()
@click.argument("campaigns", nargs=-1)
@click.option("--lake", "address", required=True, metavar="DIR|URL", help="The lake.")
@click.option("--html", type=_FILE, help="Write a page, with pictures of the trends.")
@click.option("--markdown", type=_FILE, help="Write it as Markdown.")
@with_output
def report(
    out: Output, campaigns: tuple[str, ...], address: str, html: Path | None, markdown: Path | None
) -> None:
    """Report the rates of each setting across versions, and the trend of each cell, from a lake
    alone: over all its campaigns, or those named CAMPAIGNS in the lake.

    Runs of several campaigns are counted together only if they had the same plan.
    docs/how-to/lake.md has the rules.
    """
    from analysis.lake.delta import open_lake
    from analysis.lake.overview import overview_of
    from reports import lake as pages

    overview = overview_of(open_lake(address), campaigns)
    if html is not None:
        pages.write_page(overview, html)
    if markdown is not None:
        pages.write_markdown(overview, markdown)
    out.document(overview.json())
    if not out.json:
        _print_overview(out, overview)


def _print_overview(out: Output, overview: Overview) -> None:
    from reports.formatting import SIMULATED
    from reports.lake import headline, rates

    out.say(headline(overview), style="bold")
    if overview.simulated:
        out.say(SIMULATED, style="yellow")
    for sentence in overview.notes:
        out.say(f"  {sentence}")
    for head, lines in rates(overview):
        out.say(head, style="bold")
        for line in lines:
            out.say(f"  {line}")
