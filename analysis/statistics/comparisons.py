"""Cells compared as campaign.json holds them: one axis at a time, and corrected.

Two cells are compared if they differ in exactly one axis: a difference of other cells would have
two possible causes. `a` stands before `b` in the campaign, or is the baseline. Every difference is
`b` less `a`: above 0, `b` loses more.

Tests cover conclusive runs. A significant difference is *doubtful* if the other runs could reverse
it. To decide this, it is tested again over all runs, with each run that does not count against the
claim: the cell that seems to lose more at its best case, the other at its worst case. The rule is
the same within one campaign and between two.

Cells that shared their runs are compared as pairs (`contrasts.share_runs` has the rule): everything
about the comparison then rests on the shared runs. Other cells whose runs share clusters are tested
within the clusters (`contrasts.share_clusters` has the rule).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from analysis.statistics.cells import Key, Outcome, Sample, sample_of
from analysis.statistics.contrasts import (
    ALPHA,
    WITHIN,
    Both,
    Pairs,
    Test,
    adjusted,
    complete,
    counted,
    difference,
    exact_test,
    mcnemar,
    newcombe,
    p_within,
    paired,
    paired_difference,
    pairs_needed,
    runs_needed,
    share_clusters,
    share_runs,
    tango,
)
from analysis.statistics.intervals import (
    CONFIDENCE,
    Estimate,
    mean_difference,
    mean_of_differences,
)

_ABSENT = object()
_NEAR = 1e-9

Places = Sequence[Sequence[Hashable | None]]
"""Where each run of each cell took place."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The least and the greatest difference over all runs, or all pairs, the lower limit of the one
    and the upper limit of the other, and the p-value with those that do not count against the claim
    (1 if they reverse it)."""

    least: float | None = None
    greatest: float | None = None
    low: float | None = None
    high: float | None = None
    p_against: float | None = None
    p_against_adjusted: float | None = None


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two cells, and the axis in which they differ; `None`: a cell of two campaigns."""

    a: Key
    b: Key
    axis: str | None


@dataclass(frozen=True, kw_only=True)
class Tested:
    """The test of two shares of lossy runs.

    `difference`, `low` and `high` describe the shares of lossy runs, `loss_rate` the mean loss
    rates. `runs_needed`: runs of each cell for a power of 80 % at 0.05, if the observed shares
    are true: before the correction for the number of comparisons.
    `doubtful`: significant, but the runs that do not count could reverse it.
    `chosen_by_outcome`: the difference, or the share of one of the cells, lies outside its bounds
    over all runs: pages then print the limits of the bounds (`shown_low`, `shown_high`) instead of
    the interval.
    """

    difference: float | None
    low: float | None
    high: float | None
    method: str | None
    why: str | None
    p: float | None
    p_adjusted: float | None
    test: str | None
    runs_needed: int | None
    doubtful: bool
    chosen_by_outcome: bool
    shown_low: float | None
    shown_high: float | None
    bounds: Bounds
    loss_rate: Estimate

    @property
    def is_significant(self) -> bool:
        """Whether the shares of the conclusive runs differ significantly, doubtful or not."""
        return self.p_adjusted is not None and self.p_adjusted <= ALPHA


@dataclass(frozen=True, kw_only=True)
class Comparison(Tested, Pair):
    """Two cells compared. `pairs`: the runs that both shared, if they are compared as pairs."""

    pairs: Pairs = field(default_factory=Pairs)


def comparisons_of(
    cells: Sequence[tuple[Key, Iterable[Outcome]]],
    clusters: Places | None = None,
    shared: Places | None = None,
) -> list[Comparison]:
    """The `comparisons[]` of a campaign: every pair of cells that differ in one axis. For each run
    of each cell, `clusters` names its cluster, where it is known, and `shared` the run that it
    shared with other cells, if it did."""
    nowhere: Places = [() for _ in cells]
    samples = [
        (key, sample_of(outcomes, where, run))
        for (key, outcomes), where, run in zip(
            cells, clusters or nowhere, shared or nowhere, strict=True
        )
    ]
    pairs = [
        compared(key_a, sample_a, key_b, sample_b, axis=axes[0])
        for (key_a, sample_a), (key_b, sample_b) in combinations(samples, 2)
        if len(axes := list(_axes_apart(key_a, key_b))) == 1
    ]
    return corrected(pairs)


