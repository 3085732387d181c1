"""A campaign's document: every cell with its intervals, and the cells compared.

The results of the runs are read from their folders, so a campaign can be summarised at any time:
while it runs, after a crash, after its runs were pruned.

Whether the runs of one cluster, or of one worker, are alike, over a campaign.

The cells of a shared run are one observation: they are alike because they shared the run, which
says nothing of its cluster or worker. A run's value is the mean over its conclusive cells of what
each deviates from its cell; so it is comparable with runs of the same cells of which others are
conclusive, and runs are exchanged with all those that share the same cells, however they ended.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, TypedDict

import numpy as np

from analysis.primary import of_campaign, why_lost
from analysis.statistics.cells import (
    LOSS,
    UNKNOWN,
    WRONG,
    CellStatistics,
    FailedRun,
    MedianAndMax,
    Outcome,
    cell_of,
    counted,
    is_conclusive,
    median_and_max,
    verdict_class,
)
from analysis.statistics.comparisons import Comparison, comparisons_of
from analysis.statistics.contrasts import Resemblance, resemblance
from analysis.statistics.intervals import Floats
from analysis.wording import unit
from harness.campaigns.folder import CampaignDir
from harness.campaigns.journal import Progress, Run
from harness.campaigns.plan import Campaign, Cell, Tally
from harness.errors import HistoryError
from harness.history.documents import (
    Availability,
    ForeignDocument,
    LostSpan,
    Rates,
    RunResult,
    StoredRun,
    read_result,
    read_run,
)
from harness.history.run_folder import RunDir
from harness.protocols import Number, PrimaryFinding

Conclusive = Sequence[tuple[Run, RunResult]]
"""The conclusive results of one run."""


def resemblances(
    results: Iterable[tuple[Run, Outcome]], group_of: Callable[[Run], Hashable | None]
) -> dict[str, Resemblance]:
    """The similarity of conclusive runs of one group: whether they lose (`lossy`), and how much
    (`loss_rate`)."""
    cells: dict[str, list[str]] = {}
    conclusive: dict[str, list[tuple[Run, RunResult]]] = {}
    for run, outcome in results:
        name = run.execution
        cells.setdefault(name, []).append(run.cell)
        if is_conclusive(outcome) and group_of(run) is not None:
            conclusive.setdefault(name, []).append((run, outcome))
    runs = list(conclusive.values())
    shared = [tuple(sorted(cells[name])) for name in conclusive]
    groups = [group_of(each[0][0]) for each in runs]
    return {
        name: resemblance(shared, groups, _deviations(runs, number))
        for name, number in {
            "lossy": lambda result: float(verdict_class(result) == LOSS),
            "loss_rate": lambda result: result.rates.loss or 0.0,
        }.items()
    }


def _deviations(runs: Sequence[Conclusive], number: Callable[[RunResult], float]) -> Floats:
    """For each run the mean of what its results deviate from the mean of their cell."""
    by_cell: dict[str, list[float]] = {}
    for each in runs:
        for run, result in each:
            by_cell.setdefault(run.cell, []).append(number(result))
    means = {cell: np.mean(values) for cell, values in by_cell.items()}
    rests = [[number(result) - means[run.cell] for run, result in each] for each in runs]
    return np.array([np.mean(rest) for rest in rests], np.float64)


SCHEMA_VERSION: Final = 1
Finished = tuple[Run, Outcome]
"""A finished run and its outcome."""

_NO_SPAN: Final = LostSpan(client=None, lost=0)


@dataclass(frozen=True, kw_only=True)
class PlannedCell:
    """A cell as the campaign plans it; `impossible` states why it cannot run."""

    name: str
    planned: int
    impossible: str | None = None


@dataclass(frozen=True, kw_only=True)
class CampaignCell(CellStatistics, PlannedCell):
    """An entry of `cells[]`. `leader_not_met`: its results whose leader is known, and was met by no
    fault; only of cells that shared a run. `attempted_per_s`: attempted writes of its conclusive
    runs, for each second of load that its plan has."""

    leader_not_met: int
    attempted_per_s: MedianAndMax


@dataclass(frozen=True, kw_only=True)
class CampaignDocument:
    """campaign.json. `runs` are results: those of cells that shared a run are one each, and
    `executions` counts that run once. `finding` says what makes a run lossy, `resemblance` is by
    group (cluster, worker) and by number (lossy, loss_rate), `events` are the journal's messages to
    the reader.
    `repetitions_raised`: those to which a resumed session raised the file's. `closing` is the
    sentence that the campaign ends with (`reports.conclusions.closing`).
    `versions` are those of each component over all runs, `mixed_versions` those of cells whose own
    runs differ in them."""

    id: str
    name: str
    about: str
    plan_hash: str
    started: str | None
    ended: str | None
    axes: Mapping[str, Sequence[str]]
    planned: int
    runs: int
    executions: int
    versions: Mapping[str, Sequence[str]]
    mixed_versions: Mapping[str, Sequence[str]]
    simulated: bool = False
    finding: PrimaryFinding
    events: Sequence[str] = ()
    cells: Sequence[CampaignCell]
    comparisons: Sequence[Comparison]
    resemblance: Mapping[str, Mapping[str, Resemblance]]
    repetitions_raised: int | None = None
    closing: str = ""

    @property
    def unit(self) -> str:
        """What is counted: `run`, or `result` where cells share runs."""
        return unit(self.runs, self.executions)

    def json(self) -> Mapping[str, Any]:
        """The JSON document. `said` is the earlier name of `events`."""
        return {"schema": SCHEMA_VERSION, **asdict(self), "said": list(self.events)}


class MeasureOfRun(TypedDict):
    """A measure of a run's first check: the count, the one that it is a share of, the share."""

    count: Number
    whole: Number
    rate: float | None


