"""What clusters that differ do to a comparison: campaigns without a difference between their cells.

Two cells of 40 runs on 4 clusters. Each cluster has a share of lossy runs of its own, drawn around
0.3 so that runs of one cluster resemble each other with the intraclass correlation given. Runs are
spread evenly, or 9 to 1 on half of the clusters and 1 to 9 on the others. How often does each test
say that the cells differ? More than 5 % is an error.

    python -m bench.clusters            250 campaigns of each kind: a table, and an exit code
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from typing import Final

import numpy as np

from analysis.statistics.contrasts import ALPHA, Strata, exact_test, p_within, resemblance
from analysis.statistics.intervals import Share
from harness.protocols import Ints

CAMPAIGNS: Final = 250
SHARE: Final = 0.3
CORRELATIONS: Final = (0.0, 0.1, 0.3)
SPREADS: Final = {"evenly": (10, 10, 10, 10), "unevenly": (18, 18, 2, 2)}
"""Runs of A by cluster; those of B stand the other way round."""
SEED: Final = 2013


def simulated(
    correlation: float, spread: tuple[int, ...], campaigns: int = CAMPAIGNS
) -> tuple[float, float, float]:
    """How often Barnard's test and the one within clusters call a difference; the correlation that
    was found, on average."""
    rng = np.random.default_rng(SEED)
    called: list[tuple[bool, bool]] = []
    found: list[float] = []
    for _ in range(campaigns):
        shares = np.full(len(spread), SHARE)
        if correlation:
            size = 1 / correlation - 1  # of a Beta with this intraclass correlation
            shares = rng.beta(SHARE * size, (1 - SHARE) * size, len(spread))
        runs_a, runs_b = np.array(spread), np.array(spread[::-1])
        lost_a, lost_b = rng.binomial(runs_a, shares), rng.binomial(runs_b, shares)
        a, b = _by_cluster(lost_a, runs_a), _by_cluster(lost_b, runs_b)
        both = (
            Share(int(lost_a.sum()), int(runs_a.sum())),
            Share(int(lost_b.sum()), int(runs_b.sum())),
        )
        called.append(((exact_test(*both).p or 0) <= ALPHA, p_within(a, b) <= ALPHA))
        if len(found) < 40 and spread == SPREADS["evenly"]:
            cells = [cell for cell in "ab" for runs in spread for _ in range(runs)]
            groups = [place for _ in "ab" for place, runs in enumerate(spread) for _ in range(runs)]
            values = [
                float(n < part)
                for lost in (lost_a, lost_b)
                for part, runs in zip(lost, spread, strict=True)
                for n in range(runs)
            ]
            found.append(resemblance(cells, groups, np.array(values)).correlation or 0.0)
    barnard, within = np.mean(called, axis=0).tolist()
    return barnard, within, float(np.mean(found)) if found else float("nan")


def _by_cluster(lost: Ints, runs: Ints) -> Strata:
    pairs = zip(lost.tolist(), runs.tolist(), strict=True)
    return {place: Share(part, whole) for place, (part, whole) in enumerate(pairs)}


def tables() -> Iterator[tuple[str, float]]:
    """The table, as Markdown lines, each with how often the test within clusters errs."""
    heads = ("intraclass correlation", "runs on clusters", "Barnard's test finds a difference")
    yield f"| {' | '.join(heads)} | within clusters | correlation found |", 0.0
    yield "|" + "---|" * 5, 0.0
    for spread, correlation in product(SPREADS, CORRELATIONS):
        barnard, within, found = simulated(correlation, SPREADS[spread])
        mean = "-" if np.isnan(found) else f"{found:.2f}"
        yield f"| {correlation:g} | {spread} | {barnard:.3f} | {within:.3f} | {mean} |", within


def main() -> int:
    """Print the table; 1 where the test within clusters errs in more than 5 % (and four standard
    errors) of campaigns."""
    lines, errs = [], []
    for line, erring in tables():
        print(line, flush=True)
        lines.append(line)
        errs.append(erring)
    return int(max(errs) > ALPHA + 4 * (ALPHA * (1 - ALPHA) / CAMPAIGNS) ** 0.5)


if __name__ == "__main__":
    sys.exit(main())
