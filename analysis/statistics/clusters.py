"""Runs that share a cluster or a worker: how similar they are, and a test that allows for it.

A campaign reuses clusters and has few workers, so its runs are not fully independent: a slow
cluster is slow for all of its runs. The similarity is measured as the intraclass correlation of an
analysis of variance within cells (Fisher 1925, Donner 1986), and tested by permutation within
cells. If the runs of two cells share clusters, their difference is tested within the clusters. The
lossy runs of a cluster are distributed over the two cells hypergeometrically, and clusters are
independent, so the distribution of the sum is exact (the exact Mantel-Haenszel test; Birch 1964,
Mehta, Patel and Gray 1985). That test draws no random numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import scipy

from analysis.statistics.resampling import Floats
from analysis.statistics.shares import Share

WITHIN: Final = "exact within clusters"
MOST: Final = 0.9
"""Two cells are compared within clusters if at least this share of the runs of each is on clusters
that served both. The rule considers clusters only, never losses."""

_PERMUTATIONS: Final = 1_999
_SEED: Final = 2013
_TIES: Final = 1e-9


@dataclass(frozen=True, kw_only=True)
class Resemblance:
    """How much more similar runs of one group are than runs of one cell: the intraclass correlation
    (0: as if independent, 1: identical), and the p-value of 0."""

    groups: int
    runs: int
    correlation: float | None = None
    p: float | None = None
    why: str | None = None


def resemblance(
    cells: Sequence[Hashable], groups: Sequence[Hashable], values: Floats
) -> Resemblance:
    """The part of the variance of `values` that groups explain beyond cells."""
    of_cell, of_group = _numbered(cells), _numbered(groups)
    sizes = np.bincount(of_group)
    empty = Resemblance(groups=sizes.size, runs=values.size)
    if sizes.size < 2:
        return _unknown(empty, "there are fewer than two groups")
    if sizes.max() < 2:
        return _unknown(empty, "no two runs share a group")
    means = np.bincount(of_cell, values) / np.bincount(of_cell)
    rest = values - means[of_cell]
    total = float((rest**2).sum())
    within = values.size - means.size - sizes.size + 1
    if total < _TIES or within < 1:
        return _unknown(empty, "the runs of a cell do not differ")
    between = _between(rest, of_group, sizes)
    return Resemblance(
        groups=sizes.size,
        runs=values.size,
        correlation=_correlation(between, total - between, sizes, within),
        p=_chance(rest, of_cell, of_group, sizes, between),
    )


def _unknown(empty: Resemblance, why: str) -> Resemblance:
    return replace(empty, why=why)


def _numbered(names: Sequence[Hashable]) -> Any:
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return np.array([places[name] for name in names], np.int64)


def _between(rest: Floats, of_group: Any, sizes: Any) -> float:
    """The sum of squares between groups."""
    return float((np.bincount(of_group, rest) ** 2 / sizes).sum())


def _correlation(between: float, within: float, sizes: Any, freedom: int) -> float:
    runs, groups = int(sizes.sum()), sizes.size
    size = (runs - float((sizes**2).sum()) / runs) / (groups - 1)
    mean_between, mean_within = between / (groups - 1), within / freedom
    return float((mean_between - mean_within) / (mean_between + (size - 1) * mean_within))


def _chance(rest: Floats, of_cell: Any, of_group: Any, sizes: Any, seen: float) -> float:
    """The p-value by permutation: how often the groups explain as much if runs are exchanged within
    their cells."""
    rng = np.random.default_rng(_SEED)
    ordered = np.argsort(of_cell, kind="stable")
    found = 1
    for _ in range(_PERMUTATIONS):
        mixed = np.lexsort((rng.random(rest.size), of_cell))
        changed = np.empty_like(rest)
        changed[ordered] = rest[mixed]
        found += _between(changed, of_group, sizes) >= seen - _TIES
    return found / (_PERMUTATIONS + 1)


Strata = Mapping[Hashable, Share]
"""The lossy share of one cell's conclusive runs, by cluster."""


def share_clusters(a: Strata, b: Strata) -> bool:
    """Whether the runs of two cells share at least two clusters."""
    both = [cluster for cluster in a if cluster in b]
    return len(both) > 1 and all(
        sum(cell[cluster].whole for cluster in both)
        >= MOST * sum(share.whole for share in cell.values())
        for cell in (a, b)
    )


def p_within(a: Strata, b: Strata) -> float:
    """The two-sided p-value of "within each cluster both cells lose equally often": the probability
    of all numbers of lossy runs of `b` that are no more likely than the observed one."""
    chances, seen = np.ones(1), 0
    for cluster in a:
        if cluster in b:
            one, other = a[cluster], b[cluster]
            runs, lossy = one.whole + other.whole, one.part + other.part
            parts: Any = np.arange(other.whole + 1)
            chances = np.convolve(
                chances, scipy.stats.hypergeom.pmf(parts, runs, lossy, other.whole)
            )
            seen += other.part
    return min(1.0, float(chances[chances <= chances[seen] * (1 + 1e-7)].sum()))
