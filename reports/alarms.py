"""Which alarm rules would have fired in a run, and what its nodes' metrics were, as its page shows
them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.errors import HistoryError
from harness.history.documents import Alarm
from harness.history.metrics import Series, read_metrics
from harness.history.run_folder import RunDir

_CHANGES_AT_MOST: Final = 60
"""Of a metric that is drawn: counters that rise all the time say nothing."""


def summary(alarms: Sequence[Alarm], *, lost: bool) -> str:
    """How many rules fired when, in words; without loss only how many."""
    known = [each for each in alarms if each.why_not is None]
    firing = [each for each in known if each.fires]
    if lost:
        early = sum((each.before_first_loss_s or 0.0) > 0 for each in firing)
        when = f"{early} of {len(known)} rules before the first loss, {len(firing) - early} after"
    else:
        when = f"{len(firing)} of {len(known)} rules fire"
    luck = sum(0 < (each.chance or 0.0) < 0.5 for each in known)
    parts = [when, f"{luck} by luck" if luck else "", f"{len(known) - len(firing) - luck} never"]
    missed = len(alarms) - len(known)
    parts.append(f"{missed} not evaluated" if missed else "")
    return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class Drawn:
    """A metric of a node as a path 1,000 wide and 20 high, with its least and greatest value."""

    name: str
    node: str
    path: str
    low: float
    high: float


def drawn(rundir: RunDir) -> list[Drawn]:
    """The metrics that changed while the run went on, but not all the time."""
    try:
        metrics = read_metrics(rundir)
    except HistoryError:
        return []
    if metrics is None:
        return []
    made = [_drawn(each, metrics.end_s) for every in metrics.series.values() for each in every]
    return sorted((each for each in made if each), key=lambda each: (each.name, each.node))


def _drawn(series: Series, end_s: float) -> Drawn | None:
    within = (series.times_s > 0) & (series.times_s < end_s)
    times = np.concatenate([[0.0], series.times_s[within], [end_s]])
    values = series.at(times)
    known = values[~np.isnan(values)]
    if len(known) == 0 or within.sum() > _CHANGES_AT_MOST or np.all(values == values[0]):
        return None
    low, high = float(known.min()), float(known.max())
    y = 18 - 16 * (values - low) / ((high - low) or 1.0)
    x, path = 1000 * times / end_s, ""
    for begin, end, at, before in zip(x, x[1:], y, [np.nan, *y], strict=False):
        if not np.isnan(at):
            to = f"M{begin:.1f} {at:.1f}" if np.isnan(before) else f"V{at:.1f}"
            path += f"{to}H{end:.1f}"
    return Drawn(series.name, series.node, path, low, high)
