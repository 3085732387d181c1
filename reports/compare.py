"""Two runs compared on one page: first what differs, then both timelines on the same axes.

Runs with cells are compared cell by cell, by `reports.compare_cells`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from analysis.timeline import on_one_scale
from harness.history.run_folder import RunDir, write_atomically
from reports import formatting, html
from reports.compare_cells import CellsComparison, write_cells_comparison
from reports.differing import (
    RunSummary,
    differences_of,
    labels,
    link_to,
    refuse_mixed,
    summary,
)
from reports.page import stills
from reports.payload import payload
from reports.references import compared, references
from reports.run_view import RunView, malformed_is_history_error, run_view


@dataclass(frozen=True)
class Side:
    """One of the two runs; `link` leads to its own page, if that exists."""

    view: RunView
    label: str
    stills: dict[str, str]
    link: str | None


class RunComparison(TypedDict):
    """What `ackloss compare` reports of two runs without cells."""

    a: RunSummary
    b: RunSummary
    simulated: bool
    differences: list[dict[str, str | None]]


def write_comparison(a: RunDir, b: RunDir, path: Path) -> RunComparison | CellsComparison:
    """Write the page that compares two runs to `path`; return its contents as JSON.

    Raises HistoryError when a run's files cannot be read, or when only one of the runs is
    simulated or has cells; EnvironmentFailure when the page cannot be written.
    """
    if a.cell_names() or b.cell_names():
        return write_cells_comparison(a, b, path)
    with malformed_is_history_error(a, b):
        views = run_view(a), run_view(b)
        refuse_mixed(*views)
        lines = on_one_scale(views[0].line, views[1].line)
        first, second = (replace(one, line=line) for one, line in zip(views, lines, strict=True))
        differing = differences_of(first, second)
        named = references(first.plan, second.plan)
        sides = [
            Side(view, label, stills(view), link_to(view.run.report, path))
            for view, label in zip((first, second), labels(first, second), strict=True)
        ]
        page = html.render(
            "compare.html.j2",
            data=[
                payload(side.view.line, title=side.label, labels=side.view.outcome_labels)
                for side in sides
            ],
            simulated=first.simulated,
            headline=", ".join(_in_short(side.view, side.label) for side in sides),
            sides=sides,
            differing=differing,
            references=named,
            reference_rows=compared([first.counts, second.counts], named),
        )
    write_atomically(path, page)
    return {
        "a": summary(first),
        "b": summary(second),
        "simulated": first.simulated,
        "differences": differing.json(),
    }


def _in_short(one: RunView, label: str) -> str:
    """The result of one run as half a sentence."""
    if one.result is None:
        return f"{label} was not checked"
    if not one.counts_losses:
        return f"{label}: {one.headline}"
    acknowledged = one.result.counts.acknowledged
    if lost := formatting.proven(one.result).get("lost"):
        share = formatting.share(lost / acknowledged)
        return f"{label} lost {formatting.number(lost)} acknowledged writes ({share})"
    if one.verdict == "valid":
        return f"{label} lost none of {formatting.number(acknowledged)}"
    return f"{label} is {one.verdict}"
