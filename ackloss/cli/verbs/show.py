"""`ackloss show`."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from ackloss.cli.output import Output, with_output


@click.command()
@click.argument(
    "runs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="RUN..."
)
@with_output
def show(out: Output, runs: tuple[Path, ...]) -> None:
    """Show the result of each RUN, from its folder."""
    from ackloss.cli.results import print_result
    from checkers.judging.cells import stored_result
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
