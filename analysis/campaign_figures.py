"""The figures of a campaign: the matrix, loss against availability, and every run as a point.

Loss stands for the primary finding of the campaign's checks; the figures are in its words.

A share is readable without colour: it is written as a number, and a larger share is darker. All
figures number the cells as the page does: by their place in the matrix, row by row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from analysis.campaign import CampaignCell, CampaignDocument, RunRow
from analysis.comparison import CampaignSummary, Trend, TrendPoint
from analysis.drawing import LIGHT, STYLE, mark_simulated, plain
from analysis.tables import Matrix
from analysis.wording import visible
from harness.protocols import PrimaryFinding
from harness.protocols.checkers import percent

Cells = Sequence[CampaignCell]
Runs = Sequence[RunRow]
_Ends = tuple[Sequence[float], Sequence[float]]

_MARKERS: Final = ("o", "s", "^", "D", "v", "P")
_TINTS: Final = ("survived", "info", "leads", "absent", "fail", "fault-2")
_DARKEST: Final = 0.55
_LEFT_IN: Final = 0.95
_NONE: Final = -0.09
_LABEL: Final = 80
"""The number of characters of a cell's name beside its row."""
_NUMBERS: Final = 48
"""The number of characters of a label that names points."""
_ROW_PX: Final = 14
_CHARACTER_PX: Final = 6
"""The approximate height of a row and width of a small letter, to detect labels that overlap."""


def heat_map(document: CampaignDocument, table: Matrix) -> Figure:
    """The share of lossy runs of each cell, with its interval."""
    cells, unit = document.cells, document.unit
    title = f"Share of {unit}s with {document.finding.noun}"
    with mpl.rc_context(STYLE):
        heads, top = _LEFT_IN * len(table.down) + 0.12, 0.8
        width, height = heads + 1.55 * len(table.columns) + 0.2, 0.52 * len(table.rows) + top + 0.1
        figure = Figure(figsize=(max(width, 4.0), height), facecolor=LIGHT["paper"])
        panel = figure.add_axes(
            (heads / width, 0.1 / height, 1 - (heads + 0.2) / width, 1 - (top + 0.1) / height)
        )
        panel.set(xlim=(0, len(table.columns)), ylim=(len(table.rows), 0))
        panel.set_axis_off()
        for down, row in enumerate(table.rows):
            for across, place in enumerate(row.cells):
                if place in table.impossible:
                    panel.text(
                        across + 0.5, down + 0.5, "—", ha="center", va="center",
                        color=LIGHT["muted"],
                    )  # fmt: skip
                elif place is not None:
                    _square(panel, across, down, cells[place], unit)
        _heads(figure, panel, table)
        figure.text(
            0.12 / width, 1 - 0.12 / height, title, weight="bold", fontsize=11, va="top",
            color=LIGHT["ink"],
        )  # fmt: skip
    return figure


def _square(panel: Axes, across: int, down: int, cell: CampaignCell, unit: str) -> None:
    interval = cell.lossy_share
    share = interval.shown
    panel.add_patch(
        Rectangle(
            (across + 0.02, down + 0.04), 0.96, 0.92, lw=0.6,
            facecolor=mixed(share or 0.0), edgecolor=LIGHT["muted"],
            linestyle="--" if share is None else "-",
        )
    )  # fmt: skip
    if share:
        strip = Rectangle(
            (across + 0.02, down + 0.84), 0.96 * share, 0.12, lw=0,
            facecolor=LIGHT["paper"], edgecolor=LIGHT["lost"], hatch="//////",
        )  # fmt: skip
        panel.add_patch(strip)
    first = f"no conclusive {unit}" if share is None else f"{_percent(share)} %"
    if interval.chosen_by_outcome:
        first = f"≥ {first}"
    second = f"{cell.runs} {unit}s"
    if interval.shown_low is not None and interval.shown_high is not None:
        second = f"{_percent(interval.shown_low)} to {_percent(interval.shown_high)} %"
    size = 8 if share is None else 11
    for y, text, points in ((0.36, first, size), (0.68, second, 7)):
        panel.text(
            across + 0.5, down + y, text, ha="center", va="center", fontsize=points,
            color=LIGHT["ink"],
        )  # fmt: skip


