"""`ackloss campaign` and `ackloss mine`: run what is left of a campaign and write its report,
compare campaigns over time, and keep them small."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click
from rich.live import Live

from ackloss.cli.campaign_status import Watched, print_plan, print_progress, status, time_in_words
from ackloss.cli.options import (
    FILE,
    FOLDER,
    CommandWithSettingsFiles,
    FileOrName,
    key_and_value,
    print_own,
    taken,
    with_client_option,
    with_options,
)
from ackloss.cli.output import Output, with_output
from analysis.wording import counted, of_runs
from harness.errors import AcklossError, EnvironmentFailure
from harness.urls import is_url

if TYPE_CHECKING:
    from analysis.comparison import CampaignComparison
    from harness.campaigns.archive import Archive, Pruned
    from harness.campaigns.folder import CampaignDir
    from harness.campaigns.journal import Progress, Run
    from harness.campaigns.plan import Campaign
    from harness.campaigns.worker import Start
    from harness.protocols import Provider
    from harness.run.client_process import Argv
    from harness.run.interrupts import Interrupts
    from harness.run.resolving import ResolvedPlan
    from harness.storage import Folder
    from reports.answer import Answer
    from reports.junit import Junit


_with_workers = click.option(
    "--workers", "--lanes", type=click.IntRange(1, 64), help="Clusters in parallel."
)
_with_inventories = click.option(
    "--inventory",
    "inventories",
    multiple=True,
    type=FILE,
    help="Your hosts, over SSH (repeatable: one worker per file; see docs/how-to/ssh.md).",
)
_with_archive = click.option(
    "--archive", metavar="URL", help="Copy each judged run there, such as s3://bucket/folder."
)


_of_its_plan = [
    click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change the plan."),
    click.option(
        "--only", multiple=True, metavar="AXIS=A,B", help="Run these choices of an axis alone."
    ),
    click.option("--repetitions", type=click.IntRange(1), help="Runs of each cell."),
]
_of_a_new_one = [
    *_of_its_plan,
    click.option(
        "--out", "folder", type=click.Path(path_type=Path), help="Default: runs/NAME-DATE."
    ),
    click.option("--dry-run", is_flag=True, help="Show the cells, and start nothing."),
    _with_workers,
    _with_inventories,
    _with_archive,
    with_client_option,
]


with_campaign_options = with_options(_of_a_new_one)
"""Gives a command the options of a new campaign."""


@click.command(cls=CommandWithSettingsFiles)
@click.argument("file", type=FileOrName("campaign"))
@with_campaign_options
@click.option(
    "--first-failures-of",
    "old",
    type=FOLDER,
    help="Begin with the cells that had an `invalid` run there.",
)
@with_output
def run(out: Output, file: Path, **chosen: Any) -> None:
    """Run the campaign of FILE (a file, or a name of `ackloss list campaigns`).

    The exit code is 1 if its policy is violated, else 3 if a cell that the policy names has no
    conclusive run, else 0.
    """
    run_new(out, file, **chosen)


def run_new(
    out: Output,
    file: Path,
    *,
    folder: Path | None,
    dry_run: bool,
    workers: int | None,
    inventories: tuple[Path, ...],
    archive: str | None,
    client: str | None,
    old: Path | None = None,
    **of_plan: Any,
) -> None:
    """Run a new campaign, or only show it."""
    from harness.campaigns.folder import CampaignDir
    from harness.history.run_folder import new_run_id
    from harness.run.resolving import HOSTS

    if inventories:
        of_plan["changes"] = (*of_plan["changes"], f'cluster={{kind="{HOSTS}"}}')
    campaign = _loaded(out, file, **of_plan)
    _check_inventories(inventories, workers)
    command = _command(campaign, client, str(file))
    if dry_run:
        print_plan(out, campaign)
        return
    first = CampaignDir.open(old).progress().lossy_cells() if old is not None else ()
    path = folder or Path("runs") / f"{campaign.plan.name}-{new_run_id()}"
    how = _Given(command, inventories, _folder_at(archive, path))
    _run(out, CampaignDir.create(path, campaign), campaign, workers, how, first)


def _loaded(
    out: Output,
    file: Path,
    *,
    changes: tuple[str, ...],
    only: tuple[str, ...],
    repetitions: int | None,
    **own: Any,
) -> Campaign:
    """The campaign of a file, with what the command line changes of it."""
    from harness.campaigns.loading import load_campaign
    from harness.plan.parsing import CAMPAIGNS, find

    pairs = [key_and_value("--only", text) for text in only]
    campaign = load_campaign(
        find(CAMPAIGNS, file),
        changes,
        only={axis: labels.split(",") for axis, labels in pairs},
        repetitions=repetitions,
        own=taken(own),
    )
    print_own(out, campaign.base)
    return campaign


@click.command(cls=CommandWithSettingsFiles)
@click.argument("file", type=FileOrName("campaign"))
@with_options(_of_its_plan)
@with_output
def plan(out: Output, file: Path, **chosen: Any) -> None:
    """Show the cells of FILE, the number of runs, and an estimate of the time and disk they take.
    Starts nothing."""
    print_plan(out, _loaded(out, file, **chosen))


@click.command()
@click.argument("folder", type=FOLDER)
@click.option("--repetitions", type=click.IntRange(1, 100_000), help="More runs of each cell.")
@_with_workers
@_with_inventories
@_with_archive
@with_client_option
@with_output
def resume(
    out: Output,
    folder: Path,
    repetitions: int | None,
    workers: int | None,
    inventories: tuple[Path, ...],
    archive: str | None,
    client: str | None,
) -> None:
    """Continue the campaign in FOLDER. Finished runs are never repeated."""
    from harness.campaigns.folder import CampaignDir

    where = CampaignDir.open(folder)
    campaign = where.campaign()
    has = min(cell.repetitions for cell in campaign.possible)
    if repetitions is not None and repetitions < has:
        raise click.UsageError(
            f"--repetitions is {repetitions}, but the campaign has {has} of each cell: it only "
            "raises them"
        )
    campaign = campaign.with_repetitions(repetitions)
    _check_inventories(inventories, workers)
    command = _command(campaign, client, str(where.file))
    given = _Given(command, inventories, _folder_at(archive, folder))
    _run(out, where, campaign, workers, given)


@dataclass(frozen=True)
class _Given:
    """What only the command line names: the clients' command, hosts, and where runs are copied."""

    client: Argv | None
    inventories: tuple[Path, ...]
    archive: Folder | None

    def start(self) -> Start:
        """How workers begin."""
        from harness.campaigns.worker import OnInventories, start_process

        if self.inventories:
            return OnInventories(self.inventories, self.client)
        return partial(start_process, client=self.client)

    def on_each(self, resolved: ResolvedPlan) -> list[ResolvedPlan]:
        """A plan as each worker runs it."""
        from harness.run.resolving import resolve

        on_hosts = [resolve(resolved.plan, inventory=inventory) for inventory in self.inventories]
        return on_hosts or [resolved]


