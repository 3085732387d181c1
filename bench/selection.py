"""What selection does: campaigns with a known truth in which runs are starved.

Two cells, A and B, of 50 runs each. A run loses with the share of its cell, and is starved with a
probability that depends on nothing, on the cell (the fault of B is heavier on the load generator),
or on the outcome too; or a step of it waits for a condition, and one cause both keeps the condition
from holding and loses writes. Such a run does not count, as a starved one does not: one that lost
is seen to have lost; one that did not is unknown.
Three rules are asked whether the shares differ:

    before      a starved run that lost is counted, one that did not is left out
    conclusive  no starved run is counted
    called      the same, and what the other runs can turn is doubtful: what ackloss says

Where the truth is that they do not differ, a rule that calls more than 5 % has chosen its runs by
what they lost. Coverage is of the true share of B: by the interval of the conclusive runs, and by
the bounds, from the lower end of the best case to the upper end of the worst; and by what is
printed: the bounds where the share of the conclusive runs lies outside them, else its interval.

    python -m bench.selection            250 campaigns of each kind: a table, and an exit code
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from analysis.statistics.cells import LOSS, NONE, Sample, lossy_share, sample_of
from analysis.statistics.comparisons import compared, corrected
from analysis.statistics.contrasts import ALPHA, exact_test
from analysis.statistics.intervals import Share
from harness.history import documents
from harness.history.documents import Rates, RunResult

CAMPAIGNS: Final = 250
RUNS: Final = 50
SEED: Final = 2013


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of campaign: the true shares, and how likely runs of A, and runs of B that did not and
    that did lose, are starved."""

    name: str
    share_a: float
    share_b: float
    starved_a: float = 0.0
    starved_a_lossy: float | None = None
    starved_b: float = 0.0
    starved_b_lossy: float | None = None

    @property
    def differs(self) -> bool:
        return self.share_a != self.share_b

    @property
    def chooses(self) -> bool:
        """Whether a run is starved by what it loses."""
        return self.starved_b_lossy not in (None, self.starved_b)


def mediated(name: str, *, cause: float, lost_with: float, lost_without: float = 0.0) -> Kind:
    """A cause in this share of all runs of both cells, with which the condition never holds, and
    the share of runs that lose with it and without."""
    share = cause * lost_with + (1 - cause) * lost_without
    lossy, rest = cause * lost_with / share, cause * (1 - lost_with) / (1 - share)
    return Kind(
        name=name, share_a=share, share_b=share, starved_a=rest, starved_a_lossy=lossy,
        starved_b=rest, starved_b_lossy=lossy,
    )  # fmt: skip


Counts = tuple[int, int, int, int]
"""Runs of a cell that count, lossy and lossless, and that were starved, lossy and lossless."""

KINDS: Final = (
    Kind(name="no run is starved", share_a=0.3, share_b=0.3),
    Kind(name="1 in 10, in both", share_a=0.3, share_b=0.3, starved_a=0.1, starved_b=0.1),
    Kind(name="half of B", share_a=0.3, share_b=0.3, starved_b=0.5),
    Kind(name="half of B, rare loss", share_a=0.05, share_b=0.05, starved_b=0.5),
    Kind(
        name="B: 6 in 10 without loss, none with", share_a=0.3, share_b=0.3, starved_b=0.6,
        starved_b_lossy=0.0,
    ),
    Kind(
        name="B: 6 in 10 with loss, none without", share_a=0.5, share_b=0.5, starved_b=0.0,
        starved_b_lossy=0.6,
    ),
    Kind(
        name="B loses more: 1 in 20, in both", share_a=0.1, share_b=0.5, starved_a=0.05,
        starved_b=0.05,
    ),
    Kind(name="B loses more: half of B", share_a=0.1, share_b=0.5, starved_b=0.5),
    mediated("a cause in 1 of 5 loses half, nothing else does", cause=0.2, lost_with=0.5),
    mediated("a cause in 1 of 4 loses 3 in 10", cause=0.25, lost_with=0.3, lost_without=0.02),
    mediated("a cause in 1 of 3 loses 9 in 10", cause=1 / 3, lost_with=0.9, lost_without=0.3),
)  # fmt: skip


