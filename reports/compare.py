"""Two runs compared on one page: first what differs, then both timelines on the same axes.

Runs with cells are compared cell by cell, by `reports.compare`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from analysis.timeline import on_one_scale
from analysis.wording import counted
from harness.errors import HistoryError
from harness.history.run_folder import RunDir, write_atomically
from reports import formatting, html
from reports.cells import CellsView, cells_view
from reports.differing import (
    Difference,
    Differences,
    RunSummary,
    differences_of,
    labels,
    link_to,
    refuse_mixed,
    summary,
)
from reports.page import payload, stills
from reports.references import compared, references
from reports.run_view import RunView, malformed_is_history_error, run_view

# Two runs with cells compared on one page, cell by cell: cells of one name are a pair.
#
# What differs in the same way in every pair, such as the version, is listed once. The page has no
# timelines: those of one pair are on the page of `ackloss compare A/cells/NAME B/cells/NAME`.


@dataclass(frozen=True)
class Pair:
    """The cells of one name, and how they differ; `links` lead to the pages that they have."""

    name: str
    a: RunView
    b: RunView
    differing: Differences
    links: tuple[str | None, str | None]

    @property
    def views(self) -> tuple[RunView, RunView]:
        return self.a, self.b

    @property
    def command(self) -> str:
        """Compares these two cells, with their timelines."""
        return shlex.join(["ackloss", "compare", *(str(view.run.path) for view in self.views)])


@dataclass(frozen=True)
class Unpaired:
    """A cell that is in both runs and cannot be compared, and why."""

    name: str
    why: str


class PairSummary(TypedDict):
    """A pair in the JSON document; `differences` as of two runs."""

    name: str
    a: RunSummary
    b: RunSummary
    differences: list[dict[str, str | None]]


class CellsComparison(TypedDict):
    """What `ackloss compare` reports of two runs with cells. `differences` are those of every pair;
    `only_a` and `only_b` the cells that one run has; `not_compared` says of others why."""

    a: RunSummary
    b: RunSummary
    simulated: bool
    differences: list[dict[str, str | None]]
    cells: list[PairSummary]
    only_a: list[str]
    only_b: list[str]
    not_compared: dict[str, str]


@dataclass(frozen=True)
class CellsCompared:
    """The contents of the page. `common`: what differs in every pair in the same way."""

    sides: tuple[CellsView, CellsView]
    pairs: Sequence[Pair]
    unpaired: Sequence[Unpaired]
    only: tuple[list[str], list[str]]
    common: Differences

    @property
    def labels(self) -> tuple[str, str]:
        return labels(*self.sides)

    @property
    def headline(self) -> str:
        """In which cells the verdicts differ."""
        pairs = len(self.pairs)
        differ = [pair.name for pair in self.pairs if pair.a.verdict != pair.b.verdict]
        if not differ:
            return f"The verdict is the same in each of {counted(pairs, 'compared cell')}"
        return f"The verdict differs in {len(differ)} of {pairs} cells: {', '.join(differ)}"

    @property
    def unmatched(self) -> list[tuple[str, list[str]]]:
        """The runs that have cells which the other does not have, and these cells."""
        return [each for each in zip(self.labels, self.only, strict=True) if each[1]]

    def own(self, pair: Pair) -> Differences:
        """What differs in this pair, and not in every pair in the same way."""
        mine, common = pair.differing, self.common
        return Differences(
            requested=tuple(each for each in mine.requested if each not in common.requested),
            outcomes=mine.outcomes,
            defaults=tuple(each for each in mine.defaults if each not in common.defaults),
        )

    def json(self) -> CellsComparison:
        """The JSON document."""
        return {
            "a": summary(self.sides[0]),
            "b": summary(self.sides[1]),
            "simulated": self.sides[0].simulated,
            "differences": self.common.json(),
            "cells": [
                {
                    "name": pair.name,
                    "a": summary(pair.a),
                    "b": summary(pair.b),
                    "differences": pair.differing.json(),
                }
                for pair in self.pairs
            ],
            "only_a": self.only[0],
            "only_b": self.only[1],
            "not_compared": {each.name: each.why for each in self.unpaired},
        }


def write_cells_comparison(a: RunDir, b: RunDir, path: Path) -> CellsComparison:
    """Write the page that compares two runs with cells; return its contents as JSON.

    Raises HistoryError when only one of them has cells or is simulated, when they have no cell in
    common, or when no cell of both can be read; EnvironmentFailure when the page cannot be written.
    """
    ours, theirs = a.cell_names(), b.cell_names()
    both = _in_both(a, b)
    with malformed_is_history_error(a, b):
        sides = cells_view(a), cells_view(b)
        refuse_mixed(*sides)
    read = [_pair(name, a, b, path) for name in both]
    pairs = [each for each in read if isinstance(each, Pair)]
    unpaired = [each for each in read if isinstance(each, Unpaired)]
    if not pairs:
        raise HistoryError(f"no cell can be compared: {unpaired[0].why}")
    only = (
        [name for name in ours if name not in theirs],
        [name for name in theirs if name not in ours],
    )
    compared = CellsCompared(sides, pairs, unpaired, only, _common(pairs))
    page = html.render(
        "compare_cells.html.j2",
        data=[],
        simulated=sides[0].simulated,
        compared=compared,
        links=[link_to(side.run.report, path) for side in sides],
    )
    write_atomically(path, page)
    return compared.json()


def _in_both(a: RunDir, b: RunDir) -> list[str]:
    """The cells that both runs have. Raises HistoryError if there are none."""
    ours, theirs = a.cell_names(), b.cell_names()
    if not (ours and theirs):
        having, other = (a, b) if ours else (b, a)
        one = having.cell((ours or theirs)[0]).path
        raise HistoryError(
            f"has cells, and {other.path} has none: there is nothing to pair",
            file=str(having.path),
            hint=f"name two runs with cells, or one of its cells, such as {one}",
        )
    both = [name for name in dict.fromkeys(ours) if name in theirs]
    if not both:
        raise HistoryError(
            f"has no cell in common with {b.path}: {', '.join(ours)}; {', '.join(theirs)}",
            file=str(a.path),
            hint=f"cells are paired by name; name two cells, such as {a.cell(ours[0]).path}",
        )
    return both


def _pair(name: str, a: RunDir, b: RunDir, page: Path) -> Pair | Unpaired:
    """The cells of this name; one that is damaged does not keep others from being compared."""
    folders = a.cell(name), b.cell(name)
    try:
        with malformed_is_history_error(*folders):
            first, second = (run_view(RunDir.open(folder.path)) for folder in folders)
            refuse_mixed(first, second)
            differing = differences_of(first, second)
            link, other = (link_to(folder.report, page) for folder in folders)
            return Pair(name, first, second, differing, (link, other))
    except HistoryError as error:
        return Unpaired(name, str(error))


def _common(pairs: Sequence[Pair]) -> Differences:
    """What differs in every pair in the same way, if there are several; outcomes are each cell's
    own."""
    if len(pairs) == 1:
        return Differences((), (), ())
    kinds = [(each.differing.requested, each.differing.defaults) for each in pairs]
    requested, defaults = (tuple(_in_all(kind)) for kind in zip(*kinds, strict=True))
    return Differences(requested, (), defaults)


def _in_all(lists: Sequence[Sequence[Difference]]) -> Iterator[Difference]:
    first, *others = lists
    return (each for each in first if all(each in other for other in others))


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
