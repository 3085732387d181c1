"""Draw loss against availability for each min.insync.replicas, from a campaign's table of cells.

    python -m scripts.majority CELLS.csv PICTURE.png AXIS=VALUE[,NAME=VALUE ...] ...

Each group of pairs is one line: the cells that have them, along the axis `min_isr`. Above, the
share of conclusive runs that lost acknowledged writes, with what `scripts/published.py` prints of
it; below, the longest time without an acknowledgement (median of runs).
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from analysis.drawing import LIGHT, STYLE, plain, png
from scripts.published import counts, shown

COLOURS = ("lost", "survived", "leads", "absent")


def draw(cells: pd.DataFrame, groups: list[str]) -> bytes:
    """The picture, as PNG. Raises ValueError for a group without a cell."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 5.2), layout="constrained", facecolor=LIGHT["paper"])
        above, below = figure.subplots(2, 1, sharex=True)
        for panel in (above, below):
            plain(panel, LIGHT)
        for place, (group, colour) in enumerate(zip(groups, COLOURS, strict=False)):
            pairs = set(group.split(","))
            found = cells[[pairs <= set(name.split(", ")) for name in cells["name"]]]
            chosen = found.sort_values("key.min_isr").to_dict("records")
            if not chosen:
                raise ValueError(f"no cell has {group!r}")
            sizes = [row["key.min_isr"] + 0.05 * place for row in chosen]
            share = [shown(*counts(row)) for row in chosen]
            label = (
                f"{group.replace(',', ', ')}: n = {_range([row['conclusive'] for row in chosen])}"
            )
            errors = [
                [each["shown"] - each["shown_low"] for each in share],
                [each["shown_high"] - each["shown"] for each in share],
            ]
            look = {"color": LIGHT[colour], "marker": "o", "markersize": 4}
            above.errorbar(
                sizes, [s["shown"] for s in share], errors, label=label, capsize=3, **look
            )
            below.plot(sizes, [row["longest_gap_s.median"] for row in chosen], **look)
        above.set_ylim(-0.02, 1.02)
        above.set_ylabel("runs that lost acknowledged writes")
        above.legend(frameon=False, fontsize=8)
        below.set_ylim(bottom=0)
        below.set_ylabel("longest time without\nan acknowledgement, s")
        below.set_xlabel("min.insync.replicas")
        below.set_xticks(sorted(cells["key.min_isr"].unique()))
    return png(figure)


def _range(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(draw(pd.read_csv(sys.argv[1]), sys.argv[3:]))
