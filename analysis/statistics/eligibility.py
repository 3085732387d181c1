"""Which runs count: eligibility first, outcome second (truth rule 9).

A run is eligible by what happened to it, never by what it lost: it is complete, every scripted
fault is proven and was met by load, the load was as asked. It is *conclusive* when it is eligible
and its verdict is `valid` or `invalid`. A doubt keeps a lossless run from `valid` and not a lossy
one from `invalid`, so whatever would have silenced a run without loss silences one with loss, too:
a run under any doubt is not conclusive. Else shares are too high wherever doubts are frequent.

What was seen in the other runs is not thrown away: it is shown beside, and the bounds are over all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.protocols import INVALID, OUTCOME_DOUBTS, VALID

Document = Mapping[str, Any]
"""A run's result.json, or `{"run_id", "error"}` of a run that has none."""


def is_eligible(document: Document) -> bool:
    """Whether a run is fit to be counted, decided without looking at what it lost.

    Documents from before `eligible` was written: the run has a verdict, is complete, nothing was
    doubted but its outcome, and every fault is proven. One that does not say what was doubted is
    not eligible; `ackloss check` judges it again.
    """
    if "eligible" in document:
        return bool(document["eligible"])
    if "verdict" not in document or not document.get("complete") or "doubts" not in document:
        return False
    if set(document["doubts"]) - OUTCOME_DOUBTS:
        return False
    return all(fault["proven"] for fault in document.get("faults", ()))


def is_conclusive(document: Document) -> bool:
    """Whether a run counts in shares, rates and tests."""
    return (
        is_eligible(document)
        and document.get("verdict") in (VALID, INVALID)
        and not document.get("doubts")
    )
