"""The runs of one cell: each in one verdict class, and the numbers that the judged ones give.

Six classes, never mixed:

    loss             judged, and acknowledged writes are lost
    none             judged `valid`
    wrong            judged `invalid` for something else: refused and there, unexpected, duplicates
    vacuous          `unknown`, because nothing was put to the test
    unknown          `unknown` for any other reason: not read to the end, starved, interrupted, ...
    harness_failure  the harness or its set-up broke, so the cluster was not tried

Only `loss` and `none` say whether the settings lose data, so rates are over those two. A vacuous
run would count as safe without a danger, an unknown or failed one as whatever one hopes. That
leaving them out is no escape is shown by their number beside the rest, and by a best and a worst
case, which take each unknown run for one without and for one with loss. Mind that a doubt keeps a
run from being `none` and not from being `loss`: with many unknown runs the share is too high, and
the truth stands between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from analysis.statistics.resampling import Floats
from analysis.statistics.shares import Share

Document = Mapping[str, Any]
"""A run's result.json, or `{"run_id", "error"}` of a run that has none."""

LOSS, NONE, WRONG = "loss", "none", "wrong"
VACUOUS, UNKNOWN, HARNESS_FAILURE = "vacuous", "unknown", "harness_failure"
CLASSES: Final = (LOSS, NONE, WRONG, VACUOUS, UNKNOWN, HARNESS_FAILURE)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What the runs of one cell gave; arrays hold one number a run.

    `lost`, `acknowledged` and `unacknowledged_success` are of the judged runs (`loss` and `none`);
    `fault_lost` and `fault_s` of those in which a proven fault was on. What clients noticed
    (`longest_gap_s`, `refused`, `recovery_s`) is of those and the `wrong`; a run that had not
    recovered when its load ended has infinity for a recovery time.
    """

    verdicts: Mapping[str, int]
    lost: Floats
    acknowledged: Floats
    unacknowledged_success: Floats
    fault_lost: Floats
    fault_s: Floats
    longest_gap_s: Floats
    refused: Floats
    recovery_s: Floats

    @property
    def runs(self) -> int:
        """All runs, whatever their class."""
        return sum(self.verdicts.values())

    @property
    def lossy(self) -> Share:
        """Runs with loss, of those judged."""
        return Share(self.verdicts[LOSS], self.verdicts[LOSS] + self.verdicts[NONE])

    @property
    def lossy_at_best(self) -> Share:
        """The same, were every `unknown` run one without loss."""
        return Share(self.lossy.part, self.lossy.whole + self.verdicts[UNKNOWN])

    @property
    def lossy_at_worst(self) -> Share:
        """The same, were every `unknown` run one with loss."""
        unknown = self.verdicts[UNKNOWN]
        return Share(self.lossy.part + unknown, self.lossy.whole + unknown)

    @property
    def loss_rate(self) -> Floats:
        """Lost of acknowledged, run by run."""
        rate: Floats = self.lost / self.acknowledged
        return rate


def verdict_class(document: Document) -> str:
    """The one class of a run."""
    doubts = set(document.get("doubts", ()))
    if "verdict" not in document or "failed" in doubts:
        # A failed run that met a counter-example all the same is one: nothing can unlose a write.
        return _invalid(document) if document.get("verdict") == "invalid" else HARNESS_FAILURE
    if document["verdict"] == "invalid":
        return _invalid(document)
    if document["verdict"] == "valid":
        return NONE
    return VACUOUS if doubts == {VACUOUS} else UNKNOWN


def _invalid(document: Document) -> str:
    counts = document["counts"]
    by_counts = ["lost"] if counts["lost"] > counts["deleted"] else []
    return LOSS if "lost" in document.get("counter_examples", by_counts) else WRONG


def sample_of(documents: Iterable[Document]) -> Sample:
    """The sample that these runs are."""
    classed = [(verdict_class(document), document) for document in documents]
    judged = [document for name, document in classed if name in (LOSS, NONE)]
    conclusive = [document for name, document in classed if name in (LOSS, NONE, WRONG)]
    faulted = [document for document in judged if _seen(document, "fault_s")]
    return Sample(
        verdicts={name: sum(1 for each, _ in classed if each == name) for name in CLASSES},
        lost=_floats(document["counts"]["lost"] for document in judged),
        acknowledged=_floats(document["counts"]["acknowledged"] for document in judged),
        unacknowledged_success=_floats(
            document["rates"]["unacknowledged_success"] for document in judged
        ),
        fault_lost=_floats(document["counts"]["lost"] for document in faulted),
        fault_s=_floats(_seen(document, "fault_s") for document in faulted),
        longest_gap_s=_floats(_seen(document, "longest_gap_s") for document in conclusive),
        refused=_floats(_seen(document, "refused") for document in conclusive),
        recovery_s=_floats(_recovery_s(document) for document in conclusive),
    )


def _seen(document: Document, name: str) -> float | None:
    number: float | None = document["availability"].get(name)
    return number


def _recovery_s(document: Document) -> float | None:
    return (
        np.inf
        if document["availability"].get("recovered") is False
        else _seen(document, "recovery_s")
    )


def _floats(numbers: Iterable[float | None]) -> Floats:
    known: Sequence[float] = [number for number in numbers if number is not None]
    return np.array(known, np.float64)
