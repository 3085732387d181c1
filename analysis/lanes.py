"""The lanes of the still timeline: the ISR's size of each partition, and the role of each node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from analysis.timeline import Timeline
from analysis.visible import visible

PARTITIONS_AT_MOST: Final = 3
"""The number of partitions with lanes; those with the most lost writes come first."""

_LEGEND: Final = {
    "leads": "leads",
    "insync": "in sync",
    "believes": "believes that it leads, but was overtaken",
}


class Span(NamedTuple):
    """A node's role (`leads`, `insync`, `believes`) during an interval."""

    role: str
    from_s: float
    to_s: float


@dataclass(frozen=True)
class Lane:
    """A row of bars, or the sizes of the ISR, each with the instant of its change."""

    label: str
    spans: list[Span] = field(default_factory=list)
    sizes: list[tuple[float, int]] = field(default_factory=list)


def lanes(line: Timeline) -> list[Lane]:
    """For each partition on the picture, one lane for the size of the ISR and one for each node."""
    who, rows = line.leadership, []
    for partition in line.by_loss[:PARTITIONS_AT_MOST]:
        views = who.views[who.views["partition"] == partition]
        beliefs = who.beliefs[who.beliefs["partition"] == partition]
        rows.append(Lane(f"p{partition}: in sync", sizes=list(_sizes(views))))
        rows += [Lane(node, spans=list(_spans(views, beliefs, node))) for node in line.nodes]
    return rows


def _sizes(views: pd.DataFrame) -> Iterator[tuple[float, int]]:
    before = None
    for from_s, members in zip(views["from_s"], views["members"], strict=True):
        if len(members) != before:
            yield from_s, len(members)
        before = len(members)


def _spans(views: pd.DataFrame, beliefs: pd.DataFrame, node: str) -> Iterator[Span]:
    columns = (views[name] for name in ("from_s", "to_s", "leader", "members"))
    for from_s, to_s, leader, members in zip(*columns, strict=True):
        if leader == node or node in members:
            yield Span("leads" if leader == node else "insync", from_s, to_s)
    claimed = beliefs[beliefs["node"] == node]
    for from_s, to_s in zip(claimed["from_s"], claimed["to_s"], strict=True):
        yield Span("believes", from_s, to_s)


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
            bars = [
                (span.from_s, span.to_s - span.from_s) for span in row.spans if span.role == role
            ]
            panel.broken_barh(bars, (place + 0.12, 0.76), **style)
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