def _folder_at(url: str | None, campaign: Path) -> Folder | None:
    """The folder that --archive names, before anything is made: not one that holds the campaign's
    own, or is in it, since then copies would be copied."""
    if url is None:
        return None
    from harness.storage import Folder

    if not is_url(url):
        raise click.UsageError("--archive is not a URL such as s3://bucket/folder")
    folder = Folder.at(url)
    if folder.local is not None:
        there, here = folder.local.resolve(), campaign.resolve()
        if there.is_relative_to(here) or here.is_relative_to(there):
            raise click.UsageError(
                f"--archive is, holds, or is inside the campaign's own folder {campaign}: "
                "name another one"
            )
        existing = next(path for path in (there, *there.parents) if path.exists())
        if not existing.is_dir():
            raise EnvironmentFailure(
                "is a file, and --archive names a folder",
                file=str(existing),
                hint="name another one",
            )
    return folder


def _check_inventories(inventories: tuple[Path, ...], workers: int | None) -> None:
    """One worker for each inventory."""
    if inventories and workers not in (None, len(inventories)):
        raise click.UsageError(
            f"--workers is {workers}, but --inventory names {len(inventories)}: leave out --workers"
        )
    if len({path.resolve() for path in inventories}) < len(inventories):
        raise click.UsageError("--inventory names a file twice: a host takes one run at a time")


