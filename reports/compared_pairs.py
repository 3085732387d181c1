"""The pairs of cells that a campaign's page lists, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from analysis.statistics.clusters import WITHIN
from analysis.statistics.comparisons import Comparison
from analysis.statistics.contrasts import BARNARD, FISHER, POWER
from analysis.statistics.pairs import MCNEMAR
from harness.percent import points
from harness.protocols import PrimaryFinding
from reports import formatting
from reports.cautions import differs

_AT_MOST: Final = 200
_DOUBTFUL_AT_MOST: Final = 100

_TESTS: Final = {
    BARNARD: "Barnard's exact test",
    FISHER: "Fisher's exact test",
    WITHIN: "exact test within clusters",
    MCNEMAR: "paired, McNemar's exact test",
}


@dataclass(frozen=True)
class ComparedPair:
    """Two cells that differ in one axis. `significant`: they differ beyond chance and doubt."""

    axis: str
    a: str
    b: str
    others: str
    difference: str
    interval: str
    p: str
    test: str
    significant: bool
    verdict: str


@dataclass(frozen=True)
class Listed:
    """The pairs of one kind that are listed, the largest difference first, and how many exist."""

    pairs: list[ComparedPair]
    count: int


class PairsByKind(NamedTuple):
    """The pairs that differ significantly, those whose difference is doubtful, and the others."""

    significant: Listed
    doubtful: Listed
    others: Listed

    @property
    def listed(self) -> int:
        """How many are listed."""
        return sum(len(kind.pairs) for kind in self)


def pairs_by_kind(comparisons: Iterable[Comparison], finding: PrimaryFinding) -> PairsByKind:
    """The pairs to list. Significant and doubtful ones have a limit each, so that neither hides the
    other; the others have what is left."""
    significant: list[Comparison] = []
    doubtful: list[Comparison] = []
    others: list[Comparison] = []
    for each in comparisons:
        kind = significant if differs(each) else doubtful if each.doubtful else others
        kind.append(each)
    room = max(0, _AT_MOST - len(significant) - len(doubtful))
    limited = ((significant, _AT_MOST), (doubtful, _DOUBTFUL_AT_MOST), (others, room))
    return PairsByKind(*(_listed(pairs, most, finding) for pairs, most in limited))


def _listed(pairs: Sequence[Comparison], most: int, finding: PrimaryFinding) -> Listed:
    ordered = sorted(pairs, key=lambda each: -abs(each.difference or 0.0))
    return Listed([_pair(each, finding) for each in ordered[:most]], len(pairs))


def _pair(each: Comparison, finding: PrimaryFinding) -> ComparedPair:
    axis = str(each.axis)
    others = {key: label for key, label in each.a.items() if key != axis}
    interval = ""
    if each.shown_low is not None and each.shown_high is not None:
        interval = f"{points(each.shown_low)} to {points(each.shown_high)}"
        interval += " over all runs" if each.chosen_by_outcome else ""
    return ComparedPair(
        axis=axis,
        a=str(each.a[axis]),
        b=str(each.b[axis]),
        others=", ".join(f"{key}={label}" for key, label in others.items()),
        difference="—" if each.difference is None else points(each.difference),
        interval=interval,
        p="—" if each.p_adjusted is None else formatting.p_value(each.p_adjusted),
        test=_TESTS.get(each.test or "", formatting.NOTHING),
        significant=differs(each),
        verdict=_in_words(each, axis, finding),
    )


def _in_words(each: Comparison, axis: str, finding: PrimaryFinding) -> str:
    if each.difference is None:
        return f"not known: {each.why}"
    if differs(each):
        worse = each.b if each.difference > 0 else each.a
        return f"{axis}={worse[axis]} {finding.does} in more runs"
    if each.doubtful:
        ends = (each.bounds.least or 0.0, each.bounds.greatest or 0.0)
        least, greatest = map(points, ends)
        return f"doubtful: over all runs, anything from {least} to {greatest} is possible"
    if each.runs_needed is None:
        return "no difference shown: the shares are equal"
    needed = formatting.number(each.runs_needed)
    runs = "shared runs" if each.pairs.complete else "runs of each"
    return (
        f"no difference shown; {needed} {runs} would show it if this difference is true "
        f"({POWER * 100:.0f} % power, before the correction)"
    )
