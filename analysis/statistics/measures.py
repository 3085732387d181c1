"""What checkers count besides their primary finding, over the conclusive runs of a cell.

A checker declares its measures (`harness.protocols.HasMeasures`): a count, as a share of another.
Each run has one such share, and is one observation, however much was counted in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from analysis.primary import measures_of
from analysis.statistics.resampling import Floats, Spread, ratio_estimate, spread
from analysis.statistics.shares import Estimate, Share, share_estimate
from harness.history.documents import RunResult
from harness.protocols import Measure, Number

Counted = tuple[Floats, Floats]
"""A count and the one that it is a share of, of each run that has both."""
Measured = Mapping[Measure, Counted]


@dataclass(frozen=True, kw_only=True)
class MeasureStatistics:
    """A measure over runs: `count` of `whole` in total; `runs` have a count above 0, of `of_runs`,
    and `share_of_runs` has the interval of that; `rate` is the share in each run, and `pooled` that
    of all together."""

    head: str
    of: str
    count: int
    whole: int
    runs: int
    of_runs: int
    share_of_runs: Estimate
    rate: Spread
    pooled: Estimate


def measured(results: Iterable[RunResult]) -> Measured:
    """The measures of these runs; a run that lacks a count is left out of it."""
    pairs: dict[Measure, list[tuple[float, float]]] = {}
    for result in results:
        for measure, (part, whole) in counted(result).items():
            pairs.setdefault(measure, [])
            if part is not None and whole is not None:
                pairs[measure].append((part, whole))
    return {measure: _columns(each) for measure, each in pairs.items()}


def counted(result: RunResult) -> dict[Measure, tuple[Number, Number]]:
    """What one run has of each measure of its first check; `None`: not recorded."""
    counts = result.checks[0].counts if result.checks else {}
    return {
        measure: (counts.get(measure.part), counts.get(measure.whole))
        for measure in measures_of(result)
    }


def measure_statistics(measured: Measured) -> dict[str, MeasureStatistics]:
    """The statistics of each measure, by its name."""
    return {measure.part: _statistics(measure, *each) for measure, each in measured.items()}


def _statistics(measure: Measure, parts: Floats, wholes: Floats) -> MeasureStatistics:
    having = Share(int(np.count_nonzero(parts)), parts.size)
    some = wholes > 0
    return MeasureStatistics(
        head=measure.head,
        of=measure.of,
        count=int(parts.sum()),
        whole=int(wholes.sum()),
        runs=having.part,
        of_runs=having.whole,
        share_of_runs=share_estimate(having),
        rate=spread(parts[some] / wholes[some], bounded=False),
        pooled=ratio_estimate(parts, wholes),
    )


def _columns(pairs: list[tuple[float, float]]) -> Counted:
    parts, wholes = np.array(pairs, np.float64).reshape(-1, 2).T
    return parts, wholes