def _percent(share: float) -> str:
    return percent(share).removesuffix(" %")


def mixed(share: float) -> tuple[float, float, float]:
    """The paper, tinted in proportion to the share; ink stays readable on it."""
    paper, lost = (np.array(to_rgb(LIGHT[name])) for name in ("paper", "lost"))
    red, green, blue = (paper + (lost - paper) * _DARKEST * share).tolist()
    return red, green, blue


def _heads(figure: Figure, panel: Axes, table: Matrix) -> None:
    one_column = panel.get_position().width * figure.get_figwidth() / len(table.columns)
    wide = _LEFT_IN / one_column
    for across, label in enumerate(table.columns):
        title = f"{table.across}={label}" if table.across else ""
        panel.text(
            across + 0.5, -0.12, title, ha="center", va="bottom", fontsize=8, color=LIGHT["ink"]
        )
    for depth, axis in enumerate(table.down):
        x = (depth - len(table.down)) * wide
        panel.text(x, -0.12, axis, va="bottom", fontsize=8, color=LIGHT["muted"])
    for down, row in enumerate(table.rows):
        for head in row.heads:
            x = (table.down.index(head.axis) - len(table.down)) * wide
            panel.plot([x, 0], [down, down], color=LIGHT["rule"], lw=0.8, clip_on=False)
            panel.text(x, down + 0.5, head.label, va="center", fontsize=8, color=LIGHT["ink"])


def trade_off(document: CampaignDocument, table: Matrix) -> Figure:
    """The share of lossy runs against the time that clients waited; the lower left is best."""
    cells, unit = document.cells, document.unit
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 4.8), facecolor=LIGHT["paper"])
        panel = figure.add_axes((0.085, 0.11, 0.895, 0.78))
        plain(panel, LIGHT)
        panel.set_ylim(-6, 109)
        panel.axhline(0, color=LIGHT["rule"], lw=0.8, zorder=0)
        drawn = []
        for number, place in enumerate(table.in_order, 1):
            share, gap = cells[place].lossy_share.shown, cells[place].longest_gap_s.median
            if share is not None and gap:
                drawn.append((gap, 100 * share, number, place))
        for across, label in enumerate(table.columns):
            of_column = {row.cells[across] for row in table.rows}
            _series(panel, [each for each in drawn if each[3] in of_column], across, cells)
            marker, tint = _style(across)
            label_of_column = f"{table.across}={label}" if table.across else "cell"
            panel.plot([], [], marker, color=LIGHT[tint], label=label_of_column, markersize=6)
        _gap_axis(panel, [gap for gap, *_ in drawn])
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} %"))
        panel.set_yticks([0, 25, 50, 75, 100])
        panel.set_ylabel(
            f"{unit}s with {document.finding.noun}, and 95 % interval", color=LIGHT["muted"]
        )
        panel.set_xlabel("longest time without an acknowledgement, median", color=LIGHT["muted"])
        panel.legend(
            loc="lower left", bbox_to_anchor=(0, 1), ncols=6, frameon=False, fontsize=8,
            labelcolor=LIGHT["ink"], borderaxespad=0.1, handletextpad=0.2,
        )  # fmt: skip
        figure.draw_without_rendering()
        _numbers(panel, drawn)
    return figure


def _style(across: int) -> tuple[str, str]:
    return _MARKERS[across % len(_MARKERS)], _TINTS[across % len(_TINTS)]


def _series(
    panel: Axes,
    points: Iterable[tuple[float, float, int, int]],
    across: int,
    cells: Cells,
) -> None:
    marker, tint = _style(across)
    drawn = list(points)
    gaps, shares = [gap for gap, *_ in drawn], [cells[place].lossy_share for *_, place in drawn]
    lows = [100 * (share.shown_low or 0.0) for share in shares]
    highs = [100 * (share.shown_high or 0.0) for share in shares]
    _lines(panel, (gaps, gaps), (lows, highs), color=LIGHT[tint], lw=1, alpha=0.35, zorder=1)
    panel.plot(
        gaps, [percent for _, percent, *_ in drawn], marker, color=LIGHT[tint], markersize=6.5,
        alpha=0.9, zorder=3, markeredgecolor=LIGHT["paper"], markeredgewidth=0.6,
    )  # fmt: skip


