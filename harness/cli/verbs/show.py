"""`ackloss show`."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from harness.cli.output import Output, with_output


@click.command()
@click.argument("run", type=click.Path(exists=True, path_type=Path))
@with_output
def show(out: Output, run: Path) -> None:
    """Show the result of a run, from its folder."""
    from checkers.judging.cells import stored_result
    from harness.cli.results import print_result
    from harness.history.documents import read_run, result_of
    from harness.history.run_folder import RunDir

    rundir = RunDir.open(run)
    document = stored_result(rundir)
    if document is None:
        state = read_run(rundir).state or "its state is not recorded"
        out.document(rundir.read_json(rundir.run))
        if not out.json:
            out.say(f"{rundir.run_id}: {state}, not checked yet: `ackloss check {run}`")
        return
    result = result_of(document, file=rundir.result)
    out.document(document)
    if not out.json:
        print_result(out, result, rundir)
