"""`report.html` of a campaign, and the files for mail and for other programs.

campaign.json  every cell with its intervals, and the cells compared
report.html    the page; one file, opens from disk, needs no network
figures/       matrix, trade-off and distributions, as PNG and SVG
tables/        cells, runs and comparisons, as CSV and Parquet
"""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from analysis import drawing
from analysis.campaign import (
    CampaignCell,
    CampaignDocument,
    RunRow,
    clusters_of,
    results_of,
    rows_of,
    summarised,
    unread_in_words,
)
from analysis.campaign_figures import drawn
from analysis.statistics.cells import HARNESS_FAILURE, LOSS, NONE, UNKNOWN, VACUOUS, WRONG
from analysis.statistics.comparisons import Comparison
from analysis.statistics.contrasts import ALPHA, BARNARD, FISHER, MCNEMAR, POWER, WITHIN
from analysis.tables import Matrix, matrix, write_tables
from analysis.wording import counted
from harness.campaigns.folder import CampaignDir
from harness.campaigns.journal import Progress
from harness.errors import AcklossError, disk_errors
from harness.history.run_folder import RunDir, write_atomically
from harness.protocols import PrimaryFinding
from harness.protocols.checkers import points
from reports import formatting, html
from reports.answer import Answer, answer
from reports.conclusions import (
    Conclusions,
    closing,
    conclusions,
    differs,
    has_many_others,
    interval,
)
from reports.page import write_report
from reports.references import LABELS, Reference, cell_rows, figures_of, references
from reports.run_view import malformed_is_history_error

_AT_MOST: Final = 200
_DOUBTFUL_AT_MOST: Final = 100

_TESTS: Final = {
    BARNARD: "Barnard's exact test",
    FISHER: "Fisher's exact test",
    WITHIN: "exact test within clusters",
    MCNEMAR: "paired, McNemar's exact test",
}


@dataclass(frozen=True)
class Listed:
    """The pairs of one kind that are listed, the largest difference first, and how many exist."""

    pairs: list[Comparison]
    count: int


def pairs_by_kind(comparisons: Iterable[Comparison]) -> list[Listed]:
    """The pairs that differ significantly, those whose difference is doubtful, and the others. The
    first two have a limit each, so that neither hides the other; the others have what is left."""
    significant: list[Comparison] = []
    doubtful: list[Comparison] = []
    others: list[Comparison] = []
    for each in comparisons:
        kind = significant if differs(each) else doubtful if each.doubtful else others
        kind.append(each)
    room = max(0, _AT_MOST - len(significant) - len(doubtful))
    limited = ((significant, _AT_MOST), (doubtful, _DOUBTFUL_AT_MOST), (others, room))
    found = []
    for pairs, most in limited:
        pairs.sort(key=lambda each: -abs(each.difference or 0.0))
        found.append(Listed(pairs[:most], len(pairs)))
    return found


def _interval(each: Comparison) -> str | None:
    """That of the difference of two cells."""
    if each.shown_low is None or each.shown_high is None:
        return None
    over = " over all runs" if each.chosen_by_outcome else ""
    return f"{points(each.shown_low)} to {points(each.shown_high)}{over}"


def _in_words(each: Comparison, finding: PrimaryFinding) -> str:
    """What the test of two cells shows."""
    if each.difference is None:
        return f"not known: {each.why}"
    if differs(each):
        worse = each.b if each.difference > 0 else each.a
        return f"{each.axis}={worse[str(each.axis)]} has {finding.noun} in more runs"
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


SHADES: Final = 10
_FAILURES_AT_MOST: Final = 50


class State(NamedTuple):
    """The progress of the campaign, in the pill of the page and its sentence."""

    icon: str
    name: str
    sentence: str


