"""`ackloss check|explain|report|compare|show|ls`: stored runs, or histories of other tools, are
judged again; what is stored is printed, or written as pages again."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from ackloss.cli.options import FILE, FOLDER, PathOrUrl, key_and_value
from ackloss.cli.output import Output, merged_exit_code, print_result, print_verdict, with_output
from analysis.wording import counted, has
from harness.errors import AcklossError, HistoryError
from harness.machine.files import scratch

if TYPE_CHECKING:
    from checkers.judging.many_runs import Stored
    from harness.history.documents import RunResult
    from harness.history.explanations import Chain
    from harness.history.run_folder import RunDir


_HISTORY = click.Path(exists=True, allow_dash=True, path_type=Path)


@click.command()
@click.argument("runs", nargs=-1, type=PathOrUrl())
@click.option(
    "--history",
    "histories",
    multiple=True,
    type=_HISTORY,
    help="JSON, EDN, a folder of Jepsen's store, or - (repeatable).",
)
@click.option("--checker", default="loss", show_default=True, help="The checker for --history.")
@click.option("--option", "options", multiple=True, metavar="K=V", help="The checker's options.")
@click.option("--master", help="Spark's master; for many runs local[*] (docs/how-to/scale.md).")
@click.option(
    "--conf", "conf", multiple=True, metavar="K=V", help="Any Spark setting (repeatable)."
)
@with_output
def check(
    out: Output,
    runs: tuple[str, ...],
    histories: tuple[Path, ...],
    checker: str,
    options: tuple[str, ...],
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Judge RUNS (the folder of a run, of several runs or of a campaign; a path or a URL such as
    s3://bucket/folder) or --history files: fewer than 1,000 by processes of this machine, more
    by Spark, which --master and --conf start for any number.

    Needs no cluster. The exit code is 4 if any input was bad (the others are still checked), else 5
    or 6 if judging one failed, else 1 if any is invalid, else 3 if any is unknown, else 0.
    """
    if bool(runs) == bool(histories):
        raise click.UsageError("name either run folders, or histories with --history")
    from checkers.judging.many_runs import check_histories, check_runs

    errors: list[AcklossError] = []
    settings = dict(key_and_value("--conf", text) for text in conf)
    given = dict(key_and_value("--option", text) for text in options)
    if runs:
        stored = _stored(runs, out, errors)
        results = check_runs(stored, master=master, conf=settings, errors=errors)
    else:
        with _readable(histories, errors) as files:
            results = check_histories(
                files, checker=checker, options=given, master=master, conf=settings, errors=errors
            )
    if not results and len(errors) == 1:
        raise errors[0]
    for error in errors:
        out.error(error)
    for result in results:
        print_verdict(out, result)
    single = len(results) == 1 and len(runs) + len(histories) == 1
    out.document(results[0] if single else {"schema": 1, "results": results})
    sys.exit(merged_exit_code([result["verdict"] for result in results], errors=errors))


def _stored(paths: Sequence[str], out: Output, errors: list[AcklossError]) -> list[Stored]:
    """The runs in these folders, each once; what is wrong with a folder is one of `errors`."""
    from harness.campaigns.folder import stored_runs

    runs: dict[str, Stored] = {}  # by their place: `runs/` and `runs/x` name one of them twice
    for given in paths:
        try:
            found = stored_runs(given)
        except AcklossError as error:
            errors.append(error)
            continue
        runs.update((_place(run), run) for run in found.runs)
        if number := found.without_history:
            runs_have = f"{counted(number, 'run')} {has(number)}"
            out.progress(f"{runs_have} no history and cannot be judged: {given}")
    return [*runs.values()]


def _place(run: Stored) -> str:
    from harness.history.run_folder import RunDir

    return str(run.path.resolve()) if isinstance(run, RunDir) else run.folder.url


