"""Cells compared as campaign.json holds them: one axis at a time, and corrected.

Two cells are compared if they differ in exactly one axis: a difference of other cells would have
two possible causes. `a` stands before `b` in the campaign, or is the baseline. Every difference is
`b` less `a`: above 0, `b` loses more.

Tests cover conclusive runs. A significant difference is *doubtful* if the other runs could reverse
it. To decide this, it is tested again over all runs, with each run that does not count against the
claim: the cell that seems to lose more at its best case, the other at its worst case. The rule is
the same within one campaign and between two. Cells whose runs share clusters are tested within the
clusters (`clusters.share_clusters` has the rule).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from analysis.statistics.cells import Key
from analysis.statistics.clusters import WITHIN, p_within, share_clusters
from analysis.statistics.contrasts import (
    ALPHA,
    Test,
    adjusted,
    difference,
    exact_test,
    runs_needed,
)
from analysis.statistics.eligibility import Outcome
from analysis.statistics.resampling import mean_difference
from analysis.statistics.samples import Sample, sample_of
from analysis.statistics.shares import Estimate, Share

_ABSENT = object()


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The least and the greatest difference over all runs, and the p-value with the runs that do
    not count against the claim (1 if they reverse it)."""

    least: float | None = None
    greatest: float | None = None
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
    rates. `runs_needed`: runs of each cell for a power of 80 %, if the observed shares are true.
    `doubtful`: significant, but the runs that do not count could reverse it.
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
    bounds: Bounds
    loss_rate: Estimate

    @property
    def is_significant(self) -> bool:
        """Whether the shares of the conclusive runs differ significantly, doubtful or not."""
        return self.p_adjusted is not None and self.p_adjusted <= ALPHA


@dataclass(frozen=True, kw_only=True)
class Comparison(Tested, Pair):
    """Two cells compared."""


def comparisons_of(
    cells: Sequence[tuple[Key, Iterable[Outcome]]],
    clusters: Sequence[Sequence[Hashable | None]] | None = None,
) -> list[Comparison]:
    """The `comparisons[]` of a campaign: every pair of cells that differ in one axis. `clusters`
    names the cluster of each run of each cell, where it is known."""
    places: Sequence[Sequence[Hashable | None]] = clusters or [() for _ in cells]
    samples = [
        (key, sample_of(outcomes, where))
        for (key, outcomes), where in zip(cells, places, strict=True)
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
    apart, test = difference(a.lossy, b.lossy), _test(a, b)
    share_a, share_b = a.lossy.value, b.lossy.value
    needed = None if share_a is None or share_b is None else runs_needed(share_a, share_b)
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
        runs_needed=needed,
        doubtful=False,
        bounds=bounds(a, b),
        loss_rate=mean_difference(a.loss_rate, b.loss_rate),
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
    if share_b > share_a:
        against = _p_of(a.lossy_at_worst, b.lossy_at_best, rising=True)
    else:
        against = _p_of(a.lossy_at_best, b.lossy_at_worst, rising=False)
    return Bounds(
        least=_apart(a.lossy_at_worst, b.lossy_at_best),
        greatest=_apart(a.lossy_at_best, b.lossy_at_worst),
        p_against=against,
    )


def _apart(a: Share, b: Share) -> float:
    return b.part / b.whole - a.part / a.whole


def _p_of(a: Share, b: Share, *, rising: bool) -> float | None:
    """The p-value of these shares; 1 if they do not differ in the claimed direction."""
    apart = _apart(a, b) if rising else -_apart(a, b)
    return exact_test(a, b).p if apart > 0 else 1.0


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
