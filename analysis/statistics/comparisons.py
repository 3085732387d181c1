"""Cells against each other, as campaign.json holds them: one axis at a time, and corrected.

Of all pairs of cells only those are compared that differ in exactly one axis: another difference
would have two causes. `a` stands before `b` in the campaign (or is the baseline), and every
difference is `b` less `a`: above 0, `b` loses more.

Tests are over conclusive runs. A difference that is significant is *doubtful* when the other runs
could turn it: it is tested again over all runs, with each run that does not count against what is
claimed (the cell that seems to lose more at its best case, the other at its worst). The rule is the
same within one campaign and between two. Cells that were run on the same clusters are tested within
these (`clusters.share_clusters` says when).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

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
from analysis.statistics.eligibility import Document
from analysis.statistics.resampling import mean_difference
from analysis.statistics.samples import Sample, sample_of
from analysis.statistics.shares import Estimate, Share

_ABSENT = object()


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What the runs that do not count can make of a difference: the least and the greatest over all
    runs, and the p-value with them against what is claimed (1 where they turn it round)."""

    least: float | None = None
    greatest: float | None = None
    p_against: float | None = None
    p_against_adjusted: float | None = None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All that campaign.json says of two cells.

    `difference`, `low` and `high` are of the shares of lossy runs, `loss_rate` of the mean loss
    rates. `runs_needed`: of each cell, for 80 % power, were the shares seen the true ones.
    `doubtful`: significant, unless the runs that do not count are against it.
    """

    a: dict[str, Any]
    b: dict[str, Any]
    axis: str | None
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
        """Whether the conclusive runs say that the shares differ, doubtful or not."""
        return self.p_adjusted is not None and self.p_adjusted <= ALPHA

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def comparisons_of(
    cells: Sequence[tuple[Key, Iterable[Document]]],
    clusters: Sequence[Sequence[Hashable | None]] | None = None,
) -> list[dict[str, Any]]:
    """The `comparisons[]` of a campaign: every pair of cells that one axis tells apart. `clusters`:
    what each run of each cell was run on, where that is known."""
    places: Sequence[Sequence[Hashable | None]] = clusters or [() for _ in cells]
    samples = [
        (key, sample_of(documents, where))
        for (key, documents), where in zip(cells, places, strict=True)
    ]
    told = [
        compared(key_a, sample_a, key_b, sample_b, axis=axes[0])
        for (key_a, sample_a), (key_b, sample_b) in combinations(samples, 2)
        if len(axes := list(_axes_apart(key_a, key_b))) == 1
    ]
    return [each.document() for each in corrected(told)]


def compared(
    key_a: Key, a: Sample, key_b: Key, b: Sample, *, axis: str | None = None
) -> Comparison:
    """Two cells, or one cell of two campaigns. What is corrected over all comparisons, and so what
    is doubtful, waits for `corrected`."""
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
    """What the runs that do not count can make of `b` less `a`."""
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
    """The p-value of these shares; 1 where they do not differ the way that is claimed."""
    apart = _apart(a, b) if rising else -_apart(a, b)
    return exact_test(a, b).p if apart > 0 else 1.0


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The same, corrected for as many as they are, and with those called that are doubtful."""
    for_all = adjusted([each.p for each in comparisons])
    against = adjusted([each.bounds.p_against for each in comparisons])
    told = []
    for each, p, p_against in zip(comparisons, for_all, against, strict=True):
        now = replace(each, p_adjusted=p, bounds=replace(each.bounds, p_against_adjusted=p_against))
        turned = p_against is not None and p_against > ALPHA
        told.append(replace(now, doubtful=now.is_significant and turned))
    return told


def _axes_apart(a: Key, b: Key) -> Iterator[str]:
    for axis in {**a, **b}:
        if a.get(axis, _ABSENT) != b.get(axis, _ABSENT):
            yield axis
