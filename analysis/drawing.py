"""The style, the axes and the file formats that all figures share.

Text is drawn as outlines, so a picture looks the same everywhere and needs no font. TeX parsing is
off, so text from a run is never markup.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.protocols.clusters import SIMULATED

STYLE: Final[Any] = {
    "text.parse_math": False,
    "svg.hashsalt": "ackloss",
    "font.size": 9,
    "hatch.linewidth": 1.1,
}


def svg(figure: Figure) -> bytes:
    """The figure as SVG, the same bytes for the same data."""
    with mpl.rc_context(STYLE):
        return _saved(figure, "svg", metadata={"Date": None, "Creator": None})


def png(figure: Figure) -> bytes:
    """The figure as PNG, for mail."""
    with mpl.rc_context(STYLE):
        return _saved(figure, "png", metadata={"Software": None})


def plain(panel: Axes, colours: Mapping[str, str]) -> None:
    """Axes without a box, with quiet ticks."""
    panel.set_facecolor(colours["paper"])
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        panel.spines[side].set_color(colours["rule"])
    panel.tick_params(colors=colours["muted"], labelcolor=colours["muted"], length=3)


def mark_simulated(figure: Figure, colours: Mapping[str, str]) -> None:
    """Write on the picture that nothing real was tested: it is seen without its page too."""
    figure.text(
        0.995, 0.995, SIMULATED, ha="right", va="top", fontsize=8, weight="bold",
        color=colours["info"],
    )  # fmt: skip


def _saved(figure: Figure, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format=kind, dpi=144, facecolor=figure.get_facecolor(), **options)
    return stream.getvalue()
