"""A campaign as its page shows it: its state, its cells by number, what is compared, what failed.

A cell's number is its place in the matrix, row by row; figures use the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from analysis.matrix import Matrix, matrix
from analysis.statistics.samples import HARNESS_FAILURE
from harness.campaigns.folder import CampaignDir
from harness.campaigns.progress import Progress
from reports import words
from reports.conclusions import Conclusions, conclusions, counting, differs

CLASSES: Final = {
    "loss": ("loss", "acknowledged writes are lost"),
    "none": ("none", "judged valid: nothing is lost"),
    "wrong": (
        "wrong",
        "invalid for something else: failed writes that were found, unexpected values, duplicates",
    ),
    "vacuous": ("vacuous", "nothing was put to the test"),
    "unknown": ("unknown", "something kept it from being judged"),
    "harness_failure": ("harness failure", "the harness broke, so the cluster was not tried"),
}
"""By verdict class its name and its meaning. Whether a run counts is another question."""

SHADES: Final = 10
_COMPARED_AT_MOST: Final = 300
_FAILURES_AT_MOST: Final = 50


@dataclass(frozen=True)
class State:
    """How far the campaign is: the pill of the page and its sentence."""

    icon: str
    name: str
    sentence: str


@dataclass(frozen=True)
class Compared:
    """Two cells that differ in one axis, in words. `told` is whether they differ beyond chance."""

    axis: str
    a: str
    b: str
    others: str
    difference: str
    interval: str
    p: str
    told: bool
    doubtful: bool
    verdict: str
    size: float


@dataclass(frozen=True)
class Failure:
    """A sentence of the harness, the runs that failed with it, and how many they are."""

    sentence: str
    runs: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class CampaignStory:
    """Everything that a page says about one campaign."""

    folder: CampaignDir
    document: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    progress: Progress
    alive: bool
    model: bool
    references: Sequence[Mapping[str, Any]]

    @cached_property
    def table(self) -> Matrix:
        cells = self.document["cells"]
        impossible = (place for place, cell in enumerate(cells) if cell["impossible"])
        return matrix(self.document["axes"], [cell["key"] for cell in cells], impossible)

    @property
    def impossible(self) -> dict[str, list[str]]:
        """The cells that are never played, by the reason why."""
        by_reason: dict[str, list[str]] = {}
        for cell in self.document["cells"]:
            if cell["impossible"]:
                by_reason.setdefault(cell["impossible"], []).append(cell["name"])
        return by_reason

    @cached_property
    def told(self) -> Conclusions:
        return conclusions(self.document)

    @property
    def cautions(self) -> list[str]:
        model = "This is a model: it ran in memory and in virtual time; no real system was tested."
        return [*([model] if self.model else []), *self.told.cautions]

    @cached_property
    def numbers(self) -> dict[int, int]:
        """The number of a cell by its place in the document."""
        return {place: number for number, place in enumerate(self.table.in_order, 1)}

    @property
    def cells(self) -> list[tuple[int, Mapping[str, Any]]]:
        """The cells with their numbers, in the order of these."""
        return [(self.numbers[at], self.document["cells"][at]) for at in self.table.in_order]

    @property
    def state(self) -> State:
        runs, planned = self.document["runs"], self.document["planned"]
        of = f"{words.number(runs)} of {words.number(planned)} planned runs"
        why = self.document["ended"]
        if self.alive:
            return State("…", "being played", f"{of} so far")
        if runs >= planned:
            return State("✓", "finished", f"all {words.number(planned)} planned runs")
        if why is None and not self.progress.sessions:
            return State("·", "not begun", of)
        if why in (None, "interrupted"):
            end = "interrupted" if why else "broken off"
            return State("!", end, f"{of}; the rest can be resumed")
        return State("!", "stopped early", f"{of}: {why}")

    @property
    def any_conclusive(self) -> bool:
        return any(map(counting, self.document["cells"]))

    @property
    def resemblance(self) -> str:
        """Of runs that shared a cluster or a worker, how alike they are in whether they lose."""
        told = []
        for group, each in self.document["resemblance"].items():
            lossy = each["lossy"]
            said = lossy["why"]
            if lossy["correlation"] is not None:
                said = f"{lossy['correlation']:.2f} (p = {lossy['p']:.2g})"
            told.append(f"of one {group} ({words.number(lossy['groups'])} in all): {said}")
        return "; ".join(told)

    @property
    def broken(self) -> int:
        """Runs that broke off; each was played again or will be."""
        return len(self.progress.in_state("broken"))

    @staticmethod
    def shade(cell: Mapping[str, Any]) -> int | None:
        """How dark the cell is: 0 only when no run at all was seen to lose, SHADES only when all
        that count did; null: none counts."""
        share: float | None = cell["lossy_share"]["estimate"]
        if share is None:
            return None
        if share == 0:
            return int(bool(cell["inconclusive_lossy"]))
        if share == 1:
            return SHADES
        return min(max(round(share * SHADES), 1), SHADES - 1)

    @property
    def failures(self) -> list[Failure]:
        """What the harness said of its failures, the most frequent first."""
        by_sentence: dict[str, list[str]] = {}
        for row in self.rows:
            if row["class"] == HARNESS_FAILURE:
                by_sentence.setdefault(str(row["reason"]), []).append(row["run_id"])
        ordered = sorted(by_sentence.items(), key=lambda each: -len(each[1]))
        return [
            Failure(sentence, tuple(runs[:5]), len(runs))
            for sentence, runs in ordered[:_FAILURES_AT_MOST]
        ]

    @cached_property
    def compared(self) -> list[Compared]:
        """What differs beyond chance first, the largest difference first."""
        every = (_compared(each) for each in self.document["comparisons"])
        ordered = sorted(every, key=lambda each: (not each.told, not each.doubtful, -each.size))
        return ordered[:_COMPARED_AT_MOST]

    @property
    def by_axis(self) -> Iterator[tuple[str, int, int, int]]:
        """Of each axis how many pairs differ beyond chance and doubt, how many are doubtful,
        and how many differ in it alone."""
        pairs, told, doubtful = Counter[str](), Counter[str](), Counter[str]()
        for each in self.document["comparisons"]:
            pairs[each["axis"]] += 1
            told[each["axis"]] += differs(each)
            doubtful[each["axis"]] += each["doubtful"]
        for axis in self.document["axes"]:
            if pairs[axis]:
                yield axis, told[axis], doubtful[axis], pairs[axis]


def _compared(each: Mapping[str, Any]) -> Compared:
    axis, apart = each["axis"], each["difference"]
    others = {key: label for key, label in each["a"].items() if key != axis}
    told = differs(each)
    known = each["low"] is not None
    return Compared(
        axis=axis,
        a=each["a"][axis],
        b=each["b"][axis],
        others=", ".join(f"{key}={label}" for key, label in others.items()),
        difference="—" if apart is None else words.points(apart),
        interval=f"{words.points(each['low'])} to {words.points(each['high'])}" if known else "",
        p="—" if each["p_adjusted"] is None else words.chance(each["p_adjusted"]),
        told=told,
        doubtful=each["doubtful"],
        verdict=_in_words(each, told),
        size=abs(apart or 0.0),
    )


def _in_words(each: Mapping[str, Any], told: bool) -> str:
    apart, axis = each["difference"], each["axis"]
    if apart is None:
        return f"not known: {each['why']}"
    if told:
        worse = each["b"] if apart > 0 else each["a"]
        return f"{axis}={worse[axis]} loses in more runs"
    if each["doubtful"]:
        least, greatest = (words.points(each["bounds"][end]) for end in ("least", "greatest"))
        return f"doubtful: with the runs that do not count, anything from {least} to {greatest}"
    if each["runs_needed"] is None:
        return "not told apart: the same share was seen"
    needed = words.number(each["runs_needed"])
    return f"not told apart; were this the true difference, {needed} runs of each would show it"
