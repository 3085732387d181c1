"""Two cells whose runs were shared: their results are pairs, not two independent samples.

Cells of one run meet the same fault at the same instant on the same cluster, so what they lose is
related. Tests and intervals for pairs use that; those for independent samples ignore it. Only
complete pairs count: both results are conclusive, which does not depend on what they lost.

test         McNemar's (1947), exact: of the pairs in which one result is lossy and the other is
             not, each way is equally likely (binomial). It equals `clusters.p_within` with a
             cluster for each pair.
interval     Tango's score interval of the difference (1998, Stat. Med. 17:891): every difference
             that the score test does not reject, the other parameter at its likeliest.
pairs needed Connor (1987, Biometrics 43:207), with the correction for exact tests of Casagrande,
             Pike and Smith (1978, Biometrics 34:483).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import scipy

from analysis.statistics.contrasts import ALPHA, POWER, Test
from analysis.statistics.shares import CONFIDENCE, Estimate

MCNEMAR: Final = "McNemar"
TANGO: Final = "Tango score for pairs"
NO_PAIR: Final = "no pair of conclusive runs"
MOST: Final = 0.5
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
    return both > 0 and both >= MOST * max(runs_a, runs_b)


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
def tango(
    only_a: int, only_b: int, pairs: int, *, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """The limits of the difference of b and a, of so many pairs in all."""
    upper = _upper(only_a, only_b, pairs, confidence)
    return -_upper(only_b, only_a, pairs, confidence), upper


def _upper(only_a: int, only_b: int, pairs: int, confidence: float) -> float:
    seen = (only_b - only_a) / pairs
    quantile = float(scipy.stats.norm.ppf((1 + confidence) / 2))

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


def pairs_needed(pairs: Pairs, *, power: float = POWER, alpha: float = ALPHA) -> int | None:
    """Pairs with which McNemar's exact test distinguishes the cells with this power, if the shares
    of these pairs are true. `None` if the cells lose equally often."""
    apart = abs(pairs.only_b - pairs.only_a)
    if not apart:
        return None
    difference = apart / pairs.complete
    differing = (pairs.only_a + pairs.only_b) / pairs.complete
    quantile_alpha, quantile_power = scipy.stats.norm.ppf([1 - alpha / 2, power]).tolist()
    spread = math.sqrt(max(0.0, differing - difference**2))
    reach: float = quantile_alpha * math.sqrt(differing) + quantile_power * spread
    plain = (reach / difference) ** 2
    corrected = plain / 4 * (1 + math.sqrt(1 + 4 / (plain * difference))) ** 2
    return math.ceil(corrected)
