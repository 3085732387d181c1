"""`ackloss explain RUN`: why the lost writes of a stored run were lost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from ackloss.cli.output import Output, with_output

if TYPE_CHECKING:
    from harness.history.explanations import Chain
    from harness.history.run_folder import RunDir

_RUN = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("run", type=_RUN)
@click.option("--write", "value", type=int, metavar="VALUE", help="Only the chain of this write.")
@with_output
def explain(out: Output, run: Path, value: int | None) -> None:
    """Say why the acknowledged writes of RUN were lost: a run folder, or one of its cells.

    Each lost write has one cause, with the chain of events behind it and the place in the folder
    that states each. `ackloss check` finds them, from the logs of nodes; for a run that was judged
    by an older version, run it first.
    """
    from harness.errors import HistoryError
    from harness.history.explanations import chain_of, chains_of
    from harness.history.run_folder import RunDir

    rundir = RunDir.open(run)
    found = []
    for folder in rundir.cells():
        chains = chains_of(folder)
        if value is None:
            found += [(folder, chain) for chain in chains]
        elif (number := chain_of(folder, value)) is not None:
            found.append((folder, chains[number]))
    if value is not None and not found:
        raise HistoryError(
            f"the write {value} is not among the lost ones", file=str(run), hint="see lost.csv"
        )
    _refuse_unexplained(rundir, bool(found))
    out.document({"schema": 1, "chains": [_document(rundir, *each) for each in found]})
    if out.json:
        return
    for folder, chain in found:
        _print(out, "" if folder.path == rundir.path else f"{folder.path.name}: ", chain)
    if not found:
        out.say("no acknowledged write was lost")


def _refuse_unexplained(rundir: RunDir, found: bool) -> None:
    """Raise HistoryError for a run that lost writes and was judged without asking why."""
    from checkers.judging.one_run import stored_result
    from harness.errors import HistoryError

    document = stored_result(rundir)
    if found or (document is not None and not document["counts"].get("lost")):
        return
    what = "this run was not judged" if document is None else "its result does not say why"
    raise HistoryError(what, file=str(rundir.path), hint=f"`ackloss check {rundir.path}`")


def _document(rundir: RunDir, folder: RunDir, chain: Chain) -> dict[str, object]:
    from dataclasses import asdict

    cell = None if folder.path == rundir.path else folder.path.name
    return {"cell": cell, **asdict(chain)}


def _print(out: Output, of: str, chain: Chain) -> None:
    """A headline, the chain of events, and what would have prevented it."""
    where = "" if chain.partition is None else f"partition {chain.partition}, "
    span = f"offsets {chain.first:,} to {chain.last:,}" if chain.first is not None else ""
    style = "bold" if chain.explained else "bold red"
    out.say(f"{of}{chain.writes:,} lost: {chain.sentence} ({where}{span})", style=style)
    for fact in chain.facts:
        at = "        " if fact.at_s is None else f"{fact.at_s:7.2f}s"
        out.say(f"  {at}  {fact.text}  [{fact.place or fact.source}]")
    for prevention in chain.preventions:
        out.say(f"  {prevention.sentence(chain.writes)}", style="green")
        out.say(f"    --set '{prevention.change}'")