@contextmanager
def _readable(paths: Sequence[Path], errors: list[AcklossError]) -> Iterator[list[Path]]:
    """The files, with a copy of standard input, which other processes cannot read; `errors` name it
    as the user does."""
    with scratch() as folder:
        stdin = Path(folder) / "stdin"
        if Path("-") in paths:
            with stdin.open("wb") as copy:
                shutil.copyfileobj(sys.stdin.buffer, copy)
        yield [stdin if path == Path("-") else path for path in paths]
    for error in errors:
        error.file = error.file and error.file.replace(str(stdin), "-")


_PATH = click.Path(exists=True, path_type=Path)
_RUNS = ("run.json", "*/run.json", "runs/*/run.json")
"""Where runs are: the folder itself, a folder of runs, that of a campaign."""


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """A run as `ls` lists it; `None` where it is not known."""

    run_id: str
    plan: str | None = None
    state: str | None = None
    verdict: str | None = None
    lost: int | None = None
    acknowledged: int | None = None
    simulated: bool = False


@click.command()
@click.argument("folders", nargs=-1, metavar="[DIR]...", type=FOLDER)
@click.option("--out", "out_folder", type=click.Path(path_type=Path), help="As DIR; default: runs.")
@with_output
def ls(out: Output, folders: tuple[Path, ...], out_folder: Path | None) -> None:
    """List the runs in each DIR, or in runs/, newest last: run folders, or a campaign's."""
    from harness.history.run_folder import RunDir

    given = [*folders, *([out_folder] if out_folder else [])] or [Path("runs")]
    found = [file for folder in given for name in _RUNS for file in sorted(folder.glob(name))]
    runs = [_summary(RunDir(path.parent)) for path in found]
    out.document({"schema": 1, "runs": runs})
    if out.json:
        return
    if not runs:
        out.say(f"no runs in {', '.join(map(str, given))}")
        return
    names = ("run", "plan", "state", "verdict", "lost", "acknowledged", "")
    marked = ({**vars(run), "simulated": "simulated" if run.simulated else None} for run in runs)
    out.table(names, (row.values() for row in marked))


def _summary(rundir: RunDir) -> RunSummary:
    """A run; of one that cannot be read, what is wrong is in place of its state."""
    from checkers.judging.one_run import stored_result
    from harness.history.documents import CONCLUSIVE, read_run, result_of
    from reports.checks import states_losses

    try:
        metadata, plan = read_run(rundir), rundir.read_json(rundir.plan)
        document = stored_result(rundir)
        result = None if document is None else result_of(document, file=rundir.result)
    except HistoryError as error:
        return RunSummary(
            run_id=rundir.run_id, state=f"{Path(error.file or '').name}: {error.what}"
        )
    is_known = result and result.verdict in CONCLUSIVE and states_losses(result)
    return RunSummary(
        run_id=rundir.run_id,
        plan=str(plan["name"]) if "name" in plan else None,
        state=metadata.state,
        verdict=result.verdict if result else None,
        lost=result.counts.lost if result and is_known else None,
        acknowledged=result.counts.acknowledged if result else None,
        simulated=metadata.simulated,
    )


@click.command()
@click.argument("runs", nargs=-1, required=True, type=_PATH, metavar="RUN...")
@with_output
def show(out: Output, runs: tuple[Path, ...]) -> None:
    """Show the result of each RUN, from its folder."""
    from checkers.judging.one_run import stored_result
    from harness.history.documents import read_run, result_of
    from harness.history.run_folder import RunDir

    documents = []
    for run in runs:
        rundir = RunDir.open(run)
        document = stored_result(rundir)
        documents.append(rundir.read_json(rundir.run) if document is None else document)
        if len(runs) > 1 and not out.json:
            out.say(f"{rundir.run_id}", style="bold")
        if document is None:
            state = read_run(rundir).state or "its state is not recorded"
            if not out.json:
                out.say(f"{rundir.run_id}: {state}, not checked yet: `ackloss check {run}`")
            documents[-1]["state"] = state
        elif not out.json:
            print_result(out, result_of(document, file=rundir.result), rundir)
    out.document(documents[0] if len(runs) == 1 else {"schema": 1, "results": documents})


