"""`ackloss campaign run|resume|status|plan|compare|prune`: many runs, what they tell together."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from harness.cli.campaign_compare import compare, prune
from harness.cli.output import Output, plain, with_output
from harness.cli.verbs.clean import clean_before

if TYPE_CHECKING:
    from harness.campaigns.folder import CampaignDir
    from harness.campaigns.plan import Campaign
    from harness.campaigns.progress import Progress
    from reports.junit import Junit

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_VERDICTS = ("invalid", "valid", "unknown")


@click.group()
def campaign() -> None:
    """Play many runs: settings compared, with intervals."""


campaign.add_command(compare)
campaign.add_command(prune)


@campaign.command()
@click.argument("file", type=_FILE)
@click.option("--out", "folder", type=click.Path(path_type=Path), help="Default runs/NAME-DATE.")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change the base plan.")
@click.option("--workers", "--lanes", type=click.IntRange(1, 64), help="Clusters side by side.")
@click.option(
    "--first-failures-of", "old", type=_FOLDER, help="Begin with the cells that lost in this one."
)
@with_output
def run(
    out: Output,
    file: Path,
    folder: Path | None,
    changes: tuple[str, ...],
    workers: int | None,
    old: Path | None,
) -> None:
    """Play the campaign of FILE.

    Exit code 1 if its policy is broken, else 3 if a cell that the policy names has no conclusive
    run, else 0.
    """
    from harness.campaigns.folder import CampaignDir
    from harness.campaigns.plan import load_campaign
    from harness.campaigns.progress import read_progress
    from harness.history.run_folder import new_run_id

    given = load_campaign(file, changes)
    first = read_progress(CampaignDir.open(old).journal).lossy_cells() if old is not None else ()
    where = CampaignDir.create(folder or Path("runs") / f"{given.plan.name}-{new_run_id()}", given)
    _play(out, where, given, workers, first)


@campaign.command()
@click.argument("folder", type=_FOLDER)
@click.option("--workers", "--lanes", type=click.IntRange(1, 64), help="Clusters side by side.")
@with_output
def resume(out: Output, folder: Path, workers: int | None) -> None:
    """Go on with the campaign in FOLDER: finished runs are never repeated."""
    from harness.campaigns.folder import CampaignDir

    where = CampaignDir.open(folder)
    _play(out, where, where.campaign(), workers)


@campaign.command()
@click.argument("folder", type=_FOLDER)
@with_output
def status(out: Output, folder: Path) -> None:
    """How far the campaign in FOLDER is; also while another process plays it, or after a crash."""
    from harness.campaigns.folder import CampaignDir
    from harness.campaigns.progress import read_progress

    where = CampaignDir.open(folder)
    progress = read_progress(where.journal)
    _say_progress(out, where, where.campaign(), progress)


@campaign.command()
@click.argument("file", type=_FILE)
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change the base plan.")
@with_output
def plan(out: Output, file: Path, changes: tuple[str, ...]) -> None:
    """The cells of FILE, how many runs, and about how much time and disk. Starts nothing."""
    from harness.campaigns.estimate import estimate
    from harness.campaigns.plan import load_campaign

    given = load_campaign(file, changes)
    told = estimate(given)
    out.document(
        {
            "schema": 1,
            "name": given.plan.name,
            "plan_hash": given.digest,
            "cells": [
                {"key": c.key, "runs": c.repetitions, "impossible": c.impossible}
                for c in given.cells
            ],
            **vars(told),
        }
    )
    if not out.json:
        _say_cells(out, given)
    count = len(given.cells) - len(given.possible)
    impossible = f", {count} of them impossible" if count else ""
    out.say(
        f"{given.plan.name}: {len(given.cells)} cells{impossible}, {told.runs:,} runs, "
        f"about {told.seconds / 3600:.1f} h on {told.workers} workers, "
        f"about {told.disk_mb:,.0f} MiB"
    )


def _say_cells(out: Output, given: Campaign) -> None:
    """Every cell that is played, then those that are not, by the reason why."""
    for cell in given.possible:
        out.say(f"  {cell.repetitions:5} x {cell.name}")
    for why in dict.fromkeys(cell.impossible for cell in given.cells if cell.impossible):
        out.say(f"  impossible, and not played: {why}", style="yellow")
        for cell in given.cells:
            if cell.impossible == why:
                out.say(f"        {cell.name}")


def _play(
    out: Output,
    where: CampaignDir,
    given: Campaign,
    workers: int | None,
    first: tuple[str, ...] = (),
) -> None:
    from analysis.campaign import by_cell_of, results_of, tallies_of
    from checkers.judging import judge_run
    from checkers.loss import Loss
    from harness.campaigns.estimate import estimate
    from harness.campaigns.policy import exit_code, silence_in_words
    from harness.campaigns.progress import read_progress
    from harness.campaigns.scheduler import Scheduler
    from harness.run.interrupts import Interrupts
    from reports.junit import Junit
    from reports.summary import write_summary

    junit = Junit(where, given)
    with where.locked():
        left = estimate(given, read_progress(where.journal).finished(), workers)
        out.say(f"{given.plan.name}  {len(given.possible)} cells  {where.path}", style="bold")
        out.say(f"{left.runs:,} runs are left, about {left.seconds / 3600:.1f} h")
        with Interrupts(say=lambda text: out.say(text, style="yellow")) as interrupts:
            with interrupts.raising():
                _prepare(out, given, where)
            scheduler = Scheduler(
                given,
                where,
                partial(judge_run, checker=Loss()),
                left.workers,
                interrupts.stop,
                say=lambda text: out.say(text, style="yellow"),
                after=lambda run_id: _say_run(out, where, run_id, junit),
                first=first,
            )
            try:
                why = scheduler.play()
            finally:
                junit.write()
                write_summary(where)
        progress = read_progress(where.journal)
        _say_progress(out, where, given, progress)
        out.say(f"{why}: {where.path}", style="bold")
    _write_page(out, where)
    if why == "interrupted":
        sys.exit(130)
    tallies = tallies_of(given, by_cell_of(given, results_of(where, progress)))
    if nothing := silence_in_words(given.plan.policy, tallies):
        out.say(nothing, style="yellow")
    sys.exit(exit_code(given.plan.policy, tallies))


def _write_page(out: Output, where: CampaignDir) -> None:
    """Write the page, or say why there is none: the campaign has been played all the same."""
    from harness.errors import AcklossError
    from reports.campaign import write_campaign

    try:
        out.say(write_campaign(where))
    except AcklossError as error:
        out.say(f"no page: {error}", style="yellow")


def _prepare(out: Output, given: Campaign, where: CampaignDir) -> None:
    """Refuse what this machine cannot play, and make images before workers do, all at once."""
    from harness.campaigns.worker import cluster_key
    from harness.cli.checkup import require
    from harness.images.building import holder

    clean_before(out)
    holder(out.say)
    distinct = {cluster_key(cell.bound): cell.bound for cell in given.possible}
    for bound in distinct.values():
        require(bound.plan, nodes=len(bound.target.names(bound.plan)), runs=where.runs)
        bound.target.prepare(bound.plan, out.say)


def _say_run(out: Output, where: CampaignDir, run_id: str, junit: Junit) -> None:
    from harness.campaigns.progress import read_progress
    from harness.errors import EnvironmentFailure

    progress = read_progress(where.journal)
    run = progress.runs[run_id]
    told = run.verdict or f"{run.state}: {run.error}"
    done = len(progress.finished())
    took = f" in {run.seconds:.0f} s" if run.seconds else ""
    out.say(f"  {done:5}  worker {run.worker}  {run.cell}  {told}{took}")
    try:
        junit.write()
    except EnvironmentFailure as error:  # a full disk: the campaign goes on
        out.say(str(error), style="yellow")


def _say_progress(out: Output, where: CampaignDir, given: Campaign, progress: Progress) -> None:
    from rich.table import Table

    told = [_cell(cell.name, cell.repetitions, progress) for cell in given.possible]
    alive = where.alive
    out.document(
        {
            "schema": 1,
            "name": given.plan.name,
            "alive": alive,
            "ended": progress.ended,
            "cells": told,
            "said": progress.said,
        }
    )
    if out.json:
        return
    table = Table("cell", "runs", *_VERDICTS, "failed", "left", box=None)
    for row in told:
        table.add_row(*(plain(value) for value in row.values()))
    out.console.print(table)
    left = sum(row["left"] for row in told)
    state = "is being played" if alive else "is not being played"
    out.say(f"{left:,} runs are left; the campaign {state}")


def _cell(name: str, repetitions: int, progress: Progress) -> dict[str, Any]:
    runs = [run for run in progress.runs.values() if run.cell == name]
    verdicts = {v: sum(run.verdict == v for run in runs) for v in _VERDICTS}
    failed = sum(run.state == "failed" for run in runs)
    done = sum(verdicts.values())
    return {
        "cell": name,
        "runs": done,
        **verdicts,
        "failed": failed,
        "left": repetitions - done - failed,
    }
