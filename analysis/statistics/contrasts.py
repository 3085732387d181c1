"""Two shares of runs compared: the difference, its p-value, and the number of runs needed; of
independent samples, of pairs, and of runs that share clusters.

A difference is `b` less `a`: above 0, `b` loses more often.

*Equivalence*: whether two shares of runs are the same within a margin, which a large p-value does
not show. Two one-sided tests (Schuirmann 1987), both exact and unconditional. The score statistic
of Farrington and Manning (1990), with the restricted estimates in closed form (Miettinen and
Nurminen 1985), orders all possible tables. The p-value is the probability of a table at least as
extreme as the observed one, maximised over all pairs of shares that are a margin apart. With the
normal distribution instead, 52 of 52 and 52 of 52 would be equivalent, although shares of 1 and
0.95 give these counts in 6.9 % of campaigns. This test errs in at most 5 % of campaigns, at any
shares.

*Pairs*: cells of one run meet the same fault at the same instant on the same cluster, so what they
lose is related. Tests and intervals for pairs use that; those for independent samples ignore it.
Only complete pairs count: both results are conclusive, which does not depend on what they lost.

    test         McNemar's (1947), exact: of the pairs in which one result is lossy and the other
                 is not, each way is equally likely (binomial). It equals `p_within` with a cluster
                 for each pair.
    interval     Tango's score interval of the difference (1998, Stat. Med. 17:891): every
                 difference that the score test does not reject, the other parameter at its
                 likeliest.
    pairs needed Connor (1987, Biometrics 43:207), with the correction for exact tests of
                 Casagrande, Pike and Smith (1978, Biometrics 34:483).

*Clusters*: a campaign reuses clusters and has few workers, so its runs are not fully independent: a
slow cluster is slow for all of its runs. The similarity is measured as the intraclass correlation
of an analysis of variance within cells (Fisher 1925, Donner 1986), and tested by permutation within
cells. If the runs of two cells share clusters, their difference is tested within the clusters. The
lossy runs of a cluster are distributed over the two cells hypergeometrically, and clusters are
independent, so the distribution of the sum is exact (the exact Mantel-Haenszel test; Birch 1964,
Mehta, Patel and Gray 1985). That test draws no random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy

from analysis.statistics.intervals import (
    CONFIDENCE,
    NONE_CONCLUSIVE,
    WILSON,
    Estimate,
    Floats,
    Share,
    bounds,
)

ALPHA: Final = 0.05
POWER: Final = 0.8
NEWCOMBE: Final = "Newcombe hybrid score"
BARNARD, FISHER = "Barnard", "Fisher"

_BARNARD_TABLES: Final = 251 * 251
"""Barnard's test visits every table of so many runs: 0.05 s for 200 and 200, 7 s for 1,000 each."""

_BARNARD_POINTS: Final = 64

_FEWEST_NORMAL: Final = 10
"""With fewer runs the normal approximation promises a power that does not exist (0 of 2 and 2 of 2
prove nothing)."""


def difference(a: Share, b: Share) -> Estimate:
    """b's share less a's, with Newcombe's hybrid score interval (1998, method 10)."""
    if not (a.whole and b.whole):
        return Estimate(why=NONE_CONCLUSIVE)
    at, low, high = newcombe(a, b, CONFIDENCE)
    return Estimate(estimate=at, low=low, high=high, method=NEWCOMBE)


def newcombe(a: Share, b: Share, confidence: float) -> tuple[float, float, float]:
    """b's share less a's, and the limits of its hybrid score interval."""
    at_a, at_b = a.part / a.whole, b.part / b.whole
    low_a, high_a = bounds(a, method=WILSON, confidence=confidence)
    low_b, high_b = bounds(b, method=WILSON, confidence=confidence)
    low = at_b - at_a - math.hypot(at_b - low_b, high_a - at_a)
    high = at_b - at_a + math.hypot(high_b - at_b, at_a - low_a)
    return at_b - at_a, low, high


@dataclass(frozen=True, kw_only=True)
class Test:
    """The two-sided p-value of "both shares are the same", and the name of the test."""

    __test__ = False  # not a test case, despite its name: pytest must not collect it

    p: float | None = None
    test: str | None = None


