"""`ackloss campaign status|plan`: the progress of a campaign, and its cells before it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from harness.cli.output import Output, about, with_output
from harness.cli.plans import FileOrName

if TYPE_CHECKING:
    from harness.campaigns.demands import Along
    from harness.campaigns.estimate import Estimate
    from harness.campaigns.folder import CampaignDir
    from harness.campaigns.plan import Campaign
    from harness.campaigns.progress import Progress
    from harness.campaigns.sharing import Group

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_VERDICTS = ("invalid", "valid", "unknown")
_ALONG: Mapping[Along, str] = {
    "all": "along",
    "some": "in part along",
    "none": "not along",
}


@dataclass(frozen=True, kw_only=True)
class CellStatus:
    """The runs of one cell, as `campaign status` counts them."""

    cell: str
    runs: int
    invalid: int
    valid: int
    unknown: int
    failed: int
    left: int


@dataclass(frozen=True, kw_only=True)
class CampaignStatus:
    """The document of `campaign status --json`."""

    schema: int = 1
    name: str
    simulated: bool
    alive: bool
    ended: str | None
    cells: list[CellStatus]
    said: list[str]


@dataclass(frozen=True, kw_only=True)
class PlannedCell:
    """One cell as `campaign plan` lists it."""

    key: dict[str, str]
    runs: int
    impossible: str | None
    shares_with: list[dict[str, str]]


@click.command()
@click.argument("folder", type=_FOLDER)
@with_output
def status(out: Output, folder: Path) -> None:
    """Show the progress of the campaign in FOLDER, even while it runs or after a crash."""
    from harness.campaigns.folder import CampaignDir

    where = CampaignDir.open(folder)
    print_progress(out, where, where.campaign(), where.progress())


@click.command()
@click.argument("file", type=FileOrName("campaign"))
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change the base plan.")
@with_output
def plan(out: Output, file: Path, changes: tuple[str, ...]) -> None:
    """Show the cells of FILE, the number of runs, and an estimate of the time and disk they take.
    Starts nothing."""
    from harness.campaigns.demands import sharing_by_axis
    from harness.campaigns.estimate import estimate
    from harness.campaigns.loading import load_campaign
    from harness.campaigns.sharing import groups_of_campaign
    from harness.plan.shipped import CAMPAIGNS, find
    from reports.wording import counted

    campaign = load_campaign(find(CAMPAIGNS, file), changes)
    estimated, groups = estimate(campaign), groups_of_campaign(campaign)
    group_of = {cell.name: group for group in groups for cell in group}
    cells = [
        PlannedCell(
            key=cell.key,
            runs=cell.repetitions,
            impossible=cell.impossible,
            shares_with=[o.key for o in group_of.get(cell.name, ()) if o is not cell],
        )
        for cell in campaign.cells
    ]
    by_axis = sharing_by_axis(campaign, groups)
    head = {"schema": 1, "name": campaign.plan.name, "plan_hash": campaign.digest, "cells": cells}
    # `lanes` is the former name of `workers`.
    out.document({**head, "shared": by_axis, **vars(estimated), "lanes": estimated.workers})
    if not out.json:
        _print_cells(out, campaign, groups)
        _print_sharing(out, by_axis)
    count = len(campaign.cells) - len(campaign.possible)
    impossible = f", {count} of them impossible" if count else ""
    runs = counted(estimated.runs, "run")
    if estimated.executions < estimated.runs:
        runs += f" in {counted(estimated.executions, 'execution')}"
    out.say(
        f"{campaign.plan.name}: {counted(len(campaign.cells), 'cell')}{impossible}, {runs}, "
        f"{time_in_words(estimated)} on {counted(estimated.workers, 'worker')}, "
        f"about {estimated.disk_mb:,.0f} MiB"
    )


def time_in_words(estimated: Estimate) -> str:
    """The time that the runs take, and how much of it the budget allows one session."""
    words = about(estimated.seconds)
    if estimated.session_s < estimated.seconds:
        words += f" (its budget allows {about(estimated.session_s)} a session)"
    return words


def _print_cells(out: Output, campaign: Campaign, groups: Sequence[Group]) -> None:
    """Print every cell that can be run, by the run that it shares, then the others by the reason
    why they cannot."""
    for group in groups:
        if len(group) > 1:
            out.say(f"  one run for {len(group)} cells:")
        for cell in group:
            out.say(f"  {cell.repetitions:5} x {cell.name}")
    for why in dict.fromkeys(cell.impossible for cell in campaign.cells if cell.impossible):
        out.say(f"  impossible, not run: {why}", style="yellow")
        for cell in campaign.cells:
            if cell.impossible == why:
                out.say(f"        {cell.name}")


def _print_sharing(out: Output, by_axis: Mapping[str, Along]) -> None:
    """Print in one line along which axes cells share their runs; nothing without axes."""
    parts = []
    for along, words in _ALONG.items():
        if axes := [axis for axis, found in by_axis.items() if found == along]:
            parts.append(f"{words} {', '.join(axes)}")
    if parts:
        out.progress(f"shared runs: {'; '.join(parts)}")


def print_progress(out: Output, where: CampaignDir, campaign: Campaign, progress: Progress) -> None:
    """Print the runs of each cell, by verdict, and whether the campaign is running."""
    from reports.formatting import SIMULATED

    cells = [_status(cell.name, cell.repetitions, progress) for cell in campaign.possible]
    current = CampaignStatus(
        name=campaign.plan.name,
        simulated=campaign.simulated,
        alive=where.alive,
        ended=progress.ended,
        cells=cells,
        said=progress.said,
    )
    out.document(current)
    if out.json:
        return
    if campaign.simulated:
        out.say(SIMULATED, style="yellow")
    names = ("cell", "runs", *_VERDICTS, "failed", "left")
    out.table(names, (vars(cell).values() for cell in cells))
    left = sum(cell.left for cell in cells)
    state = "is running" if current.alive else "is not running"
    out.say(f"{left:,} runs are left; the campaign {state}")


def _status(name: str, repetitions: int, progress: Progress) -> CellStatus:
    runs = [run for run in progress.runs.values() if run.cell == name]
    verdicts = {verdict: sum(run.verdict == verdict for run in runs) for verdict in _VERDICTS}
    done = sum(verdicts.values())
    failed = sum(run.state == "failed" for run in runs)
    left = repetitions - len({run.repetition for run in runs if run.is_finished})
    return CellStatus(cell=name, runs=done, **verdicts, failed=failed, left=left)