@click.command()
@click.argument("runs", nargs=-1, required=True, type=_PATH)
@click.option("--each", is_flag=True, help="Also write the page of each run of a campaign.")
@with_output
def report(out: Output, runs: tuple[Path, ...], each: bool) -> None:
    """Write the pages of RUNS (folders of runs or campaigns) again, from their stored results."""
    from ackloss.session import Session
    from harness.campaigns.folder import CampaignDir

    session, pages = Session(say=out.note), []
    for path in runs:
        if each and (campaign := CampaignDir(path)).exists:
            from reports.campaign import write_run_pages  # scipy takes a second

            out.say(f"{write_run_pages(campaign):,} pages of runs")
        page = session.report(path)
        pages.append(str(page))
        if not out.json:
            out.say(page)
    out.document({"schema": 1, "reports": pages})


@click.command()
@click.argument("a", type=_PATH)
@click.argument("b", type=_PATH)
@click.option("--page", type=click.Path(path_type=Path), help="Where to write the page.")
@with_output
def compare(out: Output, a: Path, b: Path, page: Path | None) -> None:
    """Compare two runs on one page, differences first."""
    from harness.history.run_folder import RunDir
    from reports.compare import write_comparison
    from reports.formatting import SIMULATED

    first, second = RunDir.open(a), RunDir.open(b)
    written = page or second.path.parent / f"compare-{first.run_id}-{second.run_id}.html"
    document = write_comparison(first, second, written)
    out.document({"schema": 1, "page": str(written), **document})
    if not out.json:
        if document["simulated"]:
            out.say(SIMULATED, style="yellow")
        out.say(written)


@click.command()
@click.argument("run", type=FOLDER)
@click.option("--write", "value", type=int, metavar="VALUE", help="Only the chain of this write.")
@click.option(
    "--alarms",
    "rules",
    type=FILE,
    help="Instead: which of your own Prometheus rules in this file would have fired.",
)
@with_output
def explain(out: Output, run: Path, value: int | None, rules: Path | None) -> None:
    """Say why the acknowledged writes of RUN were lost: a run folder, or one of its cells. And why
    its consumers skipped records, or processed them again.

    Each has one cause, with the chain of events behind it and the place in the folder
    that states each. `ackloss check` finds them, from the logs of nodes; for a run that was judged
    by an older version, run it first.
    """
    from harness.history.documents import read_result
    from harness.history.explanations import chains_of, chains_with, outcome_of
    from harness.history.run_folder import RunDir

    rundir = RunDir.open(run)
    if rules is not None:
        if value is not None:
            raise click.UsageError("name either a write or a file of rules")
        _print_alarms(out, rundir, rules)
        return
    found = []
    for folder in rundir.cells():
        chains = chains_of(folder) if value is None else chains_with(folder, value)
        found += [(_cell(rundir, folder), chain) for chain in chains]
    if value is not None and not found:
        outcomes = [outcome_of(folder, value) for folder in rundir.cells()]
        known = next((each for each in outcomes if each), f"no write of this run has {value}")
        raise HistoryError(known, file=str(run), hint="lost.csv lists those that are")
    _refuse_unexplained(rundir, bool(found))
    every = [read_result(folder) for folder in rundir.cells()]
    results = every if value is None else []
    others = [asdict(each) for result in results for each in result.not_lost]
    lost = [{"cell": cell, **asdict(chain)} for cell, chain in found]
    out.document({"schema": 1, "chains": lost, "not_lost": others})
    if out.json:
        return
    _print_gaps(out, every)
    for cell, chain in found:
        _print(out, f"{cell}: " if cell else "", chain)
    if value is None and all(chain.kind != "lost" for _, chain in found):
        out.say("no acknowledged write was lost")
    for result in results:
        for other in result.not_lost:
            if other.cause is None:
                out.say(f"not lost: {other.in_words}")
        if (entry := result.removed) is not None:
            style = "bold red" if entry.left_over else ""
            out.say(f"double entry: {entry.in_words}", style=style)
            for why in entry.not_copied:
                out.say(f"  not copied: {why}", style="yellow")