def _lines(panel: Axes, x: _Ends, y: _Ends, **style: Any) -> None:
    """Lines from the first ends to the second ones, in one path: in a picture of many cells each
    path of its own takes more room than what it draws."""
    ends = (np.column_stack([*each, np.full(len(each[0]), np.nan)]).ravel() for each in (x, y))
    panel.plot(*ends, **style)


def _numbers(panel: Axes, points: Sequence[tuple[float, float, int, int]]) -> None:
    """Each point's number beside it: right of it if the panel has room there. Points on the same
    spot share one label. A label that would overlap another stands below its point."""
    groups: list[tuple[npt.NDArray[np.float64], list[int]]] = []
    for gap, share, number, _ in sorted(points):
        at = panel.transData.transform((gap, share))
        near = next((g for g in groups if np.all(np.abs(g[0] - at) < (34, _ROW_PX))), None)
        if near is None:
            groups.append((at, [number]))
        else:
            near[0][0] = max(near[0][0], at[0])  # the label stands right of them all
            near[1].append(number)
    back = panel.transData.inverted()
    written: list[tuple[float, float]] = []  # where labels above their points end
    for at, numbers in groups:
        x, y = back.transform(at)
        label = _short(ranges(numbers))
        wide = _CHARACTER_PX * (len(label) + 2)
        right = at[0] + wide <= panel.bbox.x1
        begin = at[0] if right else at[0] - wide
        above = all(begin > end or abs(at[1] - row) > _ROW_PX for end, row in written)
        if above:
            written.append((begin + wide, at[1]))
        panel.annotate(
            label, (x, y), xytext=(5 if right else -5, 4 if above else -10),
            textcoords="offset points", ha="left" if right else "right", fontsize=7,
            color=LIGHT["ink"], zorder=4,
            bbox={"facecolor": LIGHT["paper"], "alpha": 0.6, "linewidth": 0, "pad": 0.5},
        )  # fmt: skip


def _short(label: str) -> str:
    """A label of many numbers ends where the others would cross the picture."""
    if len(label) <= _NUMBERS:
        return label
    return f"{label[:_NUMBERS].rpartition(', ')[0]}, …"