def _command(campaign: Campaign, client: str | None, file: str) -> Argv | None:
    """The command of --client. Raises PlanError where a cell needs one, or none does."""
    from harness.run.client_process import client_command
    from harness.run.resolving import with_client

    command = None if client is None else client_command(client)
    for cell in campaign.possible:
        with_client(cell.resolved, command, file=file)
    return command


def _run(
    out: Output,
    where: CampaignDir,
    campaign: Campaign,
    workers: int | None,
    given: _Given,
    first: tuple[str, ...] = (),
) -> None:
    """Run what is left, report it, and end with the exit code of the policy; where that is 0, with
    that of the environment if a run was not copied to the archive."""
    from analysis.campaign import by_cell_of, results_of, rows_of, tallies_of
    from harness.campaigns.archive import Archive
    from harness.campaigns.plan import exit_code, inconclusive_in_words
    from harness.run.interrupts import Interrupts
    from reports.answer import answer

    with where.locked():
        archive: Archive | None = None
        if given.archive is not None:  # it is shown to accept copies before anything is run
            archive = Archive(where, given.archive, partial(out.progress, style="yellow"))
            archive.begin(where.progress())
        try:
            with Interrupts(say=partial(out.progress, style="yellow")) as interrupts:
                why = _schedule(out, where, campaign, workers, given, first, interrupts, archive)
        except AcklossError:
            if archive is not None:
                archive.finish(where.progress())
            raise
        progress = where.progress()
    results = list(results_of(where, progress))
    found = answer(campaign, results, rows_of(results, {}))
    # Out of the lock: it states whether a process has it.
    print_progress(out, where, campaign, progress, found)
    out.say(f"{why}: {where.path}", style="bold")
    _write_page(out, where, found)
    missing = archive.finish(progress, at_once=why == "interrupted") if archive else []
    if why == "interrupted":
        sys.exit(130)
    tallies = tallies_of(campaign, by_cell_of(campaign, results))
    if sentence := inconclusive_in_words(campaign.plan.policy, tallies):
        out.say(sentence, style="yellow")
    code = exit_code(campaign.plan.policy, tallies)
    sys.exit(EnvironmentFailure.exit_code if missing and code == 0 else code)


def _schedule(
    out: Output,
    where: CampaignDir,
    campaign: Campaign,
    workers: int | None,
    given: _Given,
    first: tuple[str, ...],
    interrupts: Interrupts,
    archive: Archive | None,
) -> str:
    """Run what is left; returns why the session ended."""
    from checkers.judging.one_run import judge_run
    from harness.campaigns.scheduler import Scheduler, estimate
    from reports.formatting import SIMULATED
    from reports.junit import Junit, write_summary

    workers = len(given.inventories) or workers
    left = estimate(campaign, where.progress().finished(), workers)
    cells = counted(len(campaign.possible), "cell")
    out.progress(f"{campaign.plan.name}  {cells}  {where.path}", style="bold")
    out.progress(f"{of_runs(left.runs, left.executions)} are left, {time_in_words(left)}")
    if campaign.simulated:
        out.progress(SIMULATED, style="yellow")
    with interrupts.raising():
        _prepare(out, campaign, where, given)
    junit = Junit(where, campaign)
    scheduler = Scheduler(
        campaign,
        where,
        judge_run,
        left.workers,
        interrupts.stop,
        say=partial(out.progress, style="yellow"),
        after=lambda run, progress: _report_run(out, watched, junit, archive, run, progress),
        first=first,
        start=given.start(),
    )
    watched = Watched(campaign, scheduler.progress, left.workers)
    shown: AbstractContextManager[object] = nullcontext()
    if out.console.is_terminal and not out.quiet:
        console = out.console
        shown = Live(
            get_renderable=lambda: watched.table(console), console=console, refresh_per_second=1
        )
    try:
        with shown:
            return scheduler.run()
    finally:
        junit.write()
        write_summary(where)


