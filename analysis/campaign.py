"""A campaign's document: every cell with its intervals, and the cells compared.

The runs' own results are read from their folders, so a campaign can be summed up at any time: while
it is played, after a crash, after it was pruned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from analysis.statistics.cells import cell_of
from analysis.statistics.clusters import resemblance
from analysis.statistics.comparisons import comparisons_of
from analysis.statistics.eligibility import is_conclusive
from analysis.statistics.samples import LOSS, WRONG, verdict_class
from harness.campaigns.folder import CampaignDir
from harness.campaigns.plan import Campaign
from harness.campaigns.policy import Tally
from harness.campaigns.progress import Progress, Run, read_progress
from harness.errors import HistoryError

SCHEMA_VERSION = 1
Document = dict[str, Any]
Result = tuple[Run, Document]
"""A finished run and its result.json."""


def campaign_document(folder: CampaignDir) -> Document:
    """What campaign.json holds. Raises HistoryError when the folder cannot be read."""
    progress = read_progress(folder.journal)
    return summed_up(folder, progress, list(results_of(folder, progress)))


def summed_up(folder: CampaignDir, progress: Progress, results: Sequence[Result]) -> Document:
    """The same, from what was read already."""
    campaign = folder.campaign()
    by_cell = by_cell_of(campaign, results)
    clusters = clusters_of(folder, (run for run, _ in results))
    # A cell that a later ackloss calls impossible may have been played by an earlier one.
    impossible = {cell.name: cell.impossible for cell in campaign.cells if not by_cell[cell.name]}
    return {
        "schema": SCHEMA_VERSION,
        "id": folder.path.resolve().name,
        "name": campaign.plan.name,
        "about": campaign.plan.about,
        "plan_hash": campaign.digest,
        "started": progress.started,
        "ended": progress.ended,
        "axes": {axis: list(given.by_label()) for axis, given in campaign.plan.axes.items()},
        "planned": sum(cell.repetitions for cell in campaign.cells),
        "runs": len(results),
        "versions": versions_of(folder, (run for run, _ in results)),
        "said": progress.said,
        "cells": [
            {
                "name": cell.name,
                "planned": cell.repetitions,
                "impossible": impossible.get(cell.name),
                **cell_of(cell.key, by_cell[cell.name]),
            }
            for cell in campaign.cells
        ],
        "comparisons": comparisons_of(
            [
                (cell.key, by_cell[cell.name])
                for cell in campaign.cells
                if not impossible.get(cell.name)
            ],
            [
                [clusters[run.run_id] for run, _ in results if run.cell == cell.name]
                for cell in campaign.cells
                if not impossible.get(cell.name)
            ],
        ),
        "resemblance": resemblances(results, clusters),
    }


def resemblances(results: Iterable[Result], clusters: Mapping[str, str | None]) -> Document:
    """How much conclusive runs resemble each other that shared a cluster, or a worker."""
    counted = [(run, document) for run, document in results if is_conclusive(document)]
    told: Document = {}
    for name in ("cluster", "worker"):
        known = [
            (run.cell, group, document)
            for run, document in counted
            if (group := clusters[run.run_id] if name == "cluster" else run.worker) is not None
        ]
        cells, groups = [cell for cell, _, _ in known], [group for _, group, _ in known]
        numbers = {
            "lossy": [float(verdict_class(document) == LOSS) for _, _, document in known],
            "loss_rate": [document["rates"].get("loss") or 0.0 for _, _, document in known],
        }
        told[name] = {
            of: asdict(resemblance(cells, groups, np.array(values)))
            for of, values in numbers.items()
        }
    return told


def clusters_of(folder: CampaignDir, runs: Iterable[Run]) -> dict[str, str | None]:
    """By run the cluster that it was run on; null where nobody wrote it down."""
    found: dict[str, str | None] = {}
    for run in runs:
        rundir = folder.run(run.run_id)
        try:
            cluster = rundir.read_json(rundir.run).get("cluster") or {}
        except HistoryError:
            cluster = {}
        found[run.run_id] = cluster.get("id")
    return found


def by_cell_of(campaign: Campaign, results: Iterable[Result]) -> dict[str, list[Document]]:
    """The documents by their cells' names, every cell of the campaign among them."""
    by_cell: dict[str, list[Document]] = {cell.name: [] for cell in campaign.cells}
    for run, document in results:
        by_cell.setdefault(run.cell, []).append(document)
    return by_cell


def tallies_of(campaign: Campaign, by_cell: Mapping[str, Iterable[Document]]) -> dict[str, Tally]:
    """What the campaign's policy looks at, of every cell that can be played."""
    return {cell.name: tally_of(by_cell.get(cell.name, ())) for cell in campaign.possible}


