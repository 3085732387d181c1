"""Two shares of runs against each other: how far apart, could it be chance, how many runs to know.

Differences are `b` less `a`: above 0, `b` is the one that loses more often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from scipy import stats

from analysis.statistics.shares import CONFIDENCE, NONE_CONCLUSIVE, WILSON, Estimate, Share, bounds

ALPHA: Final = 0.05
POWER: Final = 0.8
NEWCOMBE: Final = "Newcombe hybrid score"
BARNARD, FISHER = "Barnard", "Fisher"

_BARNARD_TABLES: Final = 251 * 251
"""Barnard's test looks at every table of so many runs: 0.05 s at 200 and 200, 7 s at 1,000 each."""

_BARNARD_POINTS: Final = 64

_FEWEST_NORMAL: Final = 10
"""Under so many runs the normal approximation promises power that is not there (0 of 2 and 2 of 2
prove nothing)."""


def difference(a: Share, b: Share) -> Estimate:
    """b's share less a's, with Newcombe's hybrid score interval (1998, method 10)."""
    if not (a.whole and b.whole):
        return Estimate(why=NONE_CONCLUSIVE)
    at, low, high = newcombe(a, b, CONFIDENCE)
    return Estimate(estimate=at, low=low, high=high, method=NEWCOMBE)


def newcombe(a: Share, b: Share, confidence: float) -> tuple[float, float, float]:
    """b's share less a's, and the ends of its hybrid score interval."""
    at_a, at_b = a.part / a.whole, b.part / b.whole
    low_a, high_a = bounds(a, method=WILSON, confidence=confidence)
    low_b, high_b = bounds(b, method=WILSON, confidence=confidence)
    low = at_b - at_a - math.hypot(at_b - low_b, high_a - at_a)
    high = at_b - at_a + math.hypot(high_b - at_b, at_a - low_a)
    return at_b - at_a, low, high


@dataclass(frozen=True, kw_only=True)
class Test:
    """The two-sided p-value of "both shares are the same", and whose test gave it."""

    __test__ = False  # no test of ours, whatever pytest thinks of its name

    p: float | None = None
    test: str | None = None


@lru_cache(maxsize=10_000)
def exact_test(a: Share, b: Share) -> Test:
    """Barnard's unconditional exact test, or Fisher's where there are too many runs for it."""
    if not (a.whole and b.whole):
        return Test()
    table = [[a.part, b.part], [a.whole - a.part, b.whole - b.part]]
    if a.part + b.part in (0, a.whole + b.whole):
        return Test(p=1.0, test=BARNARD)  # nothing differs; scipy says nan or 1
    if not _is_small(a.whole, b.whole):
        return Test(p=float(stats.fisher_exact(table).pvalue), test=FISHER)
    told: Any = stats.barnard_exact(table, n=_BARNARD_POINTS)
    return Test(p=min(1.0, float(told.pvalue)), test=BARNARD)


def adjusted(p: Sequence[float | None]) -> list[float | None]:
    """Benjamini and Hochberg's (1995) for many tests: called at 0.05, at most 5 % of calls are
    false on average. What has no p-value is not counted among the tests."""
    told = [each for each in p if each is not None]
    if not told:
        return list(p)
    corrected = iter(stats.false_discovery_control(told, method="bh").tolist())
    return [None if each is None else float(next(corrected)) for each in p]


def runs_needed(
    share_a: float, share_b: float, *, power: float = POWER, alpha: float = ALPHA
) -> int | None:
    """Runs of each cell after which `exact_test` tells these two shares apart, with this power.

    The normal approximation (Fleiss 1981) as it stands, which is what Barnard's test needs; with
    its correction for exact tests (Casagrande, Pike and Smith 1978) where it asks for so few runs
    that it is none, or for so many that the test is Fisher's. Null where the shares are the same:
    no number of runs tells those apart.
    """
    apart = abs(share_b - share_a)
    if not apart:
        return None
    middle = (share_a + share_b) / 2
    spread = share_a * (1 - share_a) + share_b * (1 - share_b)
    quantile_alpha, quantile_power = stats.norm.ppf([1 - alpha / 2, power]).tolist()
    plain: float = (
        quantile_alpha * math.sqrt(2 * middle * (1 - middle)) + quantile_power * math.sqrt(spread)
    ) ** 2
    for_barnard = math.ceil(plain / apart**2)
    if for_barnard >= _FEWEST_NORMAL and _is_small(for_barnard, for_barnard):
        return for_barnard
    corrected = math.ceil(plain / (4 * apart**2) * (1 + math.sqrt(1 + 4 * apart / plain)) ** 2)
    # What the approximation finds enough is enough from as many runs on as it holds for.
    return min(corrected, _FEWEST_NORMAL) if for_barnard < _FEWEST_NORMAL else corrected


def _is_small(runs_a: int, runs_b: int) -> bool:
    return (runs_a + 1) * (runs_b + 1) <= _BARNARD_TABLES