@dataclass(frozen=True)
class CampaignView:
    """The contents of a campaign's page. A cell's number is its place in the matrix, row by row;
    the figures use the same numbers."""

    folder: CampaignDir
    document: CampaignDocument
    rows: Sequence[RunRow]
    progress: Progress
    alive: bool
    references: Sequence[Reference]
    answer: Answer | None = None
    causes: Mapping[str, str] = field(default_factory=dict)
    """A sentence for each cause of a loss."""

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
        return self.document.finding

    @property
    def headline(self) -> str:
        """The headline, which says what was not real."""
        headline = self.answer.headline if self.answer else self.conclusions.headline
        return f"Simulated: {headline}" if self.document.simulated else headline

    @property
    def counts_losses(self) -> bool:
        """Whether a share of what each run acknowledged can be lost."""
        return any(row["loss_rate"] is not None for row in self.rows) or not self.rows

    @property
    def classes(self) -> dict[str, tuple[str, str]]:
        """The name and meaning of each verdict class. It does not decide whether a run counts."""
        return {
            LOSS: (self.finding.noun, f"the run has {self.finding.noun}"),
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

    @cached_property
    def numbers(self) -> dict[int, int]:
        """The number of a cell by its place in the document."""
        return {place: number for number, place in enumerate(self.table.in_order, 1)}

    @property
    def cells(self) -> list[tuple[int, CampaignCell]]:
        """The cells with their numbers, in this order."""
        return [(self.numbers[at], self.document.cells[at]) for at in self.table.in_order]

    @property
    def unacknowledged(self) -> list[tuple[int, CampaignCell, int, int]]:
        """The cells with how many writes of their conclusive runs were found without an
        acknowledgement, of how many; none where no such write was found."""
        found, others = Counter[str](), Counter[str]()
        for row in self.rows:
            if row["conclusive"]:
                found[row["cell"]] += row["unacknowledged_found"] or 0
                others[row["cell"]] += (row["attempted"] or 0) - (row["acknowledged"] or 0)
        if not any(found.values()):
            return []
        return [(n, cell, found[cell.name], others[cell.name]) for n, cell in self.cells]

    @property
    def why(self) -> list[tuple[int, CampaignCell]]:
        """The cells that lost writes of which is known why, or that nothing explains it."""
        return [(number, cell) for number, cell in self.cells if cell.why_known]

    @property
    def silent(self) -> tuple[list[tuple[int, CampaignCell]], list[str]]:
        """The cells with runs that lost writes and had alarm rules evaluated, and these rules."""
        cells = [(number, cell) for number, cell in self.cells if cell.silent_alarms]
        return cells, list(dict.fromkeys(rule for _, cell in cells for rule in cell.silent_alarms))

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
    def failures(self) -> list[tuple[str, list[str]]]:
        """The errors of the harness, the most frequent first, with the runs that failed so."""
        by_sentence: dict[str, list[str]] = {}
        for row in self.rows:
            if row["class"] == HARNESS_FAILURE:
                by_sentence.setdefault(str(row["reason"]), []).append(row["run_id"])
        return sorted(by_sentence.items(), key=lambda each: -len(each[1]))[:_FAILURES_AT_MOST]

    @cached_property
    def compared(self) -> list[Listed]:
        return pairs_by_kind(self.document.comparisons)

    @property
    def by_axis(self) -> Iterator[tuple[str, int, int, int]]:
        """Each axis, how many of its pairs differ significantly or doubtfully, and all of them."""
        pairs, significant, doubtful = Counter[str](), Counter[str](), Counter[str]()
        for each in self.document.comparisons:
            axis = str(each.axis)
            pairs[axis] += 1
            significant[axis] += differs(each)
            doubtful[axis] += each.doubtful
        for axis in self.document.axes:
            if pairs[axis]:
                yield axis, significant[axis], doubtful[axis], pairs[axis]


_LISTED: Final = 1_000
_EXPLAINED_BY_COUNTS: Final = ("loss", "none")
_KNOWN: Final = ("loss", "none", "wrong")
"""The losses of other runs are not known: a 0 would read as "nothing was lost"."""


@dataclass(frozen=True)
class Listing:
    """The runs that the table lists, in the order of the runs. `of_each`: at most so many of each
    cell, first those in which something was found or that do not count; `None`: all runs."""

    rows: tuple[RunRow, ...]
    of_each: int | None
    left_out: int


def listing(view: CampaignView) -> Listing:
    """All runs, or as many of each cell as fit."""
    numbers = Counter(row["cell"] for row in view.rows)
    if len(view.rows) <= _LISTED:
        return Listing(tuple(view.rows), None, 0)
    most = _most_of_each(numbers)
    left, chosen = Counter(dict.fromkeys(numbers, most)), set()
    plain = [row["class"] == NONE and bool(row["conclusive"]) for row in view.rows]
    for place, row in sorted(enumerate(view.rows), key=lambda each: plain[each[0]]):
        if left[row["cell"]]:
            left[row["cell"]] -= 1
            chosen.add(place)
    rows = tuple(row for place, row in enumerate(view.rows) if place in chosen)
    return Listing(rows, most, len(view.rows) - len(rows))


def _most_of_each(numbers: Mapping[str, int]) -> int:
    """The most runs that each cell can list, if cells with fewer leave their places to others."""
    most = 1
    while sum(min(number, most + 1) for number in numbers.values()) <= _LISTED:
        most += 1
    return most


def run_table(view: CampaignView, listed: Listing) -> Mapping[str, Any]:
    """The data of the table: `runs` has a list for each column, in the order of the runs; `all` is
    the number of runs, listed or not. Names are listed once; everything else refers to them by
    index. The column `why` gives the reason for a run's class if the counts do not show it."""
    names = [cell.name for _, cell in view.cells]
    cell_of = {name: at for at, name in enumerate(names)}
    class_of = {name: at for at, name in enumerate(view.classes)}
    whys: dict[str, int] = {}
    rows = [row for row in listed.rows if row["cell"] in cell_of]
    reasons = [_why(row) for row in rows]
    return {
        "cells": names,
        "classes": [name for name, _ in view.classes.values()],
        "kinds": list(view.classes),
        "countsLosses": view.counts_losses,
        "unit": view.document.unit,
        "all": len(view.rows),
        "runs": {
            "id": [row["run_id"] for row in rows],
            "page": [_page(view, row["run_id"]) for row in rows],
            "cell": [cell_of[row["cell"]] for row in rows],
            "class": [class_of[row["class"]] for row in rows],
            "counts": [int(row["conclusive"]) for row in rows],
            "lost": [row["lost"] if row["class"] in _KNOWN else None for row in rows],
            "acknowledged": [row["acknowledged"] for row in rows],
            "gap_s": [row["longest_gap_s"] for row in rows],
            "refused": [row["refused"] for row in rows],
            "why": [whys.setdefault(reason, len(whys)) for reason in reasons],
        },
        "whys": list(whys),
    }


def _why(row: RunRow) -> str:
    """The reason for a run's class, or for not counting it."""
    if row["class"] not in _EXPLAINED_BY_COUNTS:
        return str(row["reason"])
    if row["conclusive"]:
        return ""
    proven = f"{row['faults_proven']} of {row['faults']} faults proven"
    return f"does not count: {row['doubts'] or proven}"


def _page(view: CampaignView, run_id: str) -> int:
    """The target of a run's link: 2 its page, 1 its folder, 0 none."""
    run = view.folder.run(run_id)
    return 2 if run.report.is_file() else int(run.path.is_dir())


_PAGES_OF_TASK: Final = 4


def write_run_pages(folder: CampaignDir, only: Collection[str] | None = None) -> int:
    """Write the page of every run that still has its history, or only of these, on all cores;
    return their number."""
    judged_runs = [
        run
        for run in folder.runs_with_history()
        if run.result.is_file() and (only is None or run.run_id in only)
    ]
    if len(judged_runs) <= _PAGES_OF_TASK:  # processes would import for longer
        return sum(map(_write_page, judged_runs))
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        return sum(pool.map(_write_page, judged_runs, chunksize=_PAGES_OF_TASK))


def _write_page(run: RunDir) -> bool:
    """Whether the page could be written; a run that cannot be read does not stop the others."""
    try:
        write_report(run)
    except AcklossError:
        return False
    return True


def write_campaign(folder: CampaignDir, note: Callable[[str], object] = lambda _: None) -> Path:
    """Write a campaign's document, page, figures and tables; return the page's path. This works at
    any time: while the campaign runs, after a crash, after its end. `note` gets a sentence for each
    run whose result cannot be read.

    Raises HistoryError when the folder's files cannot be read, EnvironmentFailure when the page
    cannot be written.
    """
    with malformed_is_history_error(folder):
        view = _view(folder)
        for sentence in unread_in_words(view.rows):
            note(sentence)
        stills = _write_figures(view)
        listed = listing(view)
        page = html.render(
            "campaign.html.j2",
            data=run_table(view, listed),
            listed=listed,
            script="campaign.js",
            view=view,
            simulated=view.document.simulated,
            stills=stills,
            classes=view.classes,
            finding=view.finding,
            alpha=ALPHA,
            interval=interval,
            interval_of=_interval,
            in_words=_in_words,
            differs=differs,
            points=points,
            p_value=formatting.p_value,
            tests=_TESTS,
            many_others=has_many_others,
            labels=LABELS,
            references=[(one, figures_of(one)) for one in view.references],
            own=cell_rows([cell.name for cell in view.document.cells], view.rows),
        )
        _make(folder.tables)
        write_tables(
            {
                "cells": [asdict(cell) for cell in view.document.cells],
                "runs": view.rows,
                "comparisons": [asdict(each) for each in view.document.comparisons],
            },
            folder.tables,
        )
    document = {**view.document.json(), "answer": view.answer.json() if view.answer else None}
    write_atomically(folder.result, orjson.dumps(document, option=orjson.OPT_INDENT_2))
    write_atomically(folder.report, page)
    return folder.report


def _view(folder: CampaignDir) -> CampaignView:
    campaign, progress = folder.campaign(), folder.progress()
    results = list(results_of(folder, progress))
    document = summarised(folder, progress, results)
    rows = rows_of(results, clusters_of(folder, (run for run, _ in results)))
    return CampaignView(
        folder=folder,
        document=replace(document, closing=closing(document, folder, campaign, progress)),
        rows=rows,
        progress=progress,
        alive=folder.alive,
        references=references(*(cell.resolved.plan.document() for cell in campaign.cells)),
        answer=answer(campaign, results, rows),
        causes=dict(
            pair for cell in campaign.cells for pair in cell.resolved.target.causes.items()
        ),
    )


def _write_figures(view: CampaignView) -> Mapping[str, Mapping[str, str]]:
    """Write all figures; return each as a data URI. There is one picture for light and dark paper,
    which the page inverts: a second one of many runs takes a fifth of the page."""
    _make(view.folder.figures)
    stills: dict[str, dict[str, str]] = {}
    for name, figure in drawn(view.document, view.table, view.rows).items():
        stills[name] = {"both": html.picture(drawing.svg(figure, outlines=False))}
        write_atomically(view.folder.figures / f"{name}.svg", drawing.svg(figure))
        write_atomically(view.folder.figures / f"{name}.png", drawing.png(figure))
    return stills


def _make(folder: Path) -> None:
    with disk_errors("cannot make the folder", folder):
        folder.mkdir(exist_ok=True)
