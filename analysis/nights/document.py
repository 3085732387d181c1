"""Two nights tested against each other, cell by cell, and the trend over all that are given.

The newest night is compared with the one before it. A cell is a `regression` (more of its
conclusive runs lost) or an `improvement` where the exact test says so at 5 %, corrected over all
cells, and where the runs that do not count cannot have made it so. What is significant for the
conclusive runs alone is `doubtful`, by the rule of `statistics.comparisons`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final

from analysis.nights import words
from analysis.nights.differing import differing
from analysis.nights.night import CellId, Night, night_of
from analysis.statistics.cells import lossy_share
from analysis.statistics.comparisons import Comparison, compared, corrected
from analysis.statistics.contrasts import exact_test
from analysis.statistics.equivalence import equivalence
from analysis.statistics.samples import CLASSES, LOSS, NONE, WRONG, Sample
from analysis.statistics.shares import Share
from harness.campaigns.folder import CampaignDir
from harness.errors import HistoryError

SCHEMA_VERSION: Final = 1
REGRESSION, IMPROVEMENT = "regression", "improvement"
DOUBTFUL, NOT_SHOWN, NOT_JUDGED = "doubtful", "no difference shown", "not judged"

Document = dict[str, Any]


def nights_document(folders: Sequence[CampaignDir]) -> Document:
    """What `campaign compare` says of these campaigns, two at least, oldest first.

    Raises HistoryError where a folder cannot be read, or the last two have no cell in common.
    """
    nights = [night_of(folder) for folder in folders]
    old, new = nights[-2:]
    cells = cells_compared(old, new)
    if not cells:
        raise HistoryError(
            "these two campaigns have no cell in common",
            file=f"{old.folder.path}, {new.folder.path}",
            hint="cells are the same where their axes and values have the same names",
        )
    document = {
        "schema": SCHEMA_VERSION,
        "nights": [night.document() for night in nights],
        "old": old.id,
        "new": new.id,
        "differs": [asdict(each) for each in differing(old, new)],
        "cells": cells,
        "only_old": [old.cells[key].name for key in old.cells if key not in new.cells],
        "only_new": [new.cells[key].name for key in new.cells if key not in old.cells],
        "regressions": sum(cell["status"] == REGRESSION for cell in cells),
        "improvements": sum(cell["status"] == IMPROVEMENT for cell in cells),
        "trend": trend(nights),
    }
    return {**document, "conclusion": words.conclusion(document)}


def cells_compared(old: Night, new: Night) -> list[Document]:
    """Every cell that both nights have, tested and corrected over all of them."""
    common = [key for key in new.cells if key in old.cells]
    pairs = [(old.samples[key], new.samples[key]) for key in common]
    tested = corrected(
        [
            compared(new.cells[key].key, a, new.cells[key].key, b)
            for key, (a, b) in zip(common, pairs, strict=True)
        ]
    )
    told = []
    for key, (a, b), test in zip(common, pairs, tested, strict=True):
        cell = _cell(new, key, a, b, test)
        told.append({**cell, "in_words": words.cell_in_words(cell, cells=len(common))})
    return told


def trend(nights: Iterable[Night]) -> list[Document]:
    """Every cell over all nights that have it, the newest night's cells first."""
    every = list(nights)
    keys: dict[CellId, str] = {}
    for night in reversed(every):
        for key, cell in night.cells.items():
            keys.setdefault(key, cell.name)
    return [
        {
            "name": name,
            "nights": [
                {"night": place, **_side(night.samples[key])}
                for place, night in enumerate(every)
                if key in night.samples
            ],
        }
        for key, name in keys.items()
    ]


def _cell(new: Night, key: CellId, a: Sample, b: Sample, test: Comparison) -> Document:
    told = test.document()
    return {
        "name": new.cells[key].name,
        "key": told.pop("a"),
        "status": _status(test),
        "old": _side(a),
        "new": _side(b),
        **{name: value for name, value in told.items() if name not in ("b", "axis")},
        "p_unknown_against": test.bounds.p_against_adjusted,
        "equivalence": _equivalence(a, b),
        "p_least": _p_least(a.lossy, b.lossy),
        "new_classes": [name for name in CLASSES if b.verdicts[name] and not a.verdicts[name]],
        "vanished_classes": [name for name in CLASSES if a.verdicts[name] and not b.verdicts[name]],
        "flaky": [night for night, sample in (("old", a), ("new", b)) if _is_mixed(sample)],
    }


def _side(sample: Sample) -> Document:
    return {
        "runs": sample.runs,
        "judged": sample.lossy.whole,
        "conclusive": sample.lossy.whole,
        "lossy": sample.lossy.part,
        "inconclusive": sample.others.whole,
        "inconclusive_lossy": sample.others.part,
        "verdicts": dict(sample.verdicts),
        "lossy_share": asdict(lossy_share(sample)),
    }


def _is_mixed(sample: Sample) -> bool:
    return sum(bool(sample.verdicts[name]) for name in (LOSS, NONE, WRONG)) > 1


def _status(test: Comparison) -> str:
    if test.p_adjusted is None or test.difference is None:
        return NOT_JUDGED
    if not test.is_significant:
        return NOT_SHOWN
    if test.doubtful:
        return DOUBTFUL
    return REGRESSION if test.difference > 0 else IMPROVEMENT


def _equivalence(a: Sample, b: Sample) -> Document | None:
    """Whether the shares are the same but for a margin, and whether that is doubtful: it has to
    hold over all runs, too, with those that do not count taken as far apart as can be."""
    if not (a.lossy.whole and b.lossy.whole):
        return None
    told = equivalence(a.lossy, b.lossy)
    against = [(a.lossy_at_best, b.lossy_at_worst), (a.lossy_at_worst, b.lossy_at_best)]
    holds = told.equivalent and all(equivalence(*pair).equivalent for pair in against)
    return {**asdict(told), "doubtful": told.equivalent and not holds}


def _p_least(a: Share, b: Share) -> float | None:
    """What the test would say of so many runs, were none lossy in one night and all in the other:
    nothing that they could have shown has a smaller p-value."""
    return exact_test(Share(0, a.whole), Share(b.whole, b.whole)).p
