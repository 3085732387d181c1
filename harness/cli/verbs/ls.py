"""`ackloss ls`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click
from rich.table import Table

from harness.cli.output import Output, plain, with_output


@click.command()
@click.option("--out", "folder", type=click.Path(path_type=Path), default=Path("runs"))
@with_output
def ls(out: Output, folder: Path) -> None:
    """The runs in a folder, newest last."""
    from harness.history.run_folder import RunDir

    told = [_told(RunDir(path.parent)) for path in sorted(folder.glob("*/run.json"))]
    out.document({"schema": 1, "runs": told})
    if out.json:
        return
    table = Table("run", "plan", "state", "verdict", "lost", "acknowledged", box=None)
    for row in told:
        table.add_row(*(plain("" if value is None else value) for value in row.values()))
    out.console.print(table if told else f"no runs in {folder}")


def _told(rundir: Any) -> dict[str, Any]:
    from harness.errors import HistoryError

    try:
        state = rundir.read_json(rundir.run)["state"]
        name = rundir.read_json(rundir.plan).get("name")
    except HistoryError as error:
        return dict.fromkeys(("run_id", "plan", "state", "verdict", "lost", "acknowledged")) | {
            "run_id": rundir.run_id,
            "state": error.what,
        }
    result = rundir.read_json(rundir.result) if rundir.result.exists() else {}
    counts = result.get("counts", {})
    return {
        "run_id": rundir.run_id,
        "plan": name,
        "state": state,
        "verdict": result.get("verdict"),
        "lost": counts.get("lost"),
        "acknowledged": counts.get("acknowledged"),
    }
