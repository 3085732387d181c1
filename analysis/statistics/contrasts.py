"""Two shares of runs compared: the difference, its p-value, and the number of runs needed.

A difference is `b` less `a`: above 0, `b` loses more often.

Whether two shares of runs are the same within a margin, which a large p-value does not show.

Two one-sided tests (Schuirmann 1987), both exact and unconditional. The score statistic of
Farrington and Manning (1990), with the restricted estimates in closed form (Miettinen and Nurminen
1985), orders all possible tables. The p-value is the probability of a table at least as extreme as
the observed one, maximised over all pairs of shares that are a margin apart. With the normal
distribution instead, 52 of 52 and 52 of 52 would be equivalent, although shares of 1 and 0.95 give
these counts in 6.9 % of campaigns. This test errs in at most 5 % of campaigns, at any shares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy

from analysis.statistics.shares import CONFIDENCE, NONE_CONCLUSIVE, WILSON, Estimate, Share, bounds

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

Floats = npt.NDArray[np.float64]
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