def compared(
    key_a: Key, a: Sample, key_b: Key, b: Sample, *, axis: str | None = None
) -> Comparison:
    """Two cells, or one cell of two campaigns. `corrected` adds what depends on all comparisons:
    the corrected p-values, and whether the difference is doubtful."""
    as_pairs = share_runs(a.shared, a.runs, b.shared, b.runs)
    contrast = contrast_of_pairs(paired(a.shared, b.shared)) if as_pairs else contrast_of(a, b)
    apart, test, over_all = contrast.difference, contrast.test, contrast.bounds
    chosen = a.chosen_by_outcome or b.chosen_by_outcome
    if apart.estimate is not None and over_all.least is not None and over_all.greatest is not None:
        chosen |= not over_all.least - _NEAR <= apart.estimate <= over_all.greatest + _NEAR
    return Comparison(
        a=dict(key_a),
        b=dict(key_b),
        axis=axis,
        difference=apart.estimate,
        low=apart.low,
        high=apart.high,
        method=apart.method,
        why=apart.why,
        p=test.p,
        p_adjusted=None,
        test=test.test,
        runs_needed=contrast.runs_needed,
        doubtful=False,
        chosen_by_outcome=chosen,
        shown_low=over_all.low if chosen else apart.low,
        shown_high=over_all.high if chosen else apart.high,
        bounds=over_all,
        loss_rate=contrast.loss_rate,
        pairs=contrast.pairs,
    )


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """What two samples say of their difference, before any correction."""

    difference: Estimate
    test: Test
    runs_needed: int | None
    bounds: Bounds
    loss_rate: Estimate
    pairs: Pairs = field(default_factory=Pairs)


def contrast_of(a: Sample, b: Sample) -> Contrast:
    """Two independent samples."""
    share_a, share_b = a.lossy.value, b.lossy.value
    return Contrast(
        difference=difference(a.lossy, b.lossy),
        test=_test(a, b),
        runs_needed=None if share_a is None or share_b is None else runs_needed(share_a, share_b),
        bounds=bounds(a, b),
        loss_rate=mean_difference(a.loss_rate, b.loss_rate, none=a.why_no_rate or b.why_no_rate),
    )


def contrast_of_pairs(every: Sequence[Both]) -> Contrast:
    """The results of two cells in the runs that both shared: complete pairs count."""
    pairs = counted(every)
    rates = [
        (a.loss_rate, b.loss_rate)
        for a, b in complete(every)
        if a.loss_rate is not None and b.loss_rate is not None
    ]
    rates_a, rates_b = np.array(rates, np.float64).reshape(-1, 2).T
    apart = paired_difference(pairs)
    return Contrast(
        difference=apart,
        test=mcnemar(pairs.only_a, pairs.only_b) if pairs.complete else Test(),
        runs_needed=pairs_needed(pairs),
        bounds=_bounds_of_pairs(every, apart.estimate),
        loss_rate=mean_of_differences(rates_a, rates_b),
        pairs=pairs,
    )


def _test(a: Sample, b: Sample) -> Test:
    if a.lossy.whole and b.lossy.whole and share_clusters(a.clusters, b.clusters):
        return Test(p=p_within(a.clusters, b.clusters), test=WITHIN)
    return exact_test(a.lossy, b.lossy)


def bounds(a: Sample, b: Sample) -> Bounds:
    """The range of `b` less `a` over all runs."""
    share_a, share_b = a.lossy.value, b.lossy.value
    if share_a is None or share_b is None:
        return Bounds()
    lowest, highest = (a.lossy_at_worst, b.lossy_at_best), (a.lossy_at_best, b.lossy_at_worst)
    least, low, _ = newcombe(*lowest, CONFIDENCE)
    greatest, _, high = newcombe(*highest, CONFIDENCE)
    if share_b > share_a:
        against = exact_test(*lowest).p if least > 0 else 1.0
    else:
        against = exact_test(*highest).p if greatest < 0 else 1.0
    return Bounds(least=least, greatest=greatest, low=low, high=high, p_against=against)


def _bounds_of_pairs(every: Sequence[Both], seen: float | None) -> Bounds:
    """The range of `b` less `a` over all shared runs, if the difference `seen` is claimed."""
    if seen is None:
        return Bounds()
    best = [(a.lossy, b.lossy) for a, b in every]
    worst = [(a.lossy or not a.conclusive, b.lossy or not b.conclusive) for a, b in every]
    least = [(a, b) for (a, _), (_, b) in zip(worst, best, strict=True)]
    greatest = [(a, b) for (a, _), (_, b) in zip(best, worst, strict=True)]
    (a_least, b_least), (a_most, b_most) = (
        (pairs.count((True, False)), pairs.count((False, True))) for pairs in (least, greatest)
    )
    only_a, only_b, sign = (a_least, b_least, 1) if seen > 0 else (a_most, b_most, -1)
    return Bounds(
        least=(b_least - a_least) / len(every),
        greatest=(b_most - a_most) / len(every),
        low=tango(a_least, b_least, len(every))[0],
        high=tango(a_most, b_most, len(every))[1],
        p_against=mcnemar(only_a, only_b).p if sign * (only_b - only_a) > 0 else 1.0,
    )


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons with p-values corrected for their number, and doubtful ones marked."""
    for_all = adjusted([each.p for each in comparisons])
    against = adjusted([each.bounds.p_against for each in comparisons])
    marked = []
    for each, p, p_against in zip(comparisons, for_all, against, strict=True):
        now = replace(each, p_adjusted=p, bounds=replace(each.bounds, p_against_adjusted=p_against))
        reversible = p_against is not None and p_against > ALPHA
        marked.append(replace(now, doubtful=now.is_significant and reversible))
    return marked


def _axes_apart(a: Key, b: Key) -> Iterator[str]:
    for axis in {**a, **b}:
        if a.get(axis, _ABSENT) != b.get(axis, _ABSENT):
            yield axis
