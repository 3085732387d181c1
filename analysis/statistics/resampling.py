"""Means and ratios over runs, with intervals by resampling whole runs; medians by their ranks.

Loss rates are nothing like normal: most runs lose nothing, some lose half. The bootstrap asks how
much a number varies when the runs are drawn again from themselves (Efron 1987, BCa). It knows only
losses that it has seen: under MIN_TELLING runs that lost anything it is not to be trusted, and the
interval is null with a `why`. A rate that cannot exceed 1 has a bound all the same: its mean is at
most the share of runs in which it is not 0, and that share has an exact interval.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import stats

from analysis.statistics.shares import (
    CLOPPER_PEARSON,
    CONFIDENCE,
    NONE_CONCLUSIVE,
    Estimate,
    Share,
    bounds,
)

Floats = npt.NDArray[np.float64]

MIN_TELLING: Final = 10
BCA: Final = "BCa bootstrap over runs"
QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)

_RESAMPLES: Final = 9_999
_BATCH_NUMBERS: Final = 2_000_000
_SEED: Final = 2013
"""The same documents give the same interval, on every machine and in any order of the cells."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A number that every run has: its mean with an interval, and how it is spread over runs.

    `median_low` and `median_high` are ranks of the runs themselves (binomial, at least 95 %), null
    under 6 runs. `at_most` bounds the mean where the interval is null, if the number is a share.
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


def spread(values: Floats, *, bounded: bool) -> Spread:
    """How `values`, one a run, are spread; `bounded`: none of them can exceed 1."""
    if not values.size:
        return Spread(why=NONE_CONCLUSIVE)
    mean = mean_estimate(values)
    median: Any = stats.quantile_test(values).confidence_interval(CONFIDENCE)
    bound = None
    if bounded and mean.low is None:
        above = Share(int(np.count_nonzero(values)), values.size)
        _, bound = bounds(above, method=CLOPPER_PEARSON, confidence=CONFIDENCE)
    return Spread(
        median=float(np.median(values)),
        median_low=_told(median.low),
        median_high=_told(median.high),
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
    return _bootstrapped(mean, [values], np.mean, telling=[values], paired=False)


def ratio_estimate(parts: Floats, wholes: Floats) -> Estimate:
    """Sum of `parts` by sum of `wholes`, both one a run, with an interval that resamples runs.

    So a run in which a thousand writes were lost counts as one event, not as a thousand.
    """
    total = float(wholes.sum())
    if not total:
        return Estimate(why="there is nothing to divide by")
    return _bootstrapped(
        float(parts.sum()) / total, [parts, wholes], _ratio, telling=[parts], paired=True
    )


def mean_difference(a: Floats, b: Floats) -> Estimate:
    """The mean of `b` less the mean of `a`, two independent samples of runs."""
    if not (a.size and b.size):
        return Estimate(why=NONE_CONCLUSIVE)
    return _bootstrapped(
        float(b.mean() - a.mean()), [a, b], _difference, telling=[a, b], paired=False
    )


def _ratio(parts: Floats, wholes: Floats, axis: int) -> Any:
    return parts.sum(axis=axis) / wholes.sum(axis=axis)


def _difference(a: Floats, b: Floats, axis: int) -> Any:
    return b.mean(axis=axis) - a.mean(axis=axis)


def _bootstrapped(
    estimate: float,
    data: Sequence[Floats],
    statistic: Callable[..., Any],
    *,
    telling: Sequence[Floats],
    paired: bool,
) -> Estimate:
    fewest = min(int(np.count_nonzero(values)) for values in telling)
    if fewest < MIN_TELLING:
        runs = "run is" if fewest == 1 else "runs are"
        why = f"{fewest} {runs} above 0, a bootstrap needs {MIN_TELLING}"
        return Estimate(estimate=estimate, why=why)
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):  # told by `why` below
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        told: Any = stats.bootstrap(
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
    low, high = _told(told.low), _told(told.high)
    if low is None or high is None:
        return Estimate(estimate=estimate, why="all runs gave the same, so nothing varies")
    return Estimate(estimate=estimate, low=low, high=high, method=BCA)


def _told(number: float) -> float | None:
    return None if math.isnan(number) else float(number)
