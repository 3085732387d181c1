"""Intervals: how certain are a share of runs, a mean, a ratio and a median after so many runs?

*A share.* Clopper-Pearson's interval is exact: it covers the true share in at least 95 of 100
campaigns, whatever that share is. It is the interval on the page. Wilson's is shorter and covers
the true share in 95 of 100 campaigns on average.

*Means and ratios over runs*, by resampling complete runs; medians by their ranks. Loss rates are
far from normal: most runs lose nothing, some lose half. The bootstrap measures how a number varies
when runs are drawn with replacement from the sample (Efron 1987, BCa). It cannot know losses that
it has not seen: with fewer than MIN_NONZERO runs above 0 there is no interval, and `why` has the
reason. A rate that cannot exceed 1 still has a bound: its mean is at most the share of runs above
0, and that share has an exact interval.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy

from harness.protocols.checkers import percent

CONFIDENCE: Final = 0.95
CLOPPER_PEARSON: Final = "Clopper-Pearson"
WILSON: Final = "Wilson"

_SCIPY_NAMES: Final = {CLOPPER_PEARSON: "exact", WILSON: "wilson"}
NONE_CONCLUSIVE: Final = "no conclusive run"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number with its interval. `None`, with a reason in `why`, if one of them does not exist."""

    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    method: str | None = None
    why: str | None = None


@dataclass(frozen=True)
class Share:
    """`part` of `whole` runs. Raises ValueError unless 0 <= part <= whole."""

    part: int
    whole: int

    def __post_init__(self) -> None:
        if not 0 <= self.part <= self.whole:
            raise ValueError(f"{self.part} of {self.whole} is not a share")

    @property
    def value(self) -> float | None:
        """The share itself; `None` if `whole` is 0."""
        return self.part / self.whole if self.whole else None


def share_estimate(share: Share) -> Estimate:
    """A share with its interval, by Clopper-Pearson."""
    if not share.whole:
        return Estimate(why=NONE_CONCLUSIVE)
    low, high = _exact(share)
    return Estimate(estimate=share.value, low=low, high=high, method=CLOPPER_PEARSON)


@lru_cache(maxsize=10_000)
def bounds(share: Share, *, method: str, confidence: float) -> tuple[float, float]:
    """The limits of the interval of a share of at least one run."""
    test: Any = scipy.stats.binomtest(share.part, share.whole)
    interval = test.proportion_ci(confidence, _SCIPY_NAMES[method])
    return float(interval.low), float(interval.high)


def _exact(share: Share) -> tuple[float, float]:
    return bounds(share, method=CLOPPER_PEARSON, confidence=CONFIDENCE)


def chosen_by_outcome(share: Share, others: Share) -> bool:
    """Whether the runs that do not count, of which `others.part` were seen to be lossy, are lossy
    more often than those that do. Exactly then the share lies outside its bounds over all runs."""
    return others.part * share.whole > share.part * others.whole and share.whole > 0


def limits_over_all(share: Share, others: Share) -> tuple[float, float]:
    """The lower limit if each other run that was not seen to be lossy is not, and the upper one if
    each is."""
    whole = share.whole + others.whole
    best, worst = Share(share.part + others.part, whole), Share(share.part + others.whole, whole)
    return _exact(best)[0], _exact(worst)[1]


def share_in_words(share: Share, others: Share = Share(0, 0), *, head: str = "lost") -> str:
    """The share and its exact interval as a sentence, so that "0 of 50" is not "never". Where the
    outcome chose the runs that count, the bounds over all runs stand instead of the interval."""
    if not share.whole:
        seen = f"; {others.part} of {others.whole} others {head}" if others.part else ""
        return f"{NONE_CONCLUSIVE}{seen}"
    low, high = _exact(share)
    of = f"{share.part} of {share.whole}"
    if chosen_by_outcome(share, others):
        low, high = limits_over_all(share, others)
        seen, every = f"{others.part} of {others.whole} others {head}", share.whole + others.whole
        return f"{of}; {seen}: {percent(low)} to {percent(high)} of all {every}"
    if not share.part:
        return f"{of}: at most {percent(high)}"
    if share.part == share.whole:
        return f"{of}: at least {percent(low)}"
    return f"{of}: {percent(share.part / share.whole)} ({percent(low)} to {percent(high)})"


Floats = npt.NDArray[np.float64]

MIN_NONZERO: Final = 10
BCA: Final = "BCa bootstrap over runs"
PAIRED_T: Final = "symmetric bootstrap-t over pairs"
QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)

_RESAMPLES: Final = 9_999
_SAME: Final = 1e-12
"""Numbers that are equal but for rounding."""
_BATCH_NUMBERS: Final = 2_000_000
_SEED: Final = 2013
"""Fixed, so that the same runs give the same interval on every machine."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A number that each run has: its mean with an interval, and its distribution over runs.

    `median_low` and `median_high` are order statistics (binomial, at least 95 %), `None` with fewer
    than 6 runs. `at_most` bounds the mean of a share that has no interval.
    """

    median: float | None = None
    median_low: float | None = None
    median_high: float | None = None
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    method: str | None = None
    why: str | None = None
    at_most: float | None = None
    quantiles: dict[str, float] | None = None


def spread(values: Floats, *, bounded: bool, none: str | None = None) -> Spread:
    """The distribution of `values`, one for each run; `bounded`: none can exceed 1; `none`: why
    there are no values."""
    if not values.size:
        return Spread(why=none or NONE_CONCLUSIVE)
    mean = mean_estimate(values)
    median: Any = scipy.stats.quantile_test(values).confidence_interval(CONFIDENCE)
    bound = None
    if bounded and mean.low is None:
        above = Share(int(np.count_nonzero(values)), values.size)
        _, bound = _exact(above)
    return Spread(
        median=float(np.median(values)),
        median_low=_number_or_none(median.low),
        median_high=_number_or_none(median.high),
        mean=mean.estimate,
        low=mean.low,
        high=mean.high,
        method=mean.method,
        why=mean.why,
        at_most=bound,
        quantiles={f"{share:g}": float(np.quantile(values, share)) for share in QUANTILES},
    )


