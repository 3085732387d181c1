"""Which runs count: eligibility first, outcome second (truth rule 9).

A run is eligible because of its circumstances, never because of its losses: it is complete, every
scripted fault is proven and was met by load, and the load was as the plan requests. A run is
*conclusive* when it is eligible and its verdict is `valid` or `invalid`.

A doubt prevents the verdict `valid` but not `invalid`. If a lossy run under doubt counted, and the
same run without loss did not, shares would be too high where doubts are frequent. Therefore no
run under doubt is conclusive. The losses of the other runs are reported beside the shares, and the
bounds cover all runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.history.documents import RunResult
from harness.protocols import INVALID, OUTCOME_DOUBTS, VALID


@dataclass(frozen=True, kw_only=True)
class FailedRun:
    """A run without a usable result.json, and the error. `unread`: it was judged, but its result
    cannot be read."""

    run_id: str
    error: str | None = None
    unread: bool = False


Outcome = RunResult | FailedRun
"""The end of a run."""


def is_eligible(outcome: Outcome) -> bool:
    """Whether a run may count, decided without its losses.

    A result without the field `eligible` comes from an earlier ackloss. Such a run is eligible if
    it is complete, no doubt but one about its outcome was recorded, and every fault is proven. If
    doubts were not recorded either, the run is not eligible until `ackloss check` judges it again.
    """
    if isinstance(outcome, FailedRun):
        return False
    if outcome.eligible is not None:
        return outcome.eligible
    if not outcome.complete or outcome.doubts is None or set(outcome.doubts) - OUTCOME_DOUBTS:
        return False
    return all(fault.proven for fault in outcome.faults)


def is_conclusive(outcome: Outcome) -> bool:
    """Whether a run counts in shares, rates and tests."""
    return (
        isinstance(outcome, RunResult)
        and is_eligible(outcome)
        and outcome.verdict in (VALID, INVALID)
        and not outcome.doubts
    )
