"""The data of the table of runs: small columns, so that a page with 5,000 runs opens at once. Of a
campaign with more, as many runs of each cell are listed as fit, and the page says so.

Names are listed once; everything else refers to them by index. The column `why` gives the reason
for a run's class if the counts do not show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from analysis.campaign import RunRow
from reports.campaign_view import CampaignView

_LISTED: Final = 2_500
_EXPLAINED_BY_COUNTS: Final = ("loss", "none")
_KNOWN: Final = ("loss", "none", "wrong")
"""The losses of other runs are not known: a 0 would read as "nothing was lost"."""


def listed_of_each(view: CampaignView) -> int | None:
    """How many runs of each cell the table lists, the first ones; `None`: all."""
    if len(view.rows) <= _LISTED:
        return None
    return max(1, _LISTED // max(1, len({row["cell"] for row in view.rows})))


def _listed(view: CampaignView) -> list[RunRow]:
    most, seen = listed_of_each(view), Counter[str]()
    rows = []
    for row in view.rows:
        seen[row["cell"]] += 1
        if most is None or seen[row["cell"]] <= most:
            rows.append(row)
    return rows


def run_table(view: CampaignView) -> Mapping[str, Any]:
    """The data of the table: `runs` has a list for each column, in the order of the runs."""
    names = [cell.name for _, cell in view.cells]
    cell_of = {name: at for at, name in enumerate(names)}
    class_of = {name: at for at, name in enumerate(view.classes)}
    whys: dict[str, int] = {}
    rows = [row for row in _listed(view) if row["cell"] in cell_of]
    reasons = [_why(row) for row in rows]
    return {
        "cells": names,
        "classes": [name for name, _ in view.classes.values()],
        "kinds": list(view.classes),
        "countsLosses": view.counts_losses,
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
            "took_s": [row["seconds"] for row in rows],
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
