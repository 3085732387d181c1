"""The timeline of a run, gathered once for the live page, the still picture and comparisons."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.latency import ABSENT, LOST, counts, outcome_is, thin, writes
from analysis.leadership import Leadership, leadership, observations
from harness.faults.journal import windows
from harness.history.run_folder import RunDir
from harness.models import LOG, Model
from harness.protocols import OK, FaultWindow

Array = npt.NDArray[Any]

BARS_AT_MOST: Final = 480
_WIDTHS_S: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)


def bar_width_s(length_s: float) -> int:
    """The seconds that a bar spans, so that a run of any length has at most BARS_AT_MOST bars."""
    return next((width for width in _WIDTHS_S if length_s / width <= BARS_AT_MOST), _WIDTHS_S[-1])


def rates(frame: pd.DataFrame, *, start_s: float, end_s: float, width_s: int) -> pd.DataFrame:
    """One row for each bar: `from_s`, and the counts `attempted`, `survived`, `absent`, `lost`.

    `frame` comes from `latency.writes`. Divide by the width for writes per second.
    """
    bars = max(1, int(np.ceil((end_s - start_s) / width_s)))
    begin_s = frame["begin_s"].to_numpy() - start_s
    answer_s = begin_s + frame["latency_ms"].to_numpy() / 1e3
    columns = {"attempted": _histogram(begin_s, bars, width_s)}
    for name, wanted in (("survived", OK), ("absent", ABSENT), ("lost", LOST)):
        columns[name] = _histogram(answer_s[outcome_is(frame, wanted)], bars, width_s)
    return pd.DataFrame({"from_s": start_s + np.arange(bars) * float(width_s), **columns})


def _histogram(times_s: Array, bars: int, width_s: int) -> Array:
    # Not np.histogram: the last bar must take every write on or beyond its edge.
    place = np.clip((times_s / width_s).astype(np.int64), 0, bars - 1)
    return np.bincount(place, minlength=bars)


@dataclass(frozen=True)
class Scale:
    """The axes: the ends of time, the ends of latency, and the highest bar."""

    start_s: float
    end_s: float
    latency_ms: tuple[float, float]
    rate_per_s: float

    def around(self, other: Scale) -> Scale:
        """A scale that covers both."""
        low = min(self.latency_ms[0], other.latency_ms[0])
        high = max(self.latency_ms[1], other.latency_ms[1])
        return Scale(
            start_s=min(self.start_s, other.start_s),
            end_s=max(self.end_s, other.end_s),
            latency_ms=(low, high),
            rate_per_s=max(self.rate_per_s, other.rate_per_s),
        )


@dataclass(frozen=True)
class Timeline:
    """One run on one time axis.

    `marks` are the thinned writes (`latency.thin`) and `total` the writes behind them by outcome.
    `bars` come from `rates.rates`, each `bar_s` wide. `nodes` are the nodes that lead or follow, in
    the order of their lanes.
    """

    marks: pd.DataFrame
    total: dict[str, int]
    bars: pd.DataFrame
    bar_s: int
    leadership: Leadership
    faults: list[FaultWindow]
    nodes: list[str]
    scale: Scale

    @property
    def by_loss(self) -> list[int]:
        """The observed partitions: those with the most lost writes first, then by number."""
        lost = self.marks[outcome_is(self.marks, LOST)].groupby("partition")["count"].sum()
        return sorted(self.leadership.partitions, key=lambda p: (-lost.get(p, 0), p))

    @property
    def drawn_faults(self) -> list[FaultWindow]:
        """The faults that came into force."""
        return [fault for fault in self.faults if fault.from_s is not None]


def timeline(run: RunDir, *, nodes: list[str] | None = None, model: Model = LOG) -> Timeline:
    """Read a run's folder. `nodes` gives the order of the lanes; other nodes follow them."""
    frame = writes(run, model)
    observed = observations(run)
    faults = windows(run.faults)
    start_s, end_s = _ends_s(frame, observed, faults)
    bar_s = bar_width_s(end_s - start_s)
    bars = rates(frame, start_s=start_s, end_s=end_s, width_s=bar_s)
    who = leadership(observed, end_s=end_s)
    marks = thin(frame)
    return Timeline(
        marks=marks,
        total=counts(frame),
        bars=bars,
        bar_s=bar_s,
        leadership=who,
        faults=faults,
        nodes=_nodes(who, nodes or []),
        scale=Scale(start_s, end_s, _latency_ends(marks), _highest(bars) / bar_s),
    )


def ms(value: float) -> str:
    """A latency with a fitting unit: 50 µs, 3 ms, 2.5 s."""
    if value < 1:
        return f"{value * 1e3:.3g} µs"
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1e3:.3g} s"


def on_one_scale(a: Timeline, b: Timeline) -> tuple[Timeline, Timeline]:
    """Both on the same axes, so that a reader can compare lengths and heights."""
    scale = a.scale.around(b.scale)
    return replace(a, scale=scale), replace(b, scale=scale)


def _ends_s(
    frame: pd.DataFrame, observed: pd.DataFrame, faults: list[FaultWindow]
) -> tuple[float, float]:
    """From the second of the first write to the last answer or heal, at least one second.

    The observer starts before the load and continues during the final read. A tenth of the load's
    time is added for it: enough to show the ISR recover, and the writes keep their room.
    """
    answered_s = frame["begin_s"] + np.nan_to_num(frame["latency_ms"].to_numpy()) / 1e3
    last = [float(answered_s.max())] if len(frame) else []
    last += [s for fault in faults for s in (fault.from_s, fault.to_s) if s is not None]
    observed_s = float(observed["time_s"].max()) if len(observed) else 0.0
    start_s = float(np.floor(frame["begin_s"].min())) if len(frame) else 0.0
    end_s = max(last, default=observed_s)
    end_s = max(end_s, min(observed_s, end_s + (end_s - start_s) / 10))
    return max(start_s, 0.0), max(end_s, start_s + 1.0)


def _latency_ends(marks: pd.DataFrame) -> tuple[float, float]:
    """The measured range with a margin, at least one decade."""
    known = marks["latency_ms"].dropna().astype(float)
    known = known[known > 0]
    if known.empty:
        return 0.1, 1000.0
    low, high = known.min() / 1.4, known.max() * 1.4
    return float(low), float(max(high, low * 10))


def _highest(bars: pd.DataFrame) -> float:
    acknowledged = bars["survived"] + bars["absent"] + bars["lost"]
    return float(max(acknowledged.max(), bars["attempted"].max(), 1))


def _nodes(who: Leadership, nodes: list[str]) -> list[str]:
    """The nodes that led or were in sync at any time: in the order of the plan, then by name."""
    seen = {leader for leader in who.views["leader"] if isinstance(leader, str)}
    seen |= {member for members in who.views["members"] for member in members}
    seen |= set(who.beliefs["node"])
    return [node for node in nodes if node in seen] + sorted(seen - set(nodes))
