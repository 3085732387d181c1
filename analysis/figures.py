"""The timeline as a still picture (matplotlib), for print, mail and pages without JavaScript.

The lanes below it show the ISR's size of each partition, and the role of each node. Points are
rasterised, everything else stays vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis.drawing import FAULT_TINTS, LIGHT, STYLE, plain
from analysis.latency import ABSENT, LOST, OPEN, OUTCOMES, outcome_is
from analysis.timeline import Timeline, ms
from analysis.wording import visible
from harness.protocols import FAIL, INFO, OK

_MARKS: Final[Mapping[str, Mapping[str, Any]]] = {
    OK: {"marker": "o", "s": 3.5, "linewidths": 0},
    FAIL: {"marker": "s", "s": 9, "linewidths": 0.7},
    INFO: {"marker": "D", "s": 9, "linewidths": 0.8},
    OPEN: {"marker": "^", "s": 12, "linewidths": 0.8},
    ABSENT: {"marker": "P", "s": 12, "linewidths": 0},
    LOST: {"marker": "x", "s": 9, "linewidths": 0.8},
}
_HOLLOW: Final = (FAIL, INFO, OPEN)
_COLOUR: Final = {OK: "survived", OPEN: "info"}


def outcome_labels(
    acknowledged: str = "acknowledged",
    *,
    judged: bool = True,
    known: bool = True,
    losses: bool = True,
) -> dict[str, str]:
    """The label of each outcome in a legend.

    With acks=0 a write is `sent`, not `acknowledged`. The label claims survival only for a run that
    was `judged` and read completely, and loss only if the verdict is `known`. Without `losses`, of
    which no check says anything, that outcome has no label and no place in the legend.
    """
    return {
        OK: f"{acknowledged}, survived" if judged else acknowledged,
        FAIL: "failed",
        INFO: "unknown",
        OPEN: "no answer",
        ABSENT: f"{acknowledged}, not yet visible",
        LOST: (f"{acknowledged}, LOST" if known else f"{acknowledged}, missing") if losses else "",
    }


def draw(
    line: Timeline,
    *,
    colours: Mapping[str, str] = LIGHT,
    headline: str = "",
    sentence: str = "",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """The complete timeline. `headline` and `sentence` stand above a picture without a page;
    `labels` name the outcomes in the legend (`outcome_labels`)."""
    with mpl.rc_context(STYLE):
        rows = lanes(line)
        heights = [0.26 * max(len(line.drawn_faults), 0.2), 2.7, 1.15, 0.21 * max(len(rows), 1)]
        top = 0.75 if headline else 0.05
        height = sum(heights) + top + 1.2
        figure = Figure(figsize=(10.4, height), facecolor=colours["paper"])
        axes = figure.subplots(4, 1, sharex=True, gridspec_kw={"height_ratios": heights})
        figure.subplots_adjust(
            left=0.085, right=0.985, top=1 - top / height, bottom=0.5 / height, hspace=0.14
        )
        axes[3].set_xlim(line.scale.start_s, line.scale.end_s)
        for panel in axes:
            plain(panel, colours)
        for place, fault in enumerate(line.drawn_faults):
            tint = colours[f"fault-{place % FAULT_TINTS + 1}"]
            to_s = line.scale.end_s if fault.to_s is None else fault.to_s
            for panel in axes[1:]:
                panel.axvspan(fault.from_s or 0.0, to_s, color=tint, alpha=0.16, lw=0, zorder=0)
        _draw_faults(axes[0], line, colours)
        _draw_latency(axes[1], line, colours, labels or outcome_labels())
        _draw_rates(axes[2], line, colours)
        draw_lanes(axes[3], rows, colours)
        axes[3].set_xlabel("seconds since the start of the run", color=colours["muted"], loc="left")
        if headline:
            _draw_title(figure, headline, sentence, height, colours)
    return figure


def _draw_faults(panel: Axes, line: Timeline, colours: Mapping[str, str]) -> None:
    panel.set_axis_off()
    panel.set_ylim(max(len(line.drawn_faults), 1), 0)
    for place, fault in enumerate(line.drawn_faults):
        to_s = line.scale.end_s if fault.to_s is None else fault.to_s
        from_s = fault.from_s or 0.0
        tint = colours[f"fault-{place % FAULT_TINTS + 1}"]
        panel.broken_barh(
            [(from_s, to_s - from_s)],
            (place + 0.1, 0.8),
            facecolor=(tint, 0.4),
            edgecolor=tint,
            linestyle="-" if fault.proven else "--",
            linewidth=0.8,
        )
        label = visible(f" {fault.id}: {fault.nemesis} {', '.join(fault.nodes)}   {fault.proof} ")
        # The label runs to the right of its bar's start; near the right edge, to the left.
        late = (from_s - line.scale.start_s) / (line.scale.end_s - line.scale.start_s) > 0.7
        panel.text(
            to_s if late else from_s,
            place + 0.52,
            label,
            ha="right" if late else "left",
            va="center",
            fontsize=8,
            color=colours["ink"],
            clip_on=True,
        )


def _draw_latency(
    panel: Axes, line: Timeline, colours: Mapping[str, str], labels: Mapping[str, str]
) -> None:
    low, high = line.scale.latency_ms
    top = high * (1.9 if line.total[OPEN] else 1.0)
    for outcome in OUTCOMES:
        marks = line.marks[outcome_is(line.marks, outcome)]
        colour = colours[_COLOUR.get(outcome, outcome)]
        face: Mapping[str, Any] = {"c": colour}
        if outcome in _HOLLOW:
            face = {"facecolors": "none", "edgecolors": colour}
        panel.scatter(
            marks["begin_s"],
            marks["latency_ms"].fillna(high * 1.4).clip(lower=low),
            rasterized=True,
            zorder=3,
            label=f"{labels[outcome]} {line.total[outcome]:,}",
            **_MARKS[outcome],
            **face,
        )
    panel.set_yscale("log")
    panel.set_ylim(low, top)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: ms(value)))
    panel.yaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))
    panel.grid(axis="y", color=colours["rule"], lw=0.6, zorder=0)
    panel.set_axisbelow(True)
    panel.set_ylabel("write latency", color=colours["muted"])
    shown = [each for each in OUTCOMES if line.total[each] or each in (OK, LOST, INFO)]
    wanted = [OUTCOMES.index(outcome) for outcome in shown if labels[outcome]]
    handles, texts = panel.get_legend_handles_labels()
    panel.legend(
        [handles[place] for place in wanted],
        [texts[place] for place in wanted],
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=len(wanted),
        frameon=False,
        fontsize=8,
        labelcolor=colours["ink"],
        handletextpad=0.1,
        columnspacing=1.2,
        borderaxespad=0.1,
        markerscale=1.6,
    )


def _draw_rates(panel: Axes, line: Timeline, colours: Mapping[str, str]) -> None:
    bars, width = line.bars, line.bar_s
    edges = np.append(bars["from_s"], bars["from_s"].iloc[-1] + width)
    base = np.zeros(len(bars))
    for name, opacity, hatch in (("survived", 0.8, ""), ("absent", 1.0, ""), ("lost", 1.0, "////")):
        height = bars[name].to_numpy() / width
        if height.any():
            panel.stairs(
                base + height,
                edges,
                baseline=base,
                fill=True,
                facecolor=(colours[name], opacity),
                edgecolor=colours["paper"],
                hatch=hatch,
                lw=0,
                zorder=2,
            )
        base = base + height
    attempted = bars["attempted"].to_numpy() / width
    panel.stairs(attempted, edges, color=colours["ink"], lw=0.7, zorder=3, baseline=None)
    panel.set_ylim(0, line.scale.rate_per_s * 1.06)
    panel.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10], integer=True))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panel.set_ylabel("writes / s", color=colours["muted"])


def _draw_title(
    figure: Figure, headline: str, sentence: str, height: float, colours: Mapping[str, str]
) -> None:
    figure.text(
        0.085,
        1 - 0.16 / height,
        visible(headline),
        fontsize=14,
        weight="bold",
        va="top",
        color=colours["ink"],
    )
    figure.text(
        0.085, 1 - 0.45 / height, visible(sentence), fontsize=9, va="top", color=colours["muted"]
    )


PARTITIONS_AT_MOST: Final = 3
"""The number of partitions with lanes; those with the most lost writes come first."""

_LEGEND: Final = {
    "leads": "leads",
    "insync": "in sync",
    "believes": "believes that it leads, but was overtaken",
}


Bars = Mapping[str, list[tuple[float, float]]]
"""When each of its roles began for a node, and how long it lasted."""


@dataclass(frozen=True)
class Lane:
    """A row of bars, or the sizes of the ISR, each with the instant of its change."""

    label: str
    bars: Bars = field(default_factory=dict)
    sizes: list[tuple[float, int]] = field(default_factory=list)


def lanes(line: Timeline) -> list[Lane]:
    """For each partition on the picture, one lane for the size of the ISR and one for each node."""
    who, rows = line.leadership, []
    for partition in line.by_loss[:PARTITIONS_AT_MOST]:
        views = who.views[who.views["partition"] == partition]
        beliefs = who.beliefs[who.beliefs["partition"] == partition]
        of = f"p{partition}: " if len(line.by_loss) > 1 else ""
        rows.append(Lane(f"{of}in sync", sizes=list(_sizes(views))))
        rows += [Lane(node, _bars(views, beliefs, node)) for node in line.nodes]
    return rows


def _sizes(views: pd.DataFrame) -> Iterator[tuple[float, int]]:
    before = None
    for from_s, members in zip(views["from_s"], views["members"], strict=True):
        if len(members) != before:
            yield from_s, len(members)
        before = len(members)


def _bars(views: pd.DataFrame, beliefs: pd.DataFrame, node: str) -> Bars:
    bars: dict[str, list[tuple[float, float]]] = {role: [] for role in _LEGEND}
    columns = (views[name] for name in ("from_s", "to_s", "leader", "members"))
    for from_s, to_s, leader, members in zip(*columns, strict=True):
        if leader == node or node in members:
            bars["leads" if leader == node else "insync"].append((from_s, to_s - from_s))
    claimed = beliefs[beliefs["node"] == node]
    for from_s, to_s in zip(claimed["from_s"], claimed["to_s"], strict=True):
        bars["believes"].append((from_s, to_s - from_s))
    return bars


def draw_lanes(panel: Axes, rows: list[Lane], colours: Mapping[str, str]) -> None:
    """Draw the lanes and their legend; the caller has set the panel's limits along time."""
    styles: dict[str, Mapping[str, Any]] = {
        "leads": {"facecolor": colours["leads"]},
        "insync": {"facecolor": colours["insync"]},
        "believes": {
            "facecolor": colours["paper"],
            "edgecolor": colours["leads"],
            "hatch": "////",
            "linewidth": 0.8,
        },
    }
    for place, row in enumerate(rows):
        for role, style in styles.items():
            panel.broken_barh(row.bars.get(role, []), (place + 0.12, 0.76), **style)
        if row.sizes:
            panel.axhline(place, color=colours["rule"], lw=0.6)
        for from_s, size in row.sizes:
            at = max(from_s, panel.get_xlim()[0])
            panel.text(
                at, place + 0.54, f" {size}", fontsize=8, va="center", color=colours["ink"],
                clip_on=True,
            )  # fmt: skip
    panel.set_ylim(max(len(rows), 1), 0)
    panel.set_yticks([place + 0.5 for place in range(len(rows))])
    panel.set_yticklabels([visible(row.label) for row in rows])
    panel.tick_params(axis="y", length=0, labelsize=8)
    panel.legend(
        [Patch(**styles[role]) for role in _LEGEND],
        list(_LEGEND.values()),
        loc="upper right",
        bbox_to_anchor=(1.005, 0.0),
        borderaxespad=2.1,
        ncols=3,
        frameon=False,
        fontsize=8,
        labelcolor=colours["muted"],
    )