RunRow = TypedDict(
    "RunRow",
    {
        "run_id": str,
        "cell": str,
        "repetition": int,
        "class": str,
        "conclusive": bool,
        "verdict": str | None,
        "reason": str | None,
        "seed": int | None,
        "attempted": int | None,
        "acknowledged": int | None,
        "survivors": int | None,
        "lost": int | None,
        "lost_from_s": float | None,
        "lost_until_s": float | None,
        "unacknowledged_found": int | None,
        "duplicates": int | None,
        "loss_rate": float | None,
        "unacknowledged_success_rate": float | None,
        "refused": int | None,
        "longest_gap_s": float | None,
        "recovery_s": float | None,
        "faults_proven": int,
        "faults": int,
        "leader_met": bool | None,
        "cautions": str,
        "doubts": str,
        "seconds": float | None,
        "worker": int,
        "cluster": str | None,
        "shared": str | None,
        "causes": Mapping[str, int],
        "unexplained": int | None,
        "not_examined": int,
        "survivable": int | None,
        "survivable_rate": float | None,
        "alarmed": int | None,
        "measures": Mapping[str, MeasureOfRun],
    },
)
"""One row of the table `runs`."""


def campaign_document(folder: CampaignDir) -> CampaignDocument:
    """The document of a campaign. Raises HistoryError when the folder cannot be read."""
    progress = folder.progress()
    return summarised(folder, progress, list(results_of(folder, progress)))


def summarised(
    folder: CampaignDir, progress: Progress, results: Sequence[Finished]
) -> CampaignDocument:
    """The document of a campaign whose results are read already. Raises HistoryError where
    simulated results are among real ones."""
    campaign = folder.campaign()
    refuse_mixed(folder, campaign, results)
    by_cell = by_cell_of(campaign, results)
    clusters = clusters_of(folder, (run for run, _ in results))
    # A cell that this ackloss calls impossible may have run with an earlier one.
    impossible = {cell.name: cell.impossible for cell in campaign.cells if not by_cell[cell.name]}
    possible = [cell for cell in campaign.cells if not impossible.get(cell.name)]
    versions = _versions_by_cell(folder, (run for run, _ in results))
    return CampaignDocument(
        id=folder.path.resolve().name,
        name=campaign.plan.name,
        about=campaign.plan.about,
        plan_hash=campaign.digest,
        started=progress.started,
        ended=progress.ended,
        axes={axis: list(given.by_label()) for axis, given in campaign.plan.axes.items()},
        planned=sum(cell.repetitions for cell in campaign.cells),
        runs=len(results),
        executions=progress.executed,
        versions=sorted_versions(versions),
        mixed_versions=sorted_versions(each for each in versions if len(each[1]) > 1),
        simulated=campaign.simulated,
        finding=of_campaign(campaign),
        events=progress.said,
        repetitions_raised=progress.raised,
        cells=[
            CampaignCell(
                name=cell.name,
                planned=cell.repetitions,
                impossible=impossible.get(cell.name),
                **vars(cell_of(cell.key, by_cell[cell.name])),
                leader_not_met=sum(_is_leader_spared(each) for each in by_cell[cell.name]),
                attempted_per_s=_load_of(cell, by_cell[cell.name]),
            )
            for cell in campaign.cells
        ],
        comparisons=comparisons_of(
            [(cell.key, by_cell[cell.name]) for cell in possible],
            clusters=_of_each_run(possible, results, lambda run: clusters[run.run_id]),
            shared=_of_each_run(possible, results, lambda run: run.shared),
        ),
        resemblance={
            "cluster": resemblances(results, lambda run: clusters[run.run_id]),
            "worker": resemblances(results, lambda run: run.worker),
        },
    )


