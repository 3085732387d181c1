"""Cells against each other, as campaign.json holds them: one axis at a time, and corrected.

Of all pairs of cells only those are compared that differ in exactly one axis: another difference
would have two causes. `a` stands before `b` in the campaign (or is the older night), and every
difference is `b` less `a`: above 0, `b` loses more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

from analysis.statistics.cells import Key
from analysis.statistics.contrasts import adjusted, difference, exact_test, runs_needed
from analysis.statistics.resampling import mean_difference
from analysis.statistics.samples import Document, Sample, sample_of
from analysis.statistics.shares import Estimate

_ABSENT = object()


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All that campaign.json says of two cells.

    `difference`, `low` and `high` are of the shares of lossy runs, `loss_rate` of the mean loss
    rates. `runs_needed`: of each cell, for 80 % power, were the shares seen the true ones.
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
    loss_rate: Estimate

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def comparisons_of(
    cells: Sequence[tuple[Key, Iterable[Document]]],
) -> list[dict[str, Any]]:
    """The `comparisons[]` of a campaign: every pair of cells that one axis tells apart."""
    samples = [(key, sample_of(documents)) for key, documents in cells]
    told = [
        compared(key_a, sample_a, key_b, sample_b, axis=axes[0])
        for (key_a, sample_a), (key_b, sample_b) in combinations(samples, 2)
        if len(axes := list(_axes_apart(key_a, key_b))) == 1
    ]
    return [each.document() for each in corrected(told)]


def compared(
    key_a: Key, a: Sample, key_b: Key, b: Sample, *, axis: str | None = None
) -> Comparison:
    """Two cells, or one cell of two nights; `p_adjusted` waits for `corrected`."""
    apart, test = difference(a.lossy, b.lossy), exact_test(a.lossy, b.lossy)
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
        loss_rate=mean_difference(a.loss_rate, b.loss_rate),
    )


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The same, with `p_adjusted` for as many as they are."""
    adjusted_p = adjusted([each.p for each in comparisons])
    return [replace(each, p_adjusted=p) for each, p in zip(comparisons, adjusted_p, strict=True)]


def _axes_apart(a: Key, b: Key) -> Iterator[str]:
    for axis in {**a, **b}:
        if a.get(axis, _ABSENT) != b.get(axis, _ABSENT):
            yield axis
