"""One cell of a campaign, as campaign.json holds it: what its runs say, with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from analysis.statistics.eligibility import Document
from analysis.statistics.resampling import Floats, Spread, ratio_estimate, spread
from analysis.statistics.samples import Sample, sample_of
from analysis.statistics.shares import Estimate, share_estimate, share_in_words

Key = Mapping[str, Any]
"""The axis values of a cell: `{"unclean": true, "min.insync.replicas": 1}`."""


@dataclass(frozen=True, kw_only=True)
class LossyShare(Estimate):
    """The share of conclusive runs that lost anything, also in words; `best_case` and `worst_case`
    are over all runs, with each one that does not count without loss (unless it was seen) and with
    loss."""

    in_words: str
    best_case: Estimate
    worst_case: Estimate


@dataclass(frozen=True, kw_only=True)
class Noticed:
    """What clients noticed of a run, over `runs` runs; null where none tells."""

    median: float | None
    max: float | None
    runs: int


@dataclass(frozen=True, kw_only=True)
class Recovery(Noticed):
    """Recovery times. Runs that had not recovered when their load ended are the slowest of all:
    the median is null where it falls on one, `max` is the slowest of the others."""

    not_recovered: int


@dataclass(frozen=True, kw_only=True)
class Cell:
    """All that campaign.json says of a cell. `verdicts` are the classes of all runs, `conclusive`
    those that count, `..._lossy` how many of them were seen to lose acknowledged writes."""

    key: dict[str, Any]
    runs: int
    verdicts: dict[str, int]
    conclusive: int
    conclusive_lossy: int
    inconclusive: int
    inconclusive_lossy: int
    lossy_share: LossyShare
    loss_rate: Spread
    unacknowledged_success_rate: Spread
    pooled_loss_rate: Estimate
    lost_per_fault_s: Estimate
    longest_gap_s: Noticed
    refused: Noticed
    recovery_s: Recovery

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def cell_of(key: Key, documents: Iterable[Document]) -> dict[str, Any]:
    """The `cells[]` entry of these runs."""
    return summary(key, sample_of(documents)).document()


def summary(key: Key, sample: Sample) -> Cell:
    """What the runs of a cell say."""
    return Cell(
        key=dict(key),
        runs=sample.runs,
        verdicts=dict(sample.verdicts),
        conclusive=sample.lossy.whole,
        conclusive_lossy=sample.lossy.part,
        inconclusive=sample.others.whole,
        inconclusive_lossy=sample.others.part,
        lossy_share=lossy_share(sample),
        loss_rate=spread(sample.loss_rate, bounded=True),
        unacknowledged_success_rate=spread(sample.unacknowledged_success, bounded=False),
        pooled_loss_rate=ratio_estimate(sample.lost, sample.acknowledged),
        lost_per_fault_s=ratio_estimate(sample.fault_lost, sample.fault_s),
        longest_gap_s=noticed(sample.longest_gap_s),
        refused=noticed(sample.refused),
        recovery_s=_recovery(sample.recovery_s),
    )


def lossy_share(sample: Sample) -> LossyShare:
    """The share of conclusive runs with loss."""
    return LossyShare(
        **asdict(share_estimate(sample.lossy)),
        in_words=share_in_words(sample.lossy),
        best_case=share_estimate(sample.lossy_at_best),
        worst_case=share_estimate(sample.lossy_at_worst),
    )


def noticed(values: Floats) -> Noticed:
    """The median and the greatest of one number a run."""
    if not values.size:
        return Noticed(median=None, max=None, runs=0)
    return Noticed(median=float(np.median(values)), max=float(values.max()), runs=values.size)


def _recovery(values: Floats) -> Recovery:
    recovered = values[np.isfinite(values)]
    # The upper of two middle ones: the mean of a time and "never" is "never".
    median = np.quantile(values, 0.5, method="inverted_cdf") if values.size else np.inf
    return Recovery(
        median=float(median) if np.isfinite(median) else None,
        max=float(recovered.max()) if recovered.size else None,
        runs=values.size,
        not_recovered=values.size - recovered.size,
    )
