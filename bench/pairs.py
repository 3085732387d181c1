"""What pairs do to a comparison: campaigns whose two cells shared every run, with a known truth.

Two cells of 50 shared runs. Every run has its own effect (a slow disk, a late election) that
moves both cells: whether a cell is lossy is decided by the run's effect and by the cell's own
chance, both normal, and the *shared part* is the effect's part of the variance. Where it is below 0
the effect moves the two cells in opposite directions: what spares the one costs the other. A lossy
result loses a Beta(1, 3) of what was acknowledged, moved by the run in the same way.

How often does each test say that the cells differ (more than 5 % is an error where they do not),
and how often do the intervals of the difference hold the truth?

    python -m bench.pairs            250 campaigns of each kind: a table, and an exit code
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy import stats

from analysis.statistics.comparisons import contrast_of_pairs
from analysis.statistics.contrasts import ALPHA, SharedResult, difference, exact_test
from analysis.statistics.intervals import Share, mean_difference
from bench.coverage import MEAN_IF_LOSSY, holds

CAMPAIGNS: Final = 250
PAIRS: Final = 50
SEED: Final = 2013


@dataclass(frozen=True)
class Kind:
    """A kind of campaign: the true shares of lossy runs, and the shared part."""

    share_a: float
    share_b: float
    shared_part: float

    @property
    def same(self) -> bool:
        """Whether the cells do not differ."""
        return self.share_a == self.share_b


KINDS: Final = (
    *(Kind(0.3, 0.3, part) for part in (-0.8, 0, 0.5, 0.9)),
    Kind(0.1, 0.1, 0.5),
    *(Kind(0.3, 0.5, part) for part in (-0.8, 0, 0.5, 0.9)),
    Kind(0.02, 0.2, 0.5),
)
MEASURES: Final = ("mcnemar", "barnard", "tango", "newcombe", "pairs", "strangers")


def simulated(kind: Kind, campaigns: int = CAMPAIGNS, *, rates: bool = True) -> dict[str, float]:
    """How often the tests call a difference and the intervals cover it; the correlation of whether
    the cells are lossy. Intervals of loss rates are NaN unless `rates`."""
    rng = np.random.default_rng(SEED)
    apart = kind.share_b - kind.share_a
    found: dict[str, list[bool]] = {name: [] for name in MEASURES}
    every: list[Any] = []
    for _ in range(campaigns):
        lost = drawn(kind, rng)
        every.append(lost > 0)
        a, b = (Share(int((cell > 0).sum()), PAIRS) for cell in lost)
        contrast = contrast_of_pairs(
            [(_result(x, rates=rates), _result(y, rates=rates)) for x, y in lost.T]
        )
        found["mcnemar"].append((contrast.test.p or 0) <= ALPHA)
        found["barnard"].append((exact_test(a, b).p or 0) <= ALPHA)
        found["tango"].append(holds(contrast.difference, apart))
        found["newcombe"].append(holds(difference(a, b), apart))
        if rates and contrast.loss_rate.low is not None:
            found["pairs"].append(holds(contrast.loss_rate, apart * MEAN_IF_LOSSY))
            strangers = mean_difference(*lost)
            if strangers.low is not None:
                found["strangers"].append(holds(strangers, apart * MEAN_IF_LOSSY))
    correlation = np.corrcoef(np.concatenate(every, axis=1))[0, 1]
    shares = {name: float(np.mean(each)) if each else np.nan for name, each in found.items()}
    return {"correlation": float(correlation), **shares}


def drawn(kind: Kind, rng: np.random.Generator) -> Any:
    """The loss rates of one campaign: two rows, a column for each run."""
    return np.where(
        _moved(kind, rng) < np.array([[kind.share_a], [kind.share_b]]),
        stats.beta.ppf(_moved(kind, rng), 1, 3),
        0.0,
    )


def _moved(kind: Kind, rng: np.random.Generator) -> Any:
    """Numbers that are uniform from 0 to 1 in each cell, and related within each run."""
    part = abs(kind.shared_part)
    effect = rng.standard_normal(PAIRS) * np.array([[1.0], [np.sign(kind.shared_part)]])
    own = rng.standard_normal((2, PAIRS))
    return stats.norm.cdf(np.sqrt(part) * effect + np.sqrt(1 - part) * own)


def _result(rate: float, *, rates: bool) -> SharedResult:
    return SharedResult(lossy=rate > 0, conclusive=True, loss_rate=rate if rates else None)


def tables() -> Iterator[tuple[str, float]]:
    """The table, as Markdown lines, each with how often McNemar's test errs."""
    heads = (
        *("true shares", "shared part", "correlation", "McNemar's test finds a difference"),
        "Barnard's finds one",
        *("Tango's interval covers", "Newcombe's covers", "loss rate: pairs cover"),
        "as independent samples",
    )
    yield f"| {' | '.join(heads)} |", 0.0
    yield "|" + "---|" * len(heads), 0.0
    for kind in KINDS:
        found = simulated(kind)
        cells = [f"{found[name]:.3f}".replace("nan", "-") for name in MEASURES]
        shares = f"{kind.share_a:g} and {kind.share_b:g}"
        line = f"| {shares} | {kind.shared_part:g} | {found['correlation']:.2f} |"
        yield f"{line} {' | '.join(cells)} |", found["mcnemar"] if kind.same else 0.0


def main() -> int:
    """Print the table; 1 where McNemar's test errs in more than 5 % (and four standard errors) of
    campaigns."""
    lines, errs = [], []
    for line, erring in tables():
        print(line, flush=True)
        lines.append(line)
        errs.append(erring)
    return int(max(errs) > ALPHA + 4 * (ALPHA * (1 - ALPHA) / CAMPAIGNS) ** 0.5)


if __name__ == "__main__":
    sys.exit(main())