@lru_cache(maxsize=10_000)
def exact_test(a: Share, b: Share) -> Test:
    """Barnard's unconditional exact test, or Fisher's if there are too many runs for it."""
    if not (a.whole and b.whole):
        return Test()
    table = [[a.part, b.part], [a.whole - a.part, b.whole - b.part]]
    if a.part + b.part in (0, a.whole + b.whole):
        return Test(p=1.0, test=BARNARD)  # nothing differs; scipy returns nan or 1
    if not _is_small(a.whole, b.whole):
        return Test(p=float(scipy.stats.fisher_exact(table).pvalue), test=FISHER)
    result: Any = scipy.stats.barnard_exact(table, n=_BARNARD_POINTS)
    return Test(p=min(1.0, float(result.pvalue)), test=BARNARD)


def adjusted(p: Sequence[float | None]) -> list[float | None]:
    """p-values corrected for many tests (Benjamini and Hochberg 1995): of the differences called at
    0.05, at most 5 % are false on average. A test without a p-value does not count."""
    known = [each for each in p if each is not None]
    if not known:
        return list(p)
    corrected = iter(scipy.stats.false_discovery_control(known, method="bh").tolist())
    return [None if each is None else float(next(corrected)) for each in p]


def runs_needed(
    share_a: float, share_b: float, *, power: float = POWER, alpha: float = ALPHA
) -> int | None:
    """Runs of each cell with which `exact_test` distinguishes these two shares, with this power.

    The plain normal approximation (Fleiss 1981) fits Barnard's test. The correction for exact tests
    (Casagrande, Pike and Smith 1978) applies if the result is so small that the approximation does
    not hold, or so large that the test is Fisher's. `None` if the shares are the same: no number of
    runs distinguishes those.
    """
    apart = abs(share_b - share_a)
    if not apart:
        return None
    middle = (share_a + share_b) / 2
    spread = share_a * (1 - share_a) + share_b * (1 - share_b)
    quantile_alpha, quantile_power = scipy.stats.norm.ppf([1 - alpha / 2, power]).tolist()
    plain: float = (
        quantile_alpha * math.sqrt(2 * middle * (1 - middle)) + quantile_power * math.sqrt(spread)
    ) ** 2
    for_barnard = math.ceil(plain / apart**2)
    if for_barnard >= _FEWEST_NORMAL and _is_small(for_barnard, for_barnard):
        return for_barnard
    corrected = math.ceil(plain / (4 * apart**2) * (1 + math.sqrt(1 + 4 * apart / plain)) ** 2)
    # If the approximation needs fewer runs than it holds for, that minimum is enough.
    return min(corrected, _FEWEST_NORMAL) if for_barnard < _FEWEST_NORMAL else corrected


def _is_small(runs_a: int, runs_b: int) -> bool:
    return (runs_a + 1) * (runs_b + 1) <= _BARNARD_TABLES


MARGIN: Final = 0.05
_POINTS: Final = 64
"""The number of pairs of shares in the search for the maximum, denser near 0 and 1; a second search
around the maximum uses as many again."""
_CHUNK: Final = 2_000_000
_SLACK: Final = 1e-9
"""Statistics of equally extreme tables differ by rounding."""

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Equivalence:
    """Whether two shares are within `margin` of each other, by two one-sided tests.

    `low` and `high` are Newcombe's 90 % interval of the difference; `p` is the larger p-value.
    """

    equivalent: bool
    margin: float
    difference: float
    low: float
    high: float
    p: float
    test: str = "two one-sided exact unconditional tests"


def equivalence(a: Share, b: Share, *, margin: float = MARGIN, alpha: float = ALPHA) -> Equivalence:
    """Whether the shares differ by less than `margin`; wrong in at most `alpha` of all cases.

    Raises ValueError if either share has no run, or the margin is not between 0 and 1.
    """
    if not (a.whole and b.whole and 0 < margin < 1):
        raise ValueError("equivalence needs runs of both and a margin between 0 and 1")
    at, low, high = newcombe(a, b, 1 - 2 * alpha)
    p = max(_not_below(b, a, margin), _not_below(a, b, margin))
    return Equivalence(equivalent=p <= alpha, margin=margin, difference=at, low=low, high=high, p=p)


def _not_below(one: Share, other: Share, margin: float) -> float:
    """The p-value of "the share of `one` is lower than that of `other` by `margin` or more"."""
    least = as_extreme(one, other, margin)
    along = np.linspace(0, 1, _POINTS)
    shares = margin + (1 - margin) * np.sin(along * math.pi / 2) ** 2
    chances = _chances(one, other, shares, margin, least)
    worst = int(chances.argmax())
    near = np.linspace(shares[max(worst - 1, 0)], shares[min(worst + 1, _POINTS - 1)], _POINTS)
    nearer = _chances(one, other, near, margin, least)
    return float(min(1.0, max(chances.max(), nearer.max())))