def mean_estimate(values: Floats) -> Estimate:
    """The mean over runs, with its BCa interval."""
    if not values.size:
        return Estimate(why=NONE_CONCLUSIVE)
    mean = float(values.mean())
    return _bootstrapped(mean, [values], np.mean, nonzero=[values], paired=False)


def ratio_estimate(parts: Floats, wholes: Floats, *, none: str | None = None) -> Estimate:
    """The sum of `parts` divided by the sum of `wholes`, with an interval that resamples runs;
    `none`: why that sum is 0.

    A run that lost a thousand writes therefore counts as one event, not as a thousand.
    """
    total = float(wholes.sum())
    if not total:
        return Estimate(why=none or "there is nothing to divide by")
    ratio = float(parts.sum()) / total
    return _bootstrapped(ratio, [parts, wholes], _ratio, nonzero=[parts], paired=True)


def mean_difference(a: Floats, b: Floats, *, none: str | None = None) -> Estimate:
    """The mean of `b` less the mean of `a`, two independent samples of runs; `none`: why one has
    no values."""
    if not (a.size and b.size):
        return Estimate(why=none or NONE_CONCLUSIVE)
    return _bootstrapped(
        float(b.mean() - a.mean()), [a, b], _difference, nonzero=[a, b], paired=False
    )


def mean_of_differences(a: Floats, b: Floats) -> Estimate:
    """The mean of `b` less the mean of `a`, where `a[n]` and `b[n]` are of one run: runs are
    resampled with both their numbers, which is to resample their differences.

    Differences are nearly symmetric, with long tails and many zeros: the interval is the symmetric
    studentised one (Hall 1988, JRSS B 50:35), as BCa's covers too seldom here (bench/pairs.py).
    """
    if not a.size:
        return Estimate(why=NONE_CONCLUSIVE)
    apart = b - a
    differing = int(np.count_nonzero(apart))
    if differing < MIN_NONZERO:
        pairs = "pair differs" if differing == 1 else "pairs differ"
        why = f"{differing} {pairs}, a bootstrap needs {MIN_NONZERO}"
        return Estimate(estimate=float(apart.mean()), why=why)
    mean, error = float(apart.mean()), float(apart.std(ddof=1)) / math.sqrt(apart.size)
    if np.ptp(apart) < _SAME:
        return Estimate(estimate=mean, why="all pairs differ by the same, so nothing varies")
    with np.errstate(invalid="ignore"):  # between a number and infinity
        reach = error * float(np.quantile(_studentised(apart), CONFIDENCE))
    if not math.isfinite(reach):
        why = "nearly all pairs differ by the same, so too many resamples do not vary"
        return Estimate(estimate=mean, why=why)
    return Estimate(estimate=mean, low=mean - reach, high=mean + reach, method=PAIRED_T)


def _studentised(values: Floats) -> Floats:
    """The distance of the mean of each resample from the mean, in standard errors of its own:
    infinite if the resample does not vary."""
    rng = np.random.default_rng(_SEED)
    rows = max(1, _BATCH_NUMBERS // values.size)
    found: list[Floats] = []
    for begin in range(0, _RESAMPLES, rows):
        shape = min(rows, _RESAMPLES - begin), values.size
        drawn = values[rng.integers(0, values.size, shape)]
        error = drawn.std(axis=1, ddof=1) / math.sqrt(values.size)
        away, varies = np.abs(drawn.mean(axis=1) - values.mean()), error > _SAME
        fixed = np.where(away > _SAME, math.inf, 0.0)
        found.append(np.divide(away, error, out=fixed, where=varies))
    return np.concatenate(found)


def _ratio(parts: Floats, wholes: Floats, axis: int) -> Any:
    return parts.sum(axis=axis) / wholes.sum(axis=axis)


def _difference(a: Floats, b: Floats, axis: int) -> Any:
    return b.mean(axis=axis) - a.mean(axis=axis)


def _bootstrapped(
    estimate: float,
    data: Sequence[Floats],
    statistic: Callable[..., Any],
    *,
    nonzero: Sequence[Floats],
    paired: bool,
) -> Estimate:
    fewest = min(int(np.count_nonzero(values)) for values in nonzero)
    if fewest < MIN_NONZERO:
        runs = "run is" if fewest == 1 else "runs are"
        why = f"{fewest} {runs} above 0, a bootstrap needs {MIN_NONZERO}"
        return Estimate(estimate=estimate, why=why)
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):  # `why` below has the reason
        warnings.simplefilter("ignore", scipy.stats.DegenerateDataWarning)
        interval: Any = scipy.stats.bootstrap(
            data,
            statistic,
            n_resamples=_RESAMPLES,
            batch=max(1, _BATCH_NUMBERS // max(values.size for values in data)),
            vectorized=True,
            paired=paired,
            confidence_level=CONFIDENCE,
            method="BCa",
            rng=np.random.default_rng(_SEED),
        ).confidence_interval
    low, high = _number_or_none(interval.low), _number_or_none(interval.high)
    if low is None or high is None:
        return Estimate(estimate=estimate, why="all runs have the same value, so nothing varies")
    return Estimate(estimate=estimate, low=low, high=high, method=BCA)


def _number_or_none(number: float) -> float | None:
    return None if math.isnan(number) else float(number)
