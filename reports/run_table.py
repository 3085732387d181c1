"""What the table of all runs is drawn from: small columns, so that 5,000 runs open at once.

Names stand once and are referred to by their place. Why a run is in its class is told where counts
do not tell it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reports.cells import CLASSES, CampaignStory

_TOLD_BY_COUNTS: Final = ("loss", "none")
_KNOWN: Final = ("loss", "none", "wrong")
"""Of other runs it is not known what they lost: a 0 there would read as "nothing"."""


def run_table(story: CampaignStory) -> dict[str, Any]:
    """The data of the table: `runs` holds a list for each column, in the order of playing."""
    names = [cell["name"] for _, cell in story.cells]
    cell_of = {name: at for at, name in enumerate(names)}
    class_of = {name: at for at, name in enumerate(CLASSES)}
    whys: dict[str, int] = {}
    rows = [row for row in story.rows if row["cell"] in cell_of]
    reasons = [_why(row) for row in rows]
    return {
        "cells": names,
        "classes": [name for name, _ in CLASSES.values()],
        "runs": {
            "id": [row["run_id"] for row in rows],
            "page": [_page(story, row["run_id"]) for row in rows],
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


def _why(row: Mapping[str, Any]) -> str:
    """Why a run is in its class, or why it does not count."""
    if row["class"] not in _TOLD_BY_COUNTS:
        return str(row["reason"])
    if row["conclusive"]:
        return ""
    proven = f"{row['faults_proven']} of {row['faults']} faults proven"
    return f"does not count: {row['doubts'] or proven}"


def _page(story: CampaignStory, run_id: str) -> int:
    """Where a run's link leads: 2 to its page, 1 to its folder, 0 nowhere."""
    run = story.folder.run(run_id)
    return 2 if run.report.is_file() else int(run.path.is_dir())
