"""`ackloss campaign run|resume`: runs what is left of a campaign, and writes its report."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from harness.cli.campaign_status import print_progress
from harness.cli.output import Output, with_output
from harness.cli.plans import FileOrName

if TYPE_CHECKING:
    from harness.campaigns.folder import CampaignDir
    from harness.campaigns.plan import Campaign
    from harness.run.interrupts import Interrupts
    from reports.junit import Junit

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_with_workers = click.option(
    "--workers", "--lanes", type=click.IntRange(1, 64), help="Clusters in parallel."
)


@click.command()
@click.argument("file", type=FileOrName())
@click.option("--out", "folder", type=click.Path(path_type=Path), help="Default: runs/NAME-DATE.")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change the base plan.")
@_with_workers
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
    """Run the campaign of FILE (a file, or a name of `ackloss list campaigns`).

    The exit code is 1 if its policy is broken, else 3 if a cell that the policy names has no
    conclusive run, else 0.
    """
    from harness.campaigns.folder import CampaignDir
    from harness.campaigns.plan import load_campaign
    from harness.campaigns.progress import read_progress
    from harness.history.run_folder import new_run_id
    from harness.plan.shipped import CAMPAIGNS, find

    campaign = load_campaign(find(CAMPAIGNS, file), changes)
    first = read_progress(CampaignDir.open(old).journal).lossy_cells() if old is not None else ()
    path = folder or Path("runs") / f"{campaign.plan.name}-{new_run_id()}"
    _run(out, CampaignDir.create(path, campaign), campaign, workers, first)


@click.command()
@click.argument("folder", type=_FOLDER)
@_with_workers
@with_output
def resume(out: Output, folder: Path, workers: int | None) -> None:
    """Continue the campaign in FOLDER. Finished runs are never repeated."""
    from harness.campaigns.folder import CampaignDir

    where = CampaignDir.open(folder)
    _run(out, where, where.campaign(), workers)


def _run(
    out: Output,
    where: CampaignDir,
    campaign: Campaign,
    workers: int | None,
    first: tuple[str, ...] = (),
) -> None:
    """Run what is left, report it, and end with the exit code of the policy."""
    from analysis.campaign import by_cell_of, results_of, tallies_of
    from harness.campaigns.policy import exit_code, inconclusive_in_words
    from harness.campaigns.progress import read_progress
    from harness.run.interrupts import Interrupts

    with where.locked():
        with Interrupts(say=partial(out.say, style="yellow")) as interrupts:
            why = _schedule(out, where, campaign, workers, first, interrupts)
        progress = read_progress(where.journal)
        print_progress(out, where, campaign, progress)
        out.say(f"{why}: {where.path}", style="bold")
    _write_page(out, where)
    if why == "interrupted":
        sys.exit(130)
    tallies = tallies_of(campaign, by_cell_of(campaign, results_of(where, progress)))
    if sentence := inconclusive_in_words(campaign.plan.policy, tallies):
        out.say(sentence, style="yellow")
    sys.exit(exit_code(campaign.plan.policy, tallies))


def _schedule(
    out: Output,
    where: CampaignDir,
    campaign: Campaign,
    workers: int | None,
    first: tuple[str, ...],
    interrupts: Interrupts,
) -> str:
    """Run what is left; returns why the session ended."""
    from checkers.judging.one_run import judge_run
    from harness.campaigns.estimate import estimate
    from harness.campaigns.progress import read_progress
    from harness.campaigns.scheduler import Scheduler
    from reports.formatting import SIMULATED
    from reports.junit import Junit
    from reports.summary import write_summary

    left = estimate(campaign, read_progress(where.journal).finished(), workers)
    out.say(f"{campaign.plan.name}  {len(campaign.possible)} cells  {where.path}", style="bold")
    out.say(f"{left.runs:,} runs are left, about {left.seconds / 3600:.1f} h")
    if campaign.simulated:
        out.say(SIMULATED, style="yellow")
    with interrupts.raising():
        _prepare(out, campaign, where)
    junit = Junit(where, campaign)
    scheduler = Scheduler(
        campaign,
        where,
        judge_run,
        left.workers,
        interrupts.stop,
        say=partial(out.say, style="yellow"),
        after=lambda run_id: _report_run(out, where, run_id, junit),
        first=first,
    )
    try:
        return scheduler.run()
    finally:
        junit.write()
        write_summary(where)


def _prepare(out: Output, campaign: Campaign, where: CampaignDir) -> None:
    """Refuse what this machine cannot run, and make images before all workers need them."""
    from harness.campaigns.worker import cluster_key
    from harness.run.before import clean_before, require

    distinct = {cluster_key(cell.resolved): cell.resolved for cell in campaign.possible}
    kinds = {type(resolved.provider): resolved.provider for resolved in distinct.values()}
    for provider in kinds.values():
        clean_before(provider, partial(out.say, style="yellow"))
    for resolved in distinct.values():
        require(resolved.provider, resolved.order, runs=where.runs)
        resolved.provider.prepare(resolved.order, out.say)


def _report_run(out: Output, where: CampaignDir, run_id: str, junit: Junit) -> None:
    """Print how a run ended, and write the JUnit report again."""
    from harness.campaigns.progress import read_progress
    from harness.errors import EnvironmentFailure

    progress = read_progress(where.journal)
    run = progress.runs[run_id]
    ended = run.verdict or f"{run.state}: {run.error}"
    done = len(progress.finished())
    took = f" in {run.seconds:.0f} s" if run.seconds else ""
    out.say(f"  {done:5}  worker {run.worker}  {run.cell}  {ended}{took}")
    try:
        junit.write()
    except EnvironmentFailure as error:  # a full disk: the campaign goes on
        out.say(str(error), style="yellow")


def _write_page(out: Output, where: CampaignDir) -> None:
    """Write the page. A failure is reported; it does not change how the campaign ends."""
    from harness.errors import AcklossError
    from reports.campaign import write_campaign

    try:
        out.say(write_campaign(where))
    except AcklossError as error:
        out.say(f"no page: {error}", style="yellow")