def _cell(rundir: RunDir, folder: RunDir) -> str | None:
    """The name of the cell of this folder; `None` for the run's own."""
    return None if folder.path == rundir.path else folder.path.name


def _print_gaps(out: Output, results: Sequence[RunResult]) -> None:
    """What of the evidence is not what the run wrote: another run's, say."""
    for gap in dict.fromkeys(gap for result in results for gap in result.gaps):
        out.say(f"the folder differs from what the run wrote: {gap}", style="yellow")


def _print_alarms(out: Output, rundir: RunDir, rules: Path) -> None:
    """What becomes of a user's own rules in a run, or in each of its cells."""
    import pyarrow.parquet as pq

    from checkers.judging.alarms import alarm, first_loss_s
    from checkers.judging.prometheus import own_rules
    from harness.history.documents import read_result
    from harness.history.metrics import read_metrics
    from reports.alarms import summary

    given = own_rules(rules)
    if (metrics := read_metrics(rundir)) is None:
        raise HistoryError(
            "this run has no metrics: no node has written down what it reports of itself",
            file=str(rundir.path),
            hint="run the plan again; docs/reference/run-folder.md says which systems do",
        )
    documents = []
    for folder in rundir.cells():
        if not folder.result.exists():
            raise HistoryError(
                "this run was not judged", file=str(folder.path), hint="ackloss check"
            )
        lost_s = first_loss_s(pq.read_table(folder.loss) if folder.loss.exists() else None)
        found = [alarm(rule, metrics, lost_s) for rule in given]
        cell = _cell(rundir, folder)
        documents += [{"cell": cell, **asdict(each)} for each in found]
        if out.json:
            continue
        _print_gaps(out, [read_result(folder)])
        of_cell = f"{cell}: " if cell else ""
        out.say(f"{of_cell}{summary(found, lost=lost_s is not None)}", style="bold")
        for each in found:
            if each.why_not is not None:
                words = f"not evaluated: {each.why_not} ({each.source})"
                out.say(f"  {each.rule}: {words}", style="yellow")
            elif each.fired_s is None:
                held = "" if each.held_s is None else f"; its condition held from {each.held_s:g} s"
                out.say(f"  {each.rule}: never{held}")
            else:
                when, early = "", each.before_first_loss_s
                if early is not None:
                    side = "before" if early > 0 else "after"
                    when = f", {abs(early):g} s {side} the first loss"
                of = f" in {each.chance:.0%} of the scrape's phases"
                out.say(f"  {each.rule}: at {each.fired_s:g} s{of}{when}")
    out.document({"schema": 1, "alarms": documents})


def _refuse_unexplained(rundir: RunDir, found: bool) -> None:
    """Raise HistoryError for a run that lost writes and was judged without asking why."""
    from checkers.judging.one_run import stored_result

    document = stored_result(rundir)
    if found or (document is not None and not document["counts"].get("lost")):
        return
    what = "this run was not judged" if document is None else "its result does not say why"
    raise HistoryError(what, file=str(rundir.path), hint=f"`ackloss check {rundir.path}`")


def _print(out: Output, of: str, chain: Chain) -> None:
    """A headline, the chain of events, and what would have prevented it."""
    places = [] if chain.partition is None else [f"partition {chain.partition}"]
    places += [] if chain.first is None else [f"offsets {chain.first:,} to {chain.last:,}"]
    where = f" ({', '.join(places)})" if places else ""
    style = "bold red" if chain.bad else "bold"
    out.say(f"{of}{chain.writes:,} {chain.kind}: {chain.sentence}{where}", style=style)
    for fact in chain.facts:
        at = "        " if fact.at_s is None else f"{fact.at_s:7.2f}s"
        out.say(f"  {at}  {fact.text}  [{fact.place or fact.source}]")
    for prevention in chain.preventions:
        out.say(f"  {prevention.sentence(chain.writes)}", style="green")
        out.say(f"    --set '{prevention.change}'")
