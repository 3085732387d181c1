"""A share of runs with its interval: how sure may one be after so many runs?

Clopper-Pearson's interval is exact: it covers the truth in at least 95 of 100 campaigns, whatever
the truth is, and is therefore the one on the page. Wilson's is shorter and covers 95 on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from scipy.stats import binomtest

CONFIDENCE: Final = 0.95
CLOPPER_PEARSON: Final = "Clopper-Pearson"
WILSON: Final = "Wilson"

_SCIPY_NAMES: Final = {CLOPPER_PEARSON: "exact", WILSON: "wilson"}
NONE_CONCLUSIVE: Final = "no conclusive run"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number with its interval; null with a `why` where it, or the interval, cannot be given."""

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
            raise ValueError(f"{self.part} of {self.whole} is no share")

    @property
    def value(self) -> float | None:
        """The share itself; null of nothing."""
        return self.part / self.whole if self.whole else None


def share_estimate(
    share: Share, *, method: str = CLOPPER_PEARSON, confidence: float = CONFIDENCE
) -> Estimate:
    """A share with its interval, by Clopper-Pearson or Wilson."""
    if not share.whole:
        return Estimate(why=NONE_CONCLUSIVE)
    low, high = bounds(share, method=method, confidence=confidence)
    return Estimate(estimate=share.value, low=low, high=high, method=method)


def bounds(share: Share, *, method: str, confidence: float) -> tuple[float, float]:
    """The ends of a share's interval, of one run at least."""
    told: Any = binomtest(share.part, share.whole).proportion_ci(confidence, _SCIPY_NAMES[method])
    return float(told.low), float(told.high)


def share_in_words(share: Share) -> str:
    """What the exact interval says, for those who read "0 of 50" as "never"."""
    if not share.whole:
        return NONE_CONCLUSIVE
    low, high = bounds(share, method=CLOPPER_PEARSON, confidence=CONFIDENCE)
    of = f"{share.part} of {share.whole}"
    if not share.part:
        return f"{of} still allows {_percent(high)}"
    if share.part == share.whole:
        return f"{of} still allows as few as {_percent(low)}"
    return f"{of} is {_percent(share.part / share.whole)}: {_percent(low)} to {_percent(high)}"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"