def tally_of(documents: Iterable[Document]) -> Tally:
    """The runs of one cell, as a policy looks at them."""
    told = [(verdict_class(each) in (LOSS, WRONG), is_conclusive(each)) for each in documents]
    return Tally(
        invalid=sum(invalid for invalid, _ in told),
        conclusive=sum(conclusive for _, conclusive in told),
        conclusive_invalid=sum(invalid and conclusive for invalid, conclusive in told),
    )


def results_of(folder: CampaignDir, progress: Progress) -> Iterator[Result]:
    """Every finished run with its result.json, or with an error where the harness failed."""
    for run in progress.runs.values():
        document = document_of(folder, run)
        if document is not None:
            yield run, document


def document_of(folder: CampaignDir, run: Run) -> Document | None:
    """A finished run's result.json, or its error; null of a run that is not finished. The
    result of another run, or one with something that no check writes, is an error: nobody counts
    it."""
    if run.state == "failed":
        return {"run_id": run.run_id, "error": run.error}
    if run.state != "done":
        return None
    rundir = folder.run(run.run_id)
    try:
        document = rundir.read_json(rundir.result)
    except HistoryError as error:
        return {"run_id": run.run_id, "error": str(error)}
    if wrong := _wrong_with(document, run):
        hint = f"`ackloss check {rundir.path}` writes it again"
        return {"run_id": run.run_id, "error": f"{rundir.result}: {wrong}; {hint}"}
    return document


def _wrong_with(document: Document, run: Run) -> str | None:
    """Why a result.json cannot be counted as this run's; null where it can."""
    if document.get("run_id", run.run_id) != run.run_id:
        return f"is of another run, {document['run_id']!r}"
    for name, kind in (("eligible", bool), ("doubts", list), ("counter_examples", list)):
        if name in document and not isinstance(document[name], kind):
            return f"{name} is {document[name]!r:.80}, and nobody writes it so"
    for name, count in (document.get("counts") or {}).items():
        if type(count) is not int or count < 0:
            return f"counts.{name} is {count!r:.80}, and no number of writes"
    return None


def run_rows(folder: CampaignDir) -> list[Document]:
    """One flat row for each finished run, in the order in which they were begun: for tables."""
    progress = read_progress(folder.journal)
    return rows_of(results_of(folder, progress), clusters_of(folder, progress.runs.values()))


def rows_of(
    results: Iterable[Result], clusters: Mapping[str, str | None] | None = None
) -> list[Document]:
    """The same, from what was read already."""
    rows, known = [], clusters or {}
    for run, document in results:
        counts, rates = document.get("counts", {}), document.get("rates", {})
        seen = document.get("availability", {})
        span: Document = next(iter(document.get("lost_spans") or []), {})
        rows.append(
            {
                "run_id": run.run_id,
                "cell": run.cell,
                "repetition": run.repetition,
                "class": verdict_class(document),
                "conclusive": is_conclusive(document),
                "verdict": document.get("verdict"),
                "reason": document.get("reason") or document.get("error"),
                "seed": document.get("seed"),
                "attempted": counts.get("attempted"),
                "acknowledged": counts.get("acknowledged"),
                "survivors": counts.get("survivors"),
                "lost": counts.get("lost"),
                "lost_from_s": (span.get("begun_s") or [None])[0],
                "lost_until_s": (span.get("acknowledged_s") or [None])[-1],
                "unacknowledged_found": counts.get("unacknowledged_found"),
                "loss_rate": rates.get("loss"),
                "unacknowledged_success_rate": rates.get("unacknowledged_success"),
                "refused": seen.get("refused"),
                "longest_gap_s": seen.get("longest_gap_s"),
                "recovery_s": seen.get("recovery_s"),
                "faults_proven": sum(f["proven"] for f in document.get("faults", [])),
                "faults": len(document.get("faults", [])),
                "doubts": ", ".join(document.get("doubts", [])),
                "seconds": run.seconds,
                "worker": run.worker,
                "cluster": known.get(run.run_id),
            }
        )
    return rows


def versions_of(folder: CampaignDir, runs: Iterable[Run]) -> dict[str, list[str]]:
    """All versions that the runs name, by what they are of: more than one is worth knowing."""
    found: dict[str, set[str]] = {}
    for run in runs:
        rundir = folder.run(run.run_id)
        try:
            versions = rundir.read_json(rundir.run).get("versions", {})
        except HistoryError:
            continue
        for name, version in versions.items():
            found.setdefault(name, set()).add(str(version))
    return {name: sorted(each) for name, each in sorted(found.items())}
