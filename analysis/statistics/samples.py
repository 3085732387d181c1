"""The runs of one cell: each in one verdict class, and the numbers of the conclusive ones.

Six classes, never mixed:

    loss             acknowledged writes are lost
    none             judged `valid`
    wrong            judged `invalid` for something else: failed writes that were found, unexpected
                     values, duplicates
    vacuous          `unknown`, because nothing was put to the test
    unknown          `unknown` for any other reason: not read to the end, starved, interrupted, ...
    harness_failure  the harness or its set-up broke, so the cluster was not tested

A class says how a run ended, not whether it counts: that is `eligibility.is_conclusive`. Shares,
rates and tests are over the conclusive runs, whichever way they ended; a `wrong` one has lost
nothing, and is one without loss. Leaving the others out is no escape: their number stands beside,
how many of them were seen to lose, and bounds over all runs of the cell. A loss that was seen is a
loss in both bounds (nothing can unlose a write); any other run that does not count is one without
loss at best and one with loss at worst, whatever the reason.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from analysis.statistics.eligibility import Document, is_conclusive
from analysis.statistics.resampling import Floats
from analysis.statistics.shares import Share
from harness.protocols import DOUBTS

LOSS, NONE, WRONG = "loss", "none", "wrong"
VACUOUS, UNKNOWN, HARNESS_FAILURE = "vacuous", "unknown", "harness_failure"
_UNTESTED: Final = {DOUBTS.vacuous, DOUBTS.unproven, DOUBTS.unmet}
"""Doubts that say no more than that nothing, or not all, was put to the test."""
CLASSES: Final = (LOSS, NONE, WRONG, VACUOUS, UNKNOWN, HARNESS_FAILURE)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What the runs of one cell gave; arrays hold one number for each conclusive run.

    `fault_lost` and `fault_s` are of those in which a proven fault was on; a run that had not
    recovered when its load ended has infinity for a recovery time. `lossy` are the runs with loss
    of the conclusive ones, `others` those seen to lose of all that do not count, `clusters` the
    first by the cluster that they were run on, as far as that is known.
    """

    verdicts: Mapping[str, int]
    lossy: Share
    others: Share
    clusters: Mapping[Hashable, Share]
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
    def lossy_at_best(self) -> Share:
        """Runs with loss of all runs, were every other one that was not seen to lose without."""
        return Share(self.lossy.part + self.others.part, self.runs)

    @property
    def lossy_at_worst(self) -> Share:
        """The same, were every run that does not count one with loss."""
        return Share(self.lossy.part + self.others.whole, self.runs)

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
    return VACUOUS if VACUOUS in doubts and doubts <= _UNTESTED else UNKNOWN


def _invalid(document: Document) -> str:
    counts = document["counts"]
    by_counts = ["lost"] if counts["lost"] > counts["deleted"] else []
    return LOSS if "lost" in document.get("counter_examples", by_counts) else WRONG


def sample_of(
    documents: Iterable[Document], clusters: Iterable[Hashable | None] | None = None
) -> Sample:
    """The sample that these runs are; `clusters`: what each was run on, where that is known."""
    every = list(documents)
    classes = [verdict_class(document) for document in every]
    counts = [document for document in every if is_conclusive(document)]
    lossy = sum(verdict_class(document) == LOSS for document in counts)
    faulted = [document for document in counts if _seen(document, "fault_s")]
    return Sample(
        verdicts={name: classes.count(name) for name in CLASSES},
        lossy=Share(lossy, len(counts)),
        clusters=_by_cluster(every, clusters or ()),
        others=Share(classes.count(LOSS) - lossy, len(every) - len(counts)),
        lost=_floats(document["counts"]["lost"] for document in counts),
        acknowledged=_floats(document["counts"]["acknowledged"] for document in counts),
        unacknowledged_success=_floats(
            document["rates"]["unacknowledged_success"] for document in counts
        ),
        fault_lost=_floats(document["counts"]["lost"] for document in faulted),
        fault_s=_floats(_seen(document, "fault_s") for document in faulted),
        longest_gap_s=_floats(_seen(document, "longest_gap_s") for document in counts),
        refused=_floats(_seen(document, "refused") for document in counts),
        recovery_s=_floats(_recovery_s(document) for document in counts),
    )


def _by_cluster(
    documents: Sequence[Document], clusters: Iterable[Hashable | None]
) -> dict[Hashable, Share]:
    lossy: dict[Hashable, list[bool]] = {}
    for document, cluster in zip(documents, clusters, strict=False):
        if cluster is not None and is_conclusive(document):
            lossy.setdefault(cluster, []).append(verdict_class(document) == LOSS)
    return {cluster: Share(sum(each), len(each)) for cluster, each in lossy.items()}


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