def _prepare(out: Output, campaign: Campaign, where: CampaignDir, given: _Given) -> None:
    """Refuse what this machine, or a worker's hosts, cannot run, and make images before all workers
    need them."""
    from harness.campaigns.worker import cluster_key
    from harness.run.runner import clean_before, require

    distinct = {cluster_key(cell.resolved): cell.resolved for cell in campaign.possible}
    each = [on_worker for plan in distinct.values() for on_worker in given.on_each(plan)]
    cleaned: list[Provider] = []
    for resolved in each:
        if resolved.provider not in cleaned:
            clean_before(resolved.provider, partial(out.progress, style="yellow"))
            cleaned.append(resolved.provider)
    for resolved in each:
        require(resolved.provider, resolved.order, runs=where.runs)
        resolved.provider.prepare(resolved.order, out.progress)


def _report_run(
    out: Output,
    watched: Watched,
    junit: Junit,
    archive: Archive | None,
    run: Run,
    progress: Progress,
) -> None:
    """Once all cells of a run's execution have ended, print how, write the JUnit report again, and
    have the run copied."""
    if archive is not None and progress.is_judged(run.execution):
        archive.add(run.execution)
    if progress.is_over(run.execution):
        out.progress(f"{watched.ended(run.execution)};  {watched.so_far()}")
        try:
            junit.write(progress)
        except EnvironmentFailure as error:  # a full disk: the campaign continues
            out.progress(str(error), style="yellow")


def _write_page(out: Output, where: CampaignDir, found: Answer | None) -> None:
    """Write the page, and those of the runs to which its answer leads. A failure is reported; it
    does not change how the campaign ends."""
    from reports.campaign import write_campaign, write_run_pages

    try:
        if found is not None:
            write_run_pages(where, found.pages)
        out.say(write_campaign(where, out.note))
        if found is None:  # which says it otherwise
            out.say(json.loads(where.result.read_bytes())["closing"], style="bold")
    except AcklossError as error:
        out.say(f"no page: {error}", style="yellow")


@click.command(cls=CommandWithSettingsFiles)
@with_campaign_options
@with_output
def mine(out: Output, **chosen: Any) -> None:
    """Run your own settings under the stock faults, with safe settings beside them.

    Name your files, such as --broker-settings server.properties --producer-settings
    producer.properties. It is the campaign `mine`, a few minutes long: a broker dies, the leader is
    isolated, a zone is cut off, brokers are restarted, all lose power.

    The exit code is 1 if your settings lost acknowledged writes, 3 if that is not known, else 0.
    Power loss of all brokers does not count: no setting but a flush after each write prevents it.
    """
    run_new(out, Path("mine"), **chosen)


_PAGE = click.Path(dir_okay=False, path_type=Path)
_STYLES = {"regression": "red", "improvement": "green", "doubtful": "yellow"}


@click.command()
@click.argument(
    "folders", nargs=-1, type=FOLDER, required=True, metavar="[OLDER ...] BASELINE CURRENT"
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
    from reports import compare as pages

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
    from reports.compare import changes, headline, ordered, value
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
@click.argument("folders", nargs=-1, type=FOLDER, required=True)
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
    from harness.campaigns.archive import prune as prune_runs

    def is_failure(run: Run) -> bool:
        from analysis.campaign import outcome_of
        from analysis.statistics.cells import HARNESS_FAILURE, LOSS, WRONG, verdict_class

        outcome = outcome_of(where, run)
        return outcome is not None and verdict_class(outcome) in (LOSS, WRONG, HARNESS_FAILURE)

    return prune_runs(where, keep=keep, is_failure=is_failure, dry_run=dry_run)


@click.group()
def campaign() -> None:
    """Run a matrix of settings and faults many times, and compare the cells, with intervals."""


for _verb in (run, resume, status, plan, compare, prune):
    campaign.add_command(_verb)