def ranges(numbers: Iterable[int]) -> str:
    """`1-3, 7, 8`: three or more neighbours become a range."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = (f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return ", ".join(parts)


def _gap_axis(panel: Axes, gaps: Sequence[float], *, narrow: bool = False) -> None:
    """Seconds on a log scale, with round numbers as ticks, fewer on a narrow axis."""
    panel.set_xscale("log")
    low, high = (min(gaps), max(gaps)) if gaps else (0.5, 5.0)
    panel.set_xlim(low / 1.25, max(high * 1.4, low * 2))
    steps: tuple[float, ...] = (1, 2, 5) if high > 4 * low else (1, 1.2, 1.5, 2, 3, 4, 5, 7)
    if narrow and high > 20 * low:
        steps = (1,)
    panel.xaxis.set_major_locator(LogLocator(subs=steps))
    panel.tick_params(which="minor", length=0)
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} s"))
    panel.xaxis.set_minor_formatter(NullFormatter())


def distributions(document: CampaignDocument, table: Matrix, runs: Runs) -> Figure:
    """Loss rate and longest gap of every conclusive run, a row for each cell; bars are medians.
    If no run has a loss rate, whether it is lossy takes its place."""
    cells, finding = document.cells, document.finding
    with mpl.rc_context(STYLE):
        order = table.in_order
        height = 0.245 * max(len(order), 3) + 0.95
        figure = Figure(figsize=(9.6, height), facecolor=LIGHT["paper"])
        of_cell = {cells[place].name: at for at, place in enumerate(order)}
        shown = [run for run in runs if run["conclusive"] and run["cell"] in of_cell]
        lossy = np.array([run["class"] == "loss" for run in shown], bool)
        rows = np.array([of_cell[run["cell"]] for run in shown], np.float64)
        rated = any(run["loss_rate"] is not None for run in shown)
        rates = np.array([run["loss_rate"] or 0.0 for run in shown], np.float64)
        gaps = np.array([run["longest_gap_s"] or np.nan for run in shown], np.float64)
        known = gaps[np.isfinite(gaps)]
        bottom, tall = 0.5 / height, 1 - 0.95 / height
        labels = [_row_label(cells[place].name, at) for at, place in enumerate(order, 1)]
        start = 0.02 + 0.0058 * max(map(len, labels), default=0)
        wide = 0.98 - start
        left = figure.add_axes((start, bottom, wide * 0.62, tall))
        right = figure.add_axes((start + wide * 0.66, bottom, wide * 0.34, tall))
        for panel in (left, right):
            plain(panel, LIGHT)
            panel.set_ylim(len(order) - 0.5, -0.5)
            places = range(len(order))
            ends = [_NONE - 0.05] * len(order), [1e6] * len(order)
            _lines(panel, ends, (places, places), color=LIGHT["rule"], lw=0.5, zorder=0)
        _rates_axis(left, finding, rated=rated)
        _gap_axis(right, known.tolist(), narrow=True)
        right.set_yticks([])
        left.set_yticks(range(len(order)), labels, fontsize=7)
        left.tick_params(axis="y", labelcolor=LIGHT["ink"], length=0)
        _strip(left, np.where(lossy, rates, _NONE), rows, lossy, spread=lossy & rated)
        _strip(right, gaps, rows, lossy, spread=np.ones_like(lossy))
        _medians(right, [cells[place].longest_gap_s.median for place in order])
        counted = "lost / acknowledged writes" if rated else f"{document.unit}s with {finding.noun}"
        for panel, title in ((left, counted), (right, "longest gap")):
            panel.set_title(title, fontsize=9, color=LIGHT["muted"], loc="left")
    return figure


def _row_label(name: str, number: int) -> str:
    short = name if len(name) <= _LABEL else f"…{name[1 - _LABEL :]}"
    return f"{short}\u2002\u2002{number}"  # spaces that SVG does not collapse


def _rates_axis(panel: Axes, finding: PrimaryFinding, *, rated: bool) -> None:
    """Runs without loss have their own place, left of 0 %, apart from runs with little loss."""
    if not rated:
        panel.set_xlim(_NONE - 0.05, 0.06)
        panel.set_xticks([_NONE, 0.0], ["none", finding.noun])
        return
    panel.set_xlim(_NONE - 0.05, 1.02)
    percent = [0, 25, 50, 75, 100]
    ticks = [_NONE, *(each / 100 for each in percent)]
    panel.set_xticks(ticks, ["none", *(f"{each} %" for each in percent)])


def _strip(
    panel: Axes,
    x: npt.NDArray[np.float64],
    rows: npt.NDArray[np.float64],
    lossy: npt.NDArray[np.bool_],
    *,
    spread: npt.NDArray[np.bool_],
) -> None:
    """Points side by side within their row, in the order of the runs; nothing is random."""
    across, down = (np.arange(len(x)) * step % 1 - 0.5 for step in (0.754878, 0.569840))
    x, y = np.where(spread, x, x + across * 0.07), rows + down * 0.56
    for chosen, tint, marker, size in ((~lossy, "survived", "o", 5.0), (lossy, "lost", "x", 7.0)):
        panel.scatter(
            x[chosen], y[chosen], s=size, marker=marker,
            color=LIGHT[tint], linewidths=0.7 if marker == "x" else 0, alpha=0.6,
            rasterized=True, zorder=2,
        )  # fmt: skip


def _medians(panel: Axes, medians: Sequence[float | None]) -> None:
    known = [(median, row) for row, median in enumerate(medians) if median is not None]
    x, rows = [median for median, _ in known], [row for _, row in known]
    ends = [row - 0.38 for row in rows], [row + 0.38 for row in rows]
    _lines(panel, (x, x), ends, color=LIGHT["ink"], lw=1.4, zorder=4)


def drawn(document: CampaignDocument, table: Matrix, runs: Runs) -> dict[str, Figure]:
    """All figures by file name; those of a simulated campaign say what they are."""
    figures = {
        "matrix": heat_map(document, table),
        "trade-off": trade_off(document, table),
        "distributions": distributions(document, table, runs),
    }
    if document.simulated:
        for figure in figures.values():
            mark_simulated(figure, LIGHT)
    return figures


_COLUMNS: Final = 3
_STYLE: Final[Any] = {**STYLE, "font.size": 8}
_FEW_LABELS: Final = 8


def draw_trend(
    trend: Sequence[Trend],
    campaigns: Sequence[CampaignSummary],
    *,
    colours: Mapping[str, str] = LIGHT,
) -> Figure:
    """The share of lossy runs over all campaigns, a panel for each cell of `trend`."""
    rows, labels = math.ceil(len(trend) / _COLUMNS), _labels(campaigns)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(10.4, 0.55 + 1.75 * rows), facecolor=colours["paper"])
        figure.set_layout_engine("constrained", h_pad=0.08, w_pad=0.08)
        panels = figure.subplots(rows, _COLUMNS, sharex=True, sharey=True, squeeze=False).flat
        for panel in panels[len(trend) :]:
            panel.set_visible(False)
        for place, (panel, cell) in enumerate(zip(panels, trend, strict=False)):
            _draw_cell(panel, cell, colours)
            _draw_axes(panel, labels, colours)
            panel.tick_params(labelbottom=place + _COLUMNS >= len(trend))  # lowest of its column
        if any(campaign.simulated for campaign in campaigns):
            mark_simulated(figure, colours)
        return figure


def _draw_cell(panel: Axes, cell: Trend, colours: Mapping[str, str]) -> None:
    panel.set_title(_wrapped(visible(cell.name)), loc="left", fontsize=8, color=colours["ink"])
    for stretch in _unbroken(cell.campaigns):
        places = [each.campaign for each in stretch]
        shares = [each.lossy_share for each in stretch]
        numbers = [(share.shown_low, share.shown_high, share.shown) for share in shares]
        low, high, estimates = np.array(numbers, np.float64).T
        panel.fill_between(places, low, high, color=colours["survived"], alpha=0.25, lw=0)
        panel.vlines(places, low, high, color=colours["survived"], lw=1)
        panel.plot(places, estimates, "-o", color=colours["ink"], lw=1.2, ms=3.5, zorder=3)
    silent = [each.campaign for each in cell.campaigns if not each.conclusive]
    panel.plot(silent, [0.5] * len(silent), "x", color=colours["info"], ms=5, mew=1.4)


def _unbroken(points: Sequence[TrendPoint]) -> list[list[TrendPoint]]:
    """The stretches of consecutive campaigns with conclusive runs."""
    shown = enumerate(each for each in points if each.conclusive)
    # Within a stretch the campaign grows as the place does.
    stretches = groupby(shown, key=lambda pair: pair[1].campaign - pair[0])
    return [[point for _, point in stretch] for _, stretch in stretches]


def _draw_axes(panel: Axes, labels: Sequence[str], colours: Mapping[str, str]) -> None:
    plain(panel, colours)
    panel.set_ylim(-0.04, 1.04)
    panel.set_xlim(-0.4, len(labels) - 0.6)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share * 100:.0f} %"))
    step = math.ceil(len(labels) / _FEW_LABELS)
    panel.set_xticks(range(0, len(labels), step), labels[::step], rotation=30, ha="right")
    panel.grid(axis="y", color=colours["rule"], lw=0.6)


def _labels(campaigns: Sequence[CampaignSummary]) -> list[str]:
    """The days on which the campaigns began; their names where one day has several."""
    days = [campaign.started[5:10] for campaign in campaigns if campaign.started]
    if len(set(days)) == len(campaigns):
        return days
    return [visible(campaign.id)[:12] for campaign in campaigns]


def _wrapped(text: str, *, width: int = 44) -> str:
    """At most two lines, broken at a comma if possible."""
    if len(text) <= width:
        return text
    at = text.rfind(", ", 0, width)
    at = at + 2 if at > 0 else width
    rest = text[at:]
    return f"{text[:at]}\n{rest if len(rest) <= width else rest[: width - 1] + '…'}"
