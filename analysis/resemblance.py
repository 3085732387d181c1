"""Whether the runs of one cluster, or of one worker, are alike, over a campaign.

The cells of a shared run are one observation: they are alike because they shared the run, which
says nothing of its cluster or worker. A run's value is the mean over its conclusive cells of what
each deviates from its cell; so it is comparable with runs of the same cells of which others are
conclusive, and runs are exchanged with all those that share the same cells, however they ended.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

from analysis.statistics.clusters import Resemblance, resemblance
from analysis.statistics.eligibility import Outcome, is_conclusive
from analysis.statistics.resampling import Floats
from analysis.statistics.samples import LOSS, verdict_class
from harness.campaigns.progress import Run
from harness.history.documents import RunResult

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
        if isinstance(outcome, RunResult) and is_conclusive(outcome) and group_of(run) is not None:
            conclusive.setdefault(name, []).append((run, outcome))
    runs = list(conclusive.values())
    shared = [tuple(sorted(cells[name])) for name in conclusive]
    groups = [group_of(each[0][0]) for each in runs]
    return {
        "lossy": resemblance(shared, groups, _deviations(runs, _is_lossy)),
        "loss_rate": resemblance(shared, groups, _deviations(runs, _loss_rate)),
    }


def _is_lossy(result: RunResult) -> float:
    return float(verdict_class(result) == LOSS)


def _loss_rate(result: RunResult) -> float:
    return result.rates.loss or 0.0


def _deviations(runs: Sequence[Conclusive], number: Callable[[RunResult], float]) -> Floats:
    """For each run the mean of what its results deviate from the mean of their cell."""
    by_cell: dict[str, list[float]] = {}
    for each in runs:
        for run, result in each:
            by_cell.setdefault(run.cell, []).append(number(result))
    means = {cell: np.mean(values) for cell, values in by_cell.items()}
    rests = [[number(result) - means[run.cell] for run, result in each] for each in runs]
    return np.array([np.mean(rest) for rest in rests], np.float64)
