"""A campaign as its page shows it: its state, its cells by number, the comparisons, the failures.

A cell's number is its place in the matrix, row by row; the figures use the same numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from analysis.campaign import CampaignCell, CampaignDocument, RunRow
from analysis.matrix import Matrix, matrix
from analysis.statistics.samples import (
    HARNESS_FAILURE,
    LOSS,
    NONE,
    UNKNOWN,
    VACUOUS,
    WRONG,
)
from analysis.wording import counted
from harness.campaigns.folder import CampaignDir
from harness.campaigns.progress import Progress
from harness.protocols import PrimaryFinding
from reports import formatting
from reports.answer import Answer
from reports.cautions import differs
from reports.compared_pairs import PairsByKind, pairs_by_kind
from reports.conclusions import Conclusions, conclusions
from reports.references import Reference

SHADES: Final = 10
_FAILURES_AT_MOST: Final = 50


@dataclass(frozen=True)
class State:
    """The progress of the campaign, in the pill of the page and its sentence."""

    icon: str
    name: str
    sentence: str


@dataclass(frozen=True)
class AxisSummary:
    """The pairs of cells that differ in one axis alone, counted."""

    axis: str
    significant: int
    doubtful: int
    pairs: int


@dataclass(frozen=True)
class Failure:
    """An error of the harness, some of the runs that failed with it, and their number."""

    sentence: str
    runs: tuple[str, ...]
    count: int


class Found(NamedTuple):
    """So many of so many writes."""

    part: int
    whole: int


@dataclass(frozen=True)
class CampaignView:
    """The contents of a campaign's page."""

    folder: CampaignDir
    document: CampaignDocument
    rows: Sequence[RunRow]
    progress: Progress
    alive: bool
    references: Sequence[Reference]
    answer: Answer | None = None

    @cached_property
    def table(self) -> Matrix:
        cells = self.document.cells
        impossible = (place for place, cell in enumerate(cells) if cell.impossible)
        keys = [{axis: str(label) for axis, label in cell.key.items()} for cell in cells]
        return matrix(self.document.axes, keys, impossible)

    def link(self, run_id: str) -> str:
        """The page of a run, or its folder where it has none."""
        run = self.folder.run(run_id)
        place = run.report if run.report.is_file() else run.path
        return place.relative_to(self.folder.path).as_posix()

    @property
    def impossible(self) -> dict[str, list[str]]:
        """The cells that never run, by the reason."""
        by_reason: dict[str, list[str]] = {}
        for cell in self.document.cells:
            if cell.impossible:
                by_reason.setdefault(cell.impossible, []).append(cell.name)
        return by_reason

    @property
    def finding(self) -> PrimaryFinding:
        """What its runs are counted by."""
        return self.document.finding

    @property
    def headline(self) -> str:
        """The headline, which says what was not real."""
        headline = self.answer.headline if self.answer else self.conclusions.headline
        return f"Simulated: {headline}" if self.document.simulated else headline

    @property
    def noun(self) -> str:
        """What is counted, as a heading."""
        noun = self.finding.noun
        return noun[0].upper() + noun[1:]

    @property
    def counts_losses(self) -> bool:
        """Whether a share of what each run acknowledged can be lost."""
        return any(row["loss_rate"] is not None for row in self.rows) or not self.rows

    @property
    def classes(self) -> dict[str, tuple[str, str]]:
        """The name and meaning of each verdict class. It does not decide whether a run counts."""
        found = self.finding.found
        return {
            LOSS: (self.finding.noun.removeprefix("a "), found[0].lower() + found[1:]),
            NONE: ("none", "valid: nothing was found"),
            WRONG: (
                "wrong",
                "invalid for another reason, such as failed writes that were found, unexpected "
                "values, duplicates",
            ),
            VACUOUS: ("vacuous", "nothing was put to the test"),
            UNKNOWN: ("unknown", "something prevented a verdict"),
            HARNESS_FAILURE: (
                "harness failure",
                "the harness failed, so the cluster was not tested",
            ),
        }

    @cached_property
    def conclusions(self) -> Conclusions:
        return conclusions(self.document)

    @property
    def cautions(self) -> list[str]:
        return list(self.conclusions.cautions)

    @cached_property
    def numbers(self) -> dict[int, int]:
        """The number of a cell by its place in the document."""
        return {place: number for number, place in enumerate(self.table.in_order, 1)}

    @property
    def cells(self) -> list[tuple[int, CampaignCell]]:
        """The cells with their numbers, in this order."""
        return [(self.numbers[at], self.document.cells[at]) for at in self.table.in_order]

    @property
    def unacknowledged(self) -> list[tuple[int, CampaignCell, Found]]:
        """The cells with how many writes of their conclusive runs were found without an
        acknowledgement; none where no such write was found."""
        found: dict[str, Found] = {}
        for row in self.rows:
            if row["conclusive"]:
                part, whole = found.get(row["cell"], Found(0, 0))
                others = (row["attempted"] or 0) - (row["acknowledged"] or 0)
                found[row["cell"]] = Found(
                    part + (row["unacknowledged_found"] or 0), whole + others
                )
        if not any(each.part for each in found.values()):
            return []
        return [(n, cell, found.get(cell.name, Found(0, 0))) for n, cell in self.cells]

    @property
    def measures(self) -> dict[str, tuple[str, str]]:
        """What checks count besides, by name: the head of the column, and what it is a share of;
        only what any run has."""
        return {
            name: (each.head, each.of)
            for cell in self.document.cells
            for name, each in cell.measures.items()
        }

    @property
    def state(self) -> State:
        runs, planned = self.document.runs, self.document.planned
        unit = self.document.unit
        shared = f", of {counted(self.document.executions, 'shared run')}" * (unit != "run")
        of = f"{formatting.number(runs)} of {formatting.number(planned)} planned {unit}s{shared}"
        why = self.document.ended
        if self.alive:
            return State("…", "running", f"{of} so far")
        if runs >= planned:
            return State(
                "✓", "finished", f"all {formatting.number(planned)} planned {unit}s{shared}"
            )
        if why is None and not self.progress.sessions:
            return State("·", "not started", of)
        if why in (None, "interrupted"):
            end = "interrupted" if why else "broken off"
            return State("!", end, f"{of}; `ackloss campaign resume` runs the rest")
        return State("!", "stopped early", f"{of}: {why}")

    @property
    def any_conclusive(self) -> bool:
        return any(cell.conclusive for cell in self.document.cells)

    @property
    def resemblance(self) -> str:
        """The similarity of runs that share a cluster, or a worker, in whether they are lossy."""
        parts = []
        for group, numbers in self.document.resemblance.items():
            lossy = numbers["lossy"]
            value = lossy.why
            if lossy.correlation is not None:
                value = f"{round(lossy.correlation, 2) + 0.0:.2f} (p = {lossy.p:.2g})"
            count = formatting.number(lossy.groups)
            parts.append(f"by {group} ({count} {group}{'' if lossy.groups == 1 else 's'}): {value}")
        return "; ".join(parts)

    @property
    def broken(self) -> int:
        """Runs that broke off; each has been repeated, or will be."""
        return len(self.progress.in_state("broken"))

    @staticmethod
    def shade(cell: CampaignCell) -> int | None:
        """The darkness of the cell: 0 only if no run is lossy, SHADES only if every run of the
        shown share is; None if no run is conclusive."""
        share = cell.lossy_share.shown
        if share is None or share == 0:
            return None if share is None else 0
        if share == 1:
            return SHADES
        return min(max(round(share * SHADES), 1), SHADES - 1)

    @property
    def failures(self) -> list[Failure]:
        """The errors of the harness, the most frequent first."""
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
    def compared(self) -> PairsByKind:
        """The pairs of cells that are listed."""
        return pairs_by_kind(self.document.comparisons, self.finding)

    @property
    def by_axis(self) -> Iterator[AxisSummary]:
        """The comparisons counted by axis."""
        pairs, significant, doubtful = Counter[str](), Counter[str](), Counter[str]()
        for each in self.document.comparisons:
            axis = str(each.axis)
            pairs[axis] += 1
            significant[axis] += differs(each)
            doubtful[axis] += each.doubtful
        for axis in self.document.axes:
            if pairs[axis]:
                yield AxisSummary(axis, significant[axis], doubtful[axis], pairs[axis])