def as_extreme(one: Share, other: Share, margin: float) -> Counts:
    """For each number of lossy runs of `other`, the least number of `one` that makes a table as
    extreme as the observed one. More are more extreme still (a test checks this)."""
    of_one = np.arange(one.whole + 1)
    seen = score(np.array([[one.part]]), np.array([[other.part]]), one, other, margin)[0, 0]
    least = []
    rows = max(1, _CHUNK // (one.whole + 1))
    for first in range(0, other.whole + 1, rows):
        of_other = np.arange(first, min(first + rows, other.whole + 1))
        scores = score(of_one[:, None], of_other[None, :], one, other, margin)
        least.append((scores < seen - _SLACK).sum(axis=0))
    return np.concatenate(least)


def _chances(one: Share, other: Share, shares: Floats, margin: float, least: Counts) -> Floats:
    """The probability of a table at least as extreme, if `other` has these shares and `one` is
    lower by `margin`."""
    lower = np.clip(shares - margin, 0, 1)[:, None]
    extreme: Any = scipy.stats.binom.sf(least - 1, one.whole, lower)
    of_other: Any = scipy.stats.binom.pmf(np.arange(other.whole + 1), other.whole, shares[:, None])
    chances: Floats = (extreme * of_other).sum(axis=1)
    return chances


def score(one: Any, other: Any, ones: Share, others: Share, margin: float) -> Floats:
    """The distance of the observed difference from `-margin`, in standard errors of the most likely
    shares that are a margin apart."""
    n_one, n_other, apart = ones.whole, others.whole, -margin
    runs, parts = n_one + n_other, one + other
    square = (n_one + 2 * n_other) * apart - runs - parts
    linear = (n_other * apart - runs - 2 * other) * apart + parts
    constant = other * apart * (1 - apart)
    third = square / (3 * runs)
    c = third**3 - linear * square / (6 * runs**2) + constant / (2 * runs)
    b = np.where(c < 0, -1.0, 1.0) * np.sqrt(np.maximum(third**2 - linear / (3 * runs), 1e-300))
    angle = (math.pi + np.arccos(np.clip(c / b**3, -1, 1))) / 3
    at_other = np.clip(2 * b * np.cos(angle) - third, margin, 1)
    at_one = at_other + apart
    error = np.sqrt(at_one * (1 - at_one) / n_one + at_other * (1 - at_other) / n_other)
    score: Floats = (one / n_one - other / n_other + margin) / error
    return score


MCNEMAR: Final = "McNemar"
TANGO: Final = "Tango score for pairs"
NO_PAIR: Final = "no pair of conclusive runs"
SHARED_ENOUGH: Final = 0.5
"""Two cells are compared as pairs if at least this share of all runs of each was shared with the
other. The rule considers only which runs were shared, never how a run ended."""

_NEAR: Final = 1e-9


@dataclass(frozen=True, kw_only=True)
class SharedResult:
    """What a shared run shows of one of its cells; `loss_rate` is `None` if there is none."""

    lossy: bool
    conclusive: bool
    loss_rate: float | None = None


Shared = Mapping[Hashable, SharedResult]
"""The results of one cell in shared runs, by the id of the shared run."""

Both = tuple[SharedResult, SharedResult]
"""The results of two cells in one run."""


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Complete pairs by which of the two results is lossy, and pairs that do not count because one
    result, or both, are not conclusive. All 0: the cells are not compared as pairs."""

    both: int = 0
    only_a: int = 0
    only_b: int = 0
    neither: int = 0
    incomplete: int = 0

    @property
    def complete(self) -> int:
        """The pairs that count."""
        return self.both + self.only_a + self.only_b + self.neither


def share_runs(a: Shared, runs_a: int, b: Shared, runs_b: int) -> bool:
    """Whether two cells, of so many runs of any outcome, are compared as pairs."""
    both = len(a.keys() & b.keys())
    return both > 0 and both >= SHARED_ENOUGH * max(runs_a, runs_b)


def paired(a: Shared, b: Shared) -> list[Both]:
    """The results of two cells in the runs that both shared, conclusive or not."""
    return [(result, b[run]) for run, result in a.items() if run in b]


def complete(pairs: Iterable[Both]) -> list[Both]:
    """The pairs that count: both results are conclusive."""
    return [(a, b) for a, b in pairs if a.conclusive and b.conclusive]


def counted(pairs: Iterable[Both]) -> Pairs:
    """The pairs, counted."""
    every = list(pairs)
    lossy = [(a.lossy, b.lossy) for a, b in complete(every)]
    return Pairs(
        both=lossy.count((True, True)),
        only_a=lossy.count((True, False)),
        only_b=lossy.count((False, True)),
        neither=lossy.count((False, False)),
        incomplete=len(every) - len(lossy),
    )


@lru_cache(maxsize=10_000)
def mcnemar(only_a: int, only_b: int) -> Test:
    """McNemar's exact two-sided test of "both cells lose equally often"."""
    differing = only_a + only_b
    p = scipy.stats.binomtest(only_b, differing).pvalue if differing else 1.0
    return Test(p=float(p), test=MCNEMAR)


def paired_difference(pairs: Pairs) -> Estimate:
    """b's share of lossy runs less a's over complete pairs, with Tango's interval."""
    if not pairs.complete:
        return Estimate(why=NO_PAIR)
    low, high = tango(pairs.only_a, pairs.only_b, pairs.complete)
    at = (pairs.only_b - pairs.only_a) / pairs.complete
    return Estimate(estimate=at, low=low, high=high, method=TANGO)


@lru_cache(maxsize=10_000)
def tango(only_a: int, only_b: int, pairs: int) -> tuple[float, float]:
    """The limits of the difference of b and a, of so many pairs in all."""
    return -_upper(only_b, only_a, pairs), _upper(only_a, only_b, pairs)


def _upper(only_a: int, only_b: int, pairs: int) -> float:
    seen = (only_b - only_a) / pairs
    quantile = float(scipy.stats.norm.ppf((1 + CONFIDENCE) / 2))

    def rejected(apart: float) -> float:
        """Above 0 if the score test rejects this difference. `other` is the likeliest probability
        that only `a` is lossy, given the difference (Tango's equation)."""
        linear = (2 * pairs - only_b + only_a) * apart - only_a - only_b
        root = max(0.0, linear**2 + 8 * pairs * only_a * apart * (1 - apart))
        other = (math.sqrt(root) - linear) / (4 * pairs)
        variance = pairs * (2 * other + apart * (1 - apart))
        return (pairs * (seen - apart)) ** 2 - quantile**2 * variance

    if seen + _NEAR >= 1:
        return 1.0
    return float(scipy.optimize.brentq(rejected, seen + _NEAR, 1.0))


def pairs_needed(pairs: Pairs, *, alpha: float = ALPHA) -> int | None:
    """Pairs with which McNemar's exact test distinguishes the cells with POWER, if the shares of
    these pairs are true. `None` if the cells lose equally often."""
    apart = abs(pairs.only_b - pairs.only_a)
    if not apart:
        return None
    difference = apart / pairs.complete
    differing = (pairs.only_a + pairs.only_b) / pairs.complete
    quantile_alpha, quantile_power = scipy.stats.norm.ppf([1 - alpha / 2, POWER]).tolist()
    spread = math.sqrt(max(0.0, differing - difference**2))
    reach: float = quantile_alpha * math.sqrt(differing) + quantile_power * spread
    plain = (reach / difference) ** 2
    corrected = plain / 4 * (1 + math.sqrt(1 + 4 / (plain * difference))) ** 2
    return math.ceil(corrected)


WITHIN: Final = "exact within clusters"
CLUSTERED_ENOUGH: Final = 0.9
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
        return replace(empty, why="there are fewer than two groups")
    if sizes.max() < 2:
        return replace(empty, why="no two runs share a group")
    means = np.bincount(of_cell, values) / np.bincount(of_cell)
    rest = values - means[of_cell]
    total = float((rest**2).sum())
    within = values.size - means.size - sizes.size + 1
    if total < _TIES or within < 1:
        return replace(empty, why="the runs of a cell do not differ")
    between = _between(rest, of_group, sizes)
    return Resemblance(
        groups=sizes.size,
        runs=values.size,
        correlation=_correlation(between, total - between, sizes, within),
        p=_chance(rest, of_cell, of_group, sizes, between),
    )


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
        >= CLUSTERED_ENOUGH * sum(share.whole for share in cell.values())
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