def refuse_mixed(folder: CampaignDir, campaign: Campaign, results: Iterable[Finished]) -> None:
    """Raise HistoryError for a result that is simulated in a campaign that is not, or real in one
    that is: they never mix."""
    for run, outcome in results:
        if isinstance(outcome, RunResult) and outcome.simulated != campaign.simulated:
            are = "simulated" if outcome.simulated else "real"
            raise HistoryError(
                f"is {are}, and the campaign is {'not' if outcome.simulated else 'simulated'}",
                file=str(folder.run(run.run_id).path),
                hint="remove its folder: simulated and real results never mix",
            )


def _is_leader_spared(outcome: Outcome) -> bool:
    """Whether leaders are known, and no fault, or none of a family of faults, met one."""
    return isinstance(outcome, RunResult) and (
        outcome.leader_met is False or bool(outcome.cautions)
    )


def _load_of(cell: Cell, outcomes: Iterable[Outcome]) -> MedianAndMax:
    """The attempted writes a second; an earlier ackloss did not count them."""
    duration_s = cell.resolved.plan.workload.duration_s
    counts = [each.counts for each in outcomes if is_conclusive(each)]
    rates = [each.attempted / duration_s for each in counts if each.attempted]
    return median_and_max(np.array(rates, np.float64))


def _of_each_run(
    cells: Iterable[Cell], results: Sequence[Finished], what: Callable[[Run], str | None]
) -> list[list[str | None]]:
    """Something of each run of each cell, in the order of the outcomes of `by_cell_of`."""
    by_cell: dict[str, list[str | None]] = {}
    for run, _ in results:
        by_cell.setdefault(run.cell, []).append(what(run))
    return [by_cell.get(cell.name, []) for cell in cells]


def clusters_of(folder: CampaignDir, runs: Iterable[Run]) -> dict[str, str | None]:
    """The cluster of each run, by run id; `None` where it was not recorded."""
    return {run.run_id: metadata_of(folder.run(run.run_id)).cluster.id for run in runs}


def versions_of(folder: CampaignDir, runs: Iterable[Run]) -> dict[str, list[str]]:
    """The versions of each component over all runs."""
    return sorted_versions(_versions_by_cell(folder, runs))


def _versions_by_cell(folder: CampaignDir, runs: Iterable[Run]) -> list[tuple[str, set[str]]]:
    """The name of a component and its versions in the runs of a cell, for each of both."""
    found: dict[tuple[str, str], set[str]] = {}
    for run in runs:
        for name, version in metadata_of(folder.run(run.run_id)).versions.items():
            if version is not None:
                found.setdefault((run.cell, name), set()).add(version)
    return [(name, versions) for (_, name), versions in found.items()]


def sorted_versions(versions: Iterable[tuple[str, Iterable[str]]]) -> dict[str, list[str]]:
    """The versions of each component."""
    found: dict[str, set[str]] = {}
    for name, each in versions:
        found.setdefault(name, set()).update(each)
    return {name: sorted(each) for name, each in sorted(found.items())}


def metadata_of(folder: RunDir) -> StoredRun:
    """The metadata of a run; without fields if its document is absent or damaged."""
    try:
        return read_run(folder)
    except HistoryError:
        return StoredRun()


def by_cell_of(campaign: Campaign, results: Iterable[Finished]) -> dict[str, list[Outcome]]:
    """The outcomes by cell name, with every cell of the campaign."""
    by_cell: dict[str, list[Outcome]] = {cell.name: [] for cell in campaign.cells}
    for run, outcome in results:
        by_cell.setdefault(run.cell, []).append(outcome)
    return by_cell


def tallies_of(campaign: Campaign, by_cell: Mapping[str, Iterable[Outcome]]) -> dict[str, Tally]:
    """The input of the campaign's policy: every cell that can run and that it names."""
    return {cell.name: tally_of(by_cell.get(cell.name, ())) for cell in campaign.of_policy}


def tally_of(outcomes: Iterable[Outcome]) -> Tally:
    """The runs of one cell, counted for a policy."""
    runs = [(verdict_class(each) in (LOSS, WRONG), is_conclusive(each)) for each in outcomes]
    return Tally(
        invalid=sum(invalid for invalid, _ in runs),
        conclusive=sum(conclusive for _, conclusive in runs),
        conclusive_invalid=sum(invalid and conclusive for invalid, conclusive in runs),
    )


