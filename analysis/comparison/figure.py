"""The trend over campaigns as a picture: a small panel for each cell, the share with its interval.

The interval is a band with whiskers, so it is readable in grey. A campaign without a conclusive run
in a cell leaves a gap with its own mark.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from analysis.comparison.model import Trend, TrendPoint
from analysis.comparison.sampled import CampaignSummary
from analysis.drawing import STYLE, mark_simulated, plain
from analysis.palette import LIGHT
from analysis.visible import visible

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
    stretches: list[list[TrendPoint]] = []
    for each in points:
        if not each.conclusive:
            continue
        if stretches and stretches[-1][-1].campaign == each.campaign - 1:
            stretches[-1].append(each)
        else:
            stretches.append([each])
    return stretches


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
