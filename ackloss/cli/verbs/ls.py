"""`ackloss ls`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from ackloss.cli.output import Output, with_output

if TYPE_CHECKING:
    from harness.history.run_folder import RunDir

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
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
    from checkers.judging.cells import stored_result
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
