"""The data of the table of runs: small columns, so that a page with many runs opens at once. Of a
campaign with more than are listed, each cell has the same number at most, and the page says so.

Names are listed once; everything else refers to them by index. The column `why` gives the reason
for a run's class if the counts do not show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from analysis.campaign import RunRow
from analysis.statistics.samples import NONE
from reports.campaign_view import CampaignView

_LISTED: Final = 1_000
_EXPLAINED_BY_COUNTS: Final = ("loss", "none")
_KNOWN: Final = ("loss", "none", "wrong")
"""The losses of other runs are not known: a 0 would read as "nothing was lost"."""


@dataclass(frozen=True)
class Listing:
    """The runs that the table lists, in the order of the runs. `of_each`: at most so many of each
    cell, first those in which something was found or that do not count; `None`: all runs."""

    rows: tuple[RunRow, ...]
    of_each: int | None
    left_out: int


def listing(view: CampaignView) -> Listing:
    """All runs, or as many of each cell as fit."""
    numbers = Counter(row["cell"] for row in view.rows)
    if len(view.rows) <= _LISTED:
        return Listing(tuple(view.rows), None, 0)
    most = _most_of_each(numbers)
    left, chosen = Counter(dict.fromkeys(numbers, most)), set()
    for place, row in sorted(enumerate(view.rows), key=lambda each: _is_plain(each[1])):
        if left[row["cell"]]:
            left[row["cell"]] -= 1
            chosen.add(place)
    rows = tuple(row for place, row in enumerate(view.rows) if place in chosen)
    return Listing(rows, most, len(view.rows) - len(rows))


def _most_of_each(numbers: Mapping[str, int]) -> int:
    """The most runs that each cell can list, if cells with fewer leave their places to others."""
    most = 1
    while sum(min(number, most + 1) for number in numbers.values()) <= _LISTED:
        most += 1
    return most


def _is_plain(row: RunRow) -> bool:
    """Whether the run counts, and nothing was found in it."""
    return row["class"] == NONE and bool(row["conclusive"])


def run_table(view: CampaignView, listed: Listing) -> Mapping[str, Any]:
    """The data of the table: `runs` has a list for each column, in the order of the runs; `all` is
    the number of runs, listed or not."""
    names = [cell.name for _, cell in view.cells]
    cell_of = {name: at for at, name in enumerate(names)}
    class_of = {name: at for at, name in enumerate(view.classes)}
    whys: dict[str, int] = {}
    rows = [row for row in listed.rows if row["cell"] in cell_of]
    reasons = [_why(row) for row in rows]
    return {
        "cells": names,
        "classes": [name for name, _ in view.classes.values()],
        "kinds": list(view.classes),
        "countsLosses": view.counts_losses,
        "unit": view.document.unit,
        "all": len(view.rows),
        "runs": {
            "id": [row["run_id"] for row in rows],
            "page": [_page(view, row["run_id"]) for row in rows],
            "cell": [cell_of[row["cell"]] for row in rows],
            "class": [class_of[row["class"]] for row in rows],
            "counts": [int(row["conclusive"]) for row in rows],
            "lost": [row["lost"] if row["class"] in _KNOWN else None for row in rows],
            "acknowledged": [row["acknowledged"] for row in rows],
            "gap_s": [row["longest_gap_s"] for row in rows],
            "refused": [row["refused"] for row in rows],
            "why": [whys.setdefault(reason, len(whys)) for reason in reasons],
        },
        "whys": list(whys),
    }


def _why(row: RunRow) -> str:
    """The reason for a run's class, or for not counting it."""
    if row["class"] not in _EXPLAINED_BY_COUNTS:
        return str(row["reason"])
    if row["conclusive"]:
        return ""
    proven = f"{row['faults_proven']} of {row['faults']} faults proven"
    return f"does not count: {row['doubts'] or proven}"


def _page(view: CampaignView, run_id: str) -> int:
    """The target of a run's link: 2 its page, 1 its folder, 0 none."""
    run = view.folder.run(run_id)
    return 2 if run.report.is_file() else int(run.path.is_dir())