def results_of(folder: CampaignDir, progress: Progress) -> Iterator[Finished]:
    """Every finished run with its outcome."""
    for run in progress.runs.values():
        outcome = outcome_of(folder, run)
        if outcome is not None:
            yield run, outcome


def outcome_of(folder: CampaignDir, run: Run) -> Outcome | None:
    """The result of a finished run, or its error; `None` if the run is not finished. A result of
    another run, or a damaged one, is an error and never counts. Raises HistoryError for a file that
    is not a result: then the folder is not a campaign's."""
    if run.state == "failed":
        return FailedRun(run_id=run.run_id, error=run.error)
    if run.state != "done":
        return None
    rundir = folder.run(run.run_id)
    try:
        result = read_result(rundir)
        if result.run_id not in (None, run.run_id):
            raise HistoryError(f"is of another run, {result.run_id!r}", file=str(rundir.result))
    except ForeignDocument:
        raise
    except HistoryError as error:
        error.hint = error.hint or f"`ackloss check {rundir.path}` writes it again"
        return FailedRun(run_id=run.run_id, error=str(error), unread=True)
    return result


def unread_in_words(rows: Iterable[RunRow]) -> Iterator[str]:
    """A sentence for each run whose result cannot be read."""
    for row in rows:
        if row["class"] == UNKNOWN and row["verdict"] is None:
            yield f"the run {row['run_id']} counts as unknown: {row['reason']}"


def run_rows(folder: CampaignDir) -> list[RunRow]:
    """One row for each finished run, in the order of their starts."""
    progress = folder.progress()
    return rows_of(results_of(folder, progress), clusters_of(folder, progress.runs.values()))


def rows_of(results: Iterable[Finished], clusters: Mapping[str, str | None]) -> list[RunRow]:
    """The rows of runs whose results are read already."""
    return [_row(run, outcome, clusters.get(run.run_id)) for run, outcome in results]


def _row(run: Run, outcome: Outcome, cluster: str | None) -> RunRow:
    result = outcome if isinstance(outcome, RunResult) else None
    counts: Mapping[str, int] = asdict(result.counts) if result else {}
    rates, seen = (result.rates, result.availability) if result else (Rates(), Availability())
    span = next(iter(result.lost_spans or ()), _NO_SPAN) if result else _NO_SPAN
    faults = result.faults if result else ()
    why = why_lost([result] if result else ())
    return {
        "run_id": run.run_id,
        "cell": run.cell,
        "repetition": run.repetition,
        "class": verdict_class(outcome),
        "conclusive": is_conclusive(outcome),
        "verdict": result.verdict if result else None,
        "reason": outcome.reason if isinstance(outcome, RunResult) else outcome.error,
        "seed": result.seed if result else None,
        "attempted": counts.get("attempted"),
        "acknowledged": counts.get("acknowledged"),
        "survivors": counts.get("survivors"),
        "lost": counts.get("lost"),
        "lost_from_s": span.begun_s[0] if span.begun_s else None,
        "lost_until_s": span.acknowledged_s[1] if span.acknowledged_s else None,
        "unacknowledged_found": counts.get("unacknowledged_found"),
        "duplicates": counts.get("duplicates"),
        "loss_rate": rates.loss,
        "unacknowledged_success_rate": rates.unacknowledged_success,
        "refused": seen.refused,
        "longest_gap_s": seen.longest_gap_s,
        "recovery_s": seen.recovery_s,
        "faults_proven": sum(fault.proven for fault in faults),
        "faults": len(faults),
        "leader_met": result.leader_met if result else None,
        "cautions": "; ".join(result.cautions) if result else "",
        "doubts": ", ".join((result.doubts or ()) if result else ()),
        "seconds": run.seconds,
        "worker": run.worker,
        "cluster": cluster,
        "shared": run.shared,
        "causes": why.causes,
        "unexplained": why.unexplained,
        "not_examined": why.not_examined,
        "survivable": why.survivable,
        "survivable_rate": why.survivable_rate,
        "alarmed": result.alarmed if result else None,
        "measures": {} if result is None else _measures(result),
    }


def _measures(result: RunResult) -> dict[str, MeasureOfRun]:
    return {
        measure.part: {
            "count": part,
            "whole": whole,
            "rate": part / whole if part is not None and whole else None,
        }
        for measure, (part, whole) in counted(result).items()
    }
