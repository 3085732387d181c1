"""`ackloss report`."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from harness.cli.output import Output, with_output


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@with_output
def report(out: Output, runs: tuple[Path, ...]) -> None:
    """Write the pages of RUNS (folders) again, from what is stored."""
    from harness.rundir import RunDir
    from reports.page import write_report

    pages = []
    for path in runs:
        rundir = RunDir.open(path)
        write_report(rundir)
        pages.append(str(rundir.report))
        if not out.json:
            out.say(rundir.report)
    out.document({"schema": 1, "reports": pages})
