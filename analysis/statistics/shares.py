"""A share of runs with its interval: how certain is it after so many runs?

Clopper-Pearson's interval is exact: it covers the true share in at least 95 of 100 campaigns,
whatever that share is. It is the interval on the page. Wilson's is shorter and covers the true
share in 95 of 100 campaigns on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import scipy

from harness.percent import percent

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
    low, high = bounds(share, method=CLOPPER_PEARSON, confidence=CONFIDENCE)
    return Estimate(estimate=share.value, low=low, high=high, method=CLOPPER_PEARSON)


@lru_cache(maxsize=10_000)
def bounds(share: Share, *, method: str, confidence: float) -> tuple[float, float]:
    """The limits of the interval of a share of at least one run."""
    test: Any = scipy.stats.binomtest(share.part, share.whole)
    interval = test.proportion_ci(confidence, _SCIPY_NAMES[method])
    return float(interval.low), float(interval.high)


def chosen_by_outcome(share: Share, others: Share) -> bool:
    """Whether the runs that do not count, of which `others.part` were seen to be lossy, are lossy
    more often than those that do. Exactly then the share lies outside its bounds over all runs."""
    return others.part * share.whole > share.part * others.whole and share.whole > 0


def limits_over_all(share: Share, others: Share) -> tuple[float, float]:
    """The lower limit if each other run that was not seen to be lossy is not, and the upper one if
    each is."""
    best, worst = (
        bounds(
            Share(share.part + lossy, share.whole + others.whole),
            method=CLOPPER_PEARSON,
            confidence=CONFIDENCE,
        )
        for lossy in (others.part, others.whole)
    )
    return best[0], worst[1]


def share_in_words(share: Share, others: Share = Share(0, 0), *, head: str = "lost") -> str:
    """The share and its exact interval as a sentence, so that "0 of 50" is not "never". Where the
    outcome chose the runs that count, the bounds over all runs stand instead of the interval."""
    if not share.whole:
        return NONE_CONCLUSIVE
    low, high = bounds(share, method=CLOPPER_PEARSON, confidence=CONFIDENCE)
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