@lru_cache(maxsize=10_000)
def sample(lossy: int, lossless: int, lossy_starved: int, starved: int) -> Sample:
    """The sample that so many runs are."""
    return sample_of(
        [
            *[_run("invalid", 100)] * lossy,
            *[_run("valid", 0)] * lossless,
            *[_run("invalid", 100, "starved")] * lossy_starved,
            *[_run("unknown", 0, "starved")] * starved,
        ]
    )


def _run(verdict: str, lost: int, *doubts: str) -> RunResult:
    counts = documents.Counts(lost=lost, acknowledged=1_000)
    return RunResult(
        verdict=verdict,
        eligible=not doubts,
        doubts=doubts,
        counter_examples=("lost",) if lost else (),
        counts=counts,
        rates=Rates.of(counts),
    )


@lru_cache(maxsize=100_000)
def asked(of_a: Counts, of_b: Counts) -> tuple[bool, bool, bool]:
    """Whether each of the three rules says that the two differ."""
    a, b = sample(*of_a), sample(*of_b)
    counted = (
        Share(each.verdicts[LOSS], each.verdicts[LOSS] + each.verdicts[NONE]) for each in (a, b)
    )
    before = _differ(*counted)
    if not _differ(a.lossy, b.lossy):
        return before, False, False  # what is not significant is not called: bounds can wait
    (test,) = corrected([compared({}, a, {}, b)])
    return before, test.is_significant, not test.doubtful


def _differ(a: Share, b: Share) -> bool:
    p = exact_test(a, b).p
    return p is not None and p <= ALPHA


def simulated(kind: Kind, campaigns: int = CAMPAIGNS, *, rules: bool = True) -> dict[str, float]:
    """How often each rule says that A and B differ (unless not asked), and how often B's share is
    covered."""
    rng = np.random.default_rng(SEED)
    found = []
    for _ in range(campaigns):
        a = _drawn(rng, kind.share_a, kind.starved_a, kind.starved_a_lossy)
        b = _drawn(rng, kind.share_b, kind.starved_b, kind.starved_b_lossy)
        share = lossy_share(sample(*b))
        low, high = share.best_case.low or 0.0, share.worst_case.high or 0.0
        inner, printed = (
            (least or 0.0) <= kind.share_b <= (1.0 if most is None else most)
            for least, most in ((share.low, share.high), (share.shown_low, share.shown_high))
        )
        asked_rules = asked(a, b) if rules else (False, False, False)
        found.append((*asked_rules, inner, low <= kind.share_b <= high, printed))
    names = ("before", "conclusive", "called", "interval", "bounds", "printed")
    return dict(zip(names, np.mean(found, axis=0).tolist(), strict=True))


def _drawn(
    rng: np.random.Generator, share: float, starved: float, starved_lossy: float | None
) -> Counts:
    lossy = int(rng.binomial(RUNS, share))
    lossy_starved = int(rng.binomial(lossy, starved if starved_lossy is None else starved_lossy))
    silent = int(rng.binomial(RUNS - lossy, starved))
    return lossy - lossy_starved, RUNS - lossy - silent, lossy_starved, silent


def tables() -> Iterator[str]:
    """The table, as Markdown lines."""
    heads = (
        *("starved runs", "true shares", "before: differ", "conclusive runs alone: differ"),
        *("reported (not doubtful)", "share of B: interval covers", "bounds cover"),
        "printed covers",
    )
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for kind in KINDS:
        reported = simulated(kind)
        numbers = " | ".join(f"{number:.3f}" for number in reported.values())
        yield f"| {kind.name} | {kind.share_a:g} and {kind.share_b:g} | {numbers} |"


def main() -> int:
    """Print the table; 1 where what is called is wrong in more than 5 % (and four standard errors)
    of campaigns without a difference."""
    lines = []
    for line in tables():
        print(line, flush=True)
        lines.append(line)
    most = ALPHA + 4 * (ALPHA * (1 - ALPHA) / CAMPAIGNS) ** 0.5
    return int(any(simulated(kind)["called"] > most for kind in KINDS if not kind.differs))


if __name__ == "__main__":
    sys.exit(main())
