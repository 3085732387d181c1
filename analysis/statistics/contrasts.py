"""Two shares of runs compared: the difference, its p-value, and the number of runs needed.

A difference is `b` less `a`: above 0, `b` loses more often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

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
