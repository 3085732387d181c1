"""One cell of a campaign as campaign.json holds it: what its runs show, with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import numpy as np

from analysis.statistics.resampling import Floats, Spread, ratio_estimate, spread
from analysis.statistics.samples import (
    MeasureStatistics,
    Outcome,
    Sample,
    measure_statistics,
    sample_of,
)
from analysis.statistics.shares import Estimate, share_estimate, share_in_words

Key = Mapping[str, object]
"""The axis values of a cell: `{"unclean": "true", "min_isr": "1"}`."""


@dataclass(frozen=True, kw_only=True)
class LossyShare(Estimate):
    """The share of conclusive runs that lost writes, also as a sentence. `best_case` and
    `worst_case` cover all runs of the cell: a run that does not count is one without loss in the
    best case, unless it lost writes, and one with loss in the worst case.

    `shown`, `shown_low` and `shown_high` are what pages print: estimate and interval; or, if the
    outcome chose the runs that count (`chosen_by_outcome`: the estimate is below that of the best
    case), the bounds, from the lower limit of the best case to the upper one of the worst."""

    in_words: str
    chosen_by_outcome: bool
    shown: float | None
    shown_low: float | None
    shown_high: float | None
    best_case: Estimate
    worst_case: Estimate


@dataclass(frozen=True, kw_only=True)
class MedianAndMax:
    """A number over `runs` runs; `None` where no run has it."""

    median: float | None
    max: float | None
    runs: int


@dataclass(frozen=True, kw_only=True)
class Recovery(MedianAndMax):
    """Recovery times. A run that had not recovered when its load ended is slower than all others:
    `median` is `None` if it falls on such a run, and `max` is the slowest of the others."""

    not_recovered: int


@dataclass(frozen=True, kw_only=True)
class CellStatistics:
    """The statistics of a cell. `verdicts` counts the classes of all runs, `conclusive` the runs
    that count, `..._lossy` the runs among them that lost acknowledged writes, `measures` what their
    first check counts besides."""

    key: Key
    runs: int
    verdicts: Mapping[str, int]
    conclusive: int
    conclusive_lossy: int
    inconclusive: int
    inconclusive_lossy: int
    lossy_share: LossyShare
    loss_rate: Spread
    unacknowledged_success_rate: Spread
    pooled_loss_rate: Estimate
    lost_per_fault_s: Estimate
    longest_gap_s: MedianAndMax
    refused: MedianAndMax
    recovery_s: Recovery
    measures: Mapping[str, MeasureStatistics]


def cell_of(key: Key, outcomes: Iterable[Outcome]) -> CellStatistics:
    """The statistics of these runs."""
    sample = sample_of(outcomes)
    none = sample.why_no_rate
    return CellStatistics(
        key=dict(key),
        runs=sample.runs,
        verdicts=dict(sample.verdicts),
        conclusive=sample.lossy.whole,
        conclusive_lossy=sample.lossy.part,
        inconclusive=sample.others.whole,
        inconclusive_lossy=sample.others.part,
        lossy_share=lossy_share(sample),
        loss_rate=spread(sample.loss_rate, bounded=True, none=none),
        unacknowledged_success_rate=spread(sample.unacknowledged_success, bounded=False, none=none),
        pooled_loss_rate=ratio_estimate(sample.lost, sample.acknowledged, none=none),
        lost_per_fault_s=ratio_estimate(sample.fault_lost, sample.fault_s, none=none),
        longest_gap_s=median_and_max(sample.longest_gap_s),
        refused=median_and_max(sample.refused),
        recovery_s=_recovery(sample.recovery_s),
        measures=measure_statistics(sample.measured),
    )


def lossy_share(sample: Sample) -> LossyShare:
    """The share of conclusive runs with loss, and the bounds over all runs."""
    seen, chosen = share_estimate(sample.lossy), sample.chosen_by_outcome
    best, worst = share_estimate(sample.lossy_at_best), share_estimate(sample.lossy_at_worst)
    return LossyShare(
        **asdict(seen),
        in_words=share_in_words(sample.lossy, sample.others, head=sample.head),
        chosen_by_outcome=chosen,
        shown=best.estimate if chosen else seen.estimate,
        shown_low=best.low if chosen else seen.low,
        shown_high=worst.high if chosen else seen.high,
        best_case=best,
        worst_case=worst,
    )


def median_and_max(values: Floats) -> MedianAndMax:
    """The median and the maximum of a number that each run has."""
    if not values.size:
        return MedianAndMax(median=None, max=None, runs=0)
    return MedianAndMax(median=float(np.median(values)), max=float(values.max()), runs=values.size)


def _recovery(values: Floats) -> Recovery:
    recovered = values[np.isfinite(values)]
    # The upper of two middle values: the mean of a time and "never" is "never".
    median = np.quantile(values, 0.5, method="inverted_cdf") if values.size else np.inf
    return Recovery(
        median=float(median) if np.isfinite(median) else None,
        max=float(recovered.max()) if recovered.size else None,
        runs=values.size,
        not_recovered=values.size - recovered.size,
    )
