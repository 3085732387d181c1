"""`ackloss report|compare|show|ls`: what is stored, printed or written as pages again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from ackloss.cli.output import Output, with_output

if TYPE_CHECKING:
    from harness.history.run_folder import RunDir


_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
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
@click.argument("folders", nargs=-1, metavar="[DIR]...", type=_FOLDER)
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
    from harness.errors import HistoryError
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
    from ackloss.cli.results import print_result
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
