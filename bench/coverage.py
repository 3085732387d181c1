"""Do the intervals cover what they promise? Campaigns with a known truth, many times over.

A campaign is so many runs, each of which loses something with a given probability (the share), and
then a Beta(1, 3) of what was acknowledged, 25 % on average: many runs lose nothing, some lose most.
Each interval is asked whether it holds the truth. For a share it can also be reckoned without
chance, by summing over all campaigns that there can be; both are shown, the promise is held by the
second.

    python -m bench.coverage            2,000 campaigns of each size: a table, and an exit code
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from typing import Final

import numpy as np
from scipy.stats import binom

from analysis.statistics.contrasts import ALPHA, difference, exact_test
from analysis.statistics.intervals import (
    CLOPPER_PEARSON,
    CONFIDENCE,
    WILSON,
    Estimate,
    Share,
    bounds,
    mean_estimate,
    ratio_estimate,
    spread,
)

CAMPAIGNS: Final = 2_000
SHARES: Final = (0.02, 0.1, 0.5)
RUNS: Final = (20, 50)
RUNS_OF_MEANS: Final = (20, 50, 200)
PAIRS: Final = ((0.02, 0.02), (0.1, 0.1), (0.5, 0.5), (0.02, 0.1), (0.1, 0.5))
MEAN_IF_LOSSY: Final = 0.25
SEED: Final = 2013

EXACT_AT_LEAST: Final = 0.95
WILSON_AT_LEAST: Final = 0.92
WILSON_ON_AVERAGE: Final = 0.95


def holds(estimate: Estimate, truth: float) -> bool:
    """Whether an interval covers the truth."""
    low, high = estimate.low, estimate.high
    return low is not None and high is not None and low <= truth <= high


@lru_cache(maxsize=1_000)
def _share(part: int, whole: int, method: str) -> Estimate:
    low, high = bounds(Share(part, whole), method=method, confidence=CONFIDENCE)
    return Estimate(low=low, high=high)


def reckoned(share: float, runs: int, method: str) -> float:
    """Coverage of a share's interval, summed over all campaigns that there can be."""
    parts = range(runs + 1)
    chances = binom.pmf(parts, runs, share)
    return sum(
        float(chance)
        for part, chance in zip(parts, chances, strict=True)
        if holds(_share(part, runs, method), share)
    )


def simulated(share: float, runs: int, method: str) -> float:
    """The same, of so many campaigns drawn by chance."""
    parts = np.random.default_rng(SEED).binomial(runs, share, CAMPAIGNS)
    return float(np.mean([holds(_share(int(part), runs, method), share) for part in parts]))


def of_pairs(share_a: float, share_b: float, runs: int) -> tuple[float, float]:
    """For two cells: coverage of the difference's interval, and how often the test calls it."""
    covered = called = 0.0
    chances_a, chances_b = (binom.pmf(range(runs + 1), runs, share) for share in (share_a, share_b))
    for a, b in product(range(runs + 1), repeat=2):
        chance = chances_a[a] * chances_b[b]
        if chance < 1e-8:
            continue
        pair = Share(a, runs), Share(b, runs)
        covered += chance * holds(difference(*pair), share_b - share_a)
        called += chance * ((exact_test(*pair).p or 0) <= ALPHA)
    return covered, called


def of_means(share: float, runs: int, *, campaigns: int = CAMPAIGNS) -> dict[str, float]:
    """For loss rates: how often there is a bootstrap interval, and how often each kind covers."""
    rng, truth = np.random.default_rng(SEED), share * MEAN_IF_LOSSY
    means, ratios, bounds = [], [], []
    for _ in range(campaigns):
        rates = np.where(rng.random(runs) < share, rng.beta(1, 3, runs), 0.0)
        acknowledged = rng.integers(500, 1_500, runs).astype(float)
        mean = mean_estimate(rates)
        if mean.low is None:
            bounds.append((spread(rates, bounded=True).at_most or 0) >= truth)
        else:
            means.append(holds(mean, truth))
            ratios.append(holds(ratio_estimate(rates * acknowledged, acknowledged), truth))
    return {
        "given": len(means) / campaigns,
        "mean": float(np.mean(means)) if means else float("nan"),
        "pooled": float(np.mean(ratios)) if ratios else float("nan"),
        "bound": float(np.mean(bounds)) if bounds else float("nan"),
    }


def wilson_on_average(runs: int) -> float:
    """Wilson's coverage, averaged over all shares from 0 to 1."""
    return float(
        np.mean([reckoned(share, runs, WILSON) for share in np.linspace(0.0005, 0.9995, 1_000)])
    )


def tables() -> Iterator[str]:
    """The tables, as Markdown lines."""
    yield from _heading(
        *("share of lossy runs", "runs", "Clopper-Pearson, computed", "simulated"),
        *("Wilson, computed", "simulated"),
    )
    for runs, share in product(RUNS, SHARES):
        cells = [
            f"{measure(share, runs, method):.3f}"
            for method in (CLOPPER_PEARSON, WILSON)
            for measure in (reckoned, simulated)
        ]
        yield f"| {share:g} | {runs} | {' | '.join(cells)} |"
    averages = " and ".join(f"{wilson_on_average(runs):.3f}" for runs in RUNS)
    yield f"\nWilson's, averaged over all shares from 0 to 1: {averages} with 20 and 50 runs.\n"
    yield from _heading(
        *("shares", "runs of each", "Newcombe's interval covers"),
        "Barnard's test finds a difference at 0.05",
    )
    for runs, pair in product(RUNS, PAIRS):
        covered, called = of_pairs(*pair, runs)
        yield f"| {pair[0]:g} and {pair[1]:g} | {runs} | {covered:.3f} | {called:.3f} |"
    yield ""
    yield from _heading(
        *("share of lossy runs", "runs", "campaigns with a bootstrap interval", "mean: covers"),
        *("pooled: covers", "else: the bound covers"),
    )
    for runs, share in product(RUNS_OF_MEANS, SHARES):
        estimates = of_means(share, runs)
        cells = [_covered(estimates[name]) for name in ("given", "mean", "pooled", "bound")]
        yield f"| {share:g} | {runs} | {' | '.join(cells)} |"


def _heading(*names: str) -> Iterator[str]:
    yield f"| {' | '.join(names)} |"
    yield "|" + "---|" * len(names)


def _covered(share: float) -> str:
    return "-" if np.isnan(share) else f"{share:.3f}"


def promises() -> Iterator[str]:
    """What is promised and not kept."""
    checks: list[tuple[str, float, Callable[[float, int], float]]] = [
        (
            "Clopper-Pearson",
            EXACT_AT_LEAST,
            lambda share, runs: reckoned(share, runs, CLOPPER_PEARSON),
        ),
        ("Wilson", WILSON_AT_LEAST, lambda share, runs: reckoned(share, runs, WILSON)),
        ("Wilson on average", WILSON_ON_AVERAGE, lambda _, runs: wilson_on_average(runs)),
    ]
    for (name, least, measure), share, runs in product(checks, SHARES, RUNS):
        if (covered := measure(share, runs)) < least:
            yield f"{name} covers {covered:.3f} at {share:g} of {runs} runs, promised {least:g}"


def main() -> int:
    """Print the tables; 1 where a promise is not kept."""
    lines = []
    for line in tables():
        print(line, flush=True)
        lines.append(line)
    broken = list(promises())
    for promise in broken:
        print(promise)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
