"""The colours, the style, the axes and the file formats that all figures share; pages have the same
colours, on light and on dark paper.

The colours come from Paul Tol's schemes (bright, vibrant), which colour-blind readers can
distinguish. The pairs that matter most (survived and lost, leads and in sync) also differ in
lightness, for print in grey. Colour is never the only sign: a lost write is a cross at the top of
its bar, and a belief is hatched.

Text is drawn as outlines, so a picture looks the same everywhere and needs no font. A picture that
a page embeds has it as text instead: a page of many cells is four times smaller that way. TeX
parsing is off, so text from a run is never markup.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from analysis.wording import visible
from harness.protocols.clusters import SIMULATED

_COLOURS: Final = {
    "paper": ("#ffffff", "#11161d"),
    "panel": ("#f6f7f9", "#1a212b"),
    "ink": ("#1b232e", "#e4e9f0"),
    "muted": ("#5a6573", "#9ba7b6"),
    "rule": ("#dfe3e8", "#2c3643"),
    "survived": ("#4477aa", "#6fa8dc"),
    "lost": ("#c8310f", "#ff7350"),
    "fail": ("#6f7680", "#a3abb6"),
    "info": ("#a86e00", "#eab141"),
    "absent": ("#9c2c74", "#dd86bd"),
    "leads": ("#17705f", "#43bfa3"),
    "insync": ("#b3d6cd", "#245e52"),
    "fault-1": ("#e0b23e", "#c79a2b"),
    "fault-2": ("#8f7fd0", "#8a7ad6"),
    "fault-3": ("#5aa5b8", "#4a97ab"),
    "valid": ("#17705f", "#43bfa3"),
}
LIGHT, DARK = ({name: both[at] for name, both in _COLOURS.items()} for at in (0, 1))
"""The colours on light and on dark paper."""

FAULT_TINTS: Final = 3
"""The number of tints for faults; further faults repeat them."""


Picture: TypeAlias = Figure
"""What is drawn; other packages name no matplotlib."""

STYLE: Final[Any] = {
    "text.parse_math": False,
    "svg.hashsalt": "ackloss",
    "font.size": 9,
    "hatch.linewidth": 1.1,
}


def svg(figure: Figure, *, outlines: bool = True) -> bytes:
    """The figure as SVG, the same bytes for the same data; without `outlines`, its letters are
    text in the reader's own font."""
    with mpl.rc_context(STYLE if outlines else {**STYLE, **_AS_TEXT}):
        drawn = _compact(_saved(figure, "svg", metadata={"Date": None, "Creator": None}))
    if outlines:
        return drawn
    small = _PIXELS.sub(_fewer_colours, _without_repeats(_PLAIN_TEXT.sub(b"", drawn)))
    return visible(small.decode()).encode()  # XML allows no control characters


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


_AS_TEXT: Final[Any] = {"svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"]}
_PLAIN_TEXT: Final = re.compile(
    rb"(?<=font-family: )'DejaVu Sans', | transform=\"rotate\(-0 [^)]*\)\""
)
_PIXELS: Final = re.compile(rb"(?<=data:image/png;base64,)[A-Za-z0-9+/=\s]+")
_MOST_COLOURS: Final = 64


def _fewer_colours(encoded: re.Match[bytes]) -> bytes:
    """Pixels of a few tints and their blends, as a palette: a third of the bytes."""
    stream = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(encoded[0]))) as pixels:
        fewer = pixels.convert("RGBA").quantize(_MOST_COLOURS, method=Image.Quantize.FASTOCTREE)
        fewer.save(stream, "PNG", optimize=True)
    return base64.b64encode(stream.getvalue())


_METADATA: Final = re.compile(rb"<metadata>.*?</metadata>", re.DOTALL)
_TAGS: Final = re.compile(rb"<[^<>]+>")
_REFERENCES: Final = re.compile(rb"#([\w.-]+)")
_IDS: Final = re.compile(rb' id="([^"]*)"')
_STYLES: Final = re.compile(rb' style="([^"]*)"')
_GROUPS: Final = re.compile(rb"<g>([^<]*(?:<(?!/?g\b)[^<]*)*)</g>|<g/>")
_LINES: Final = re.compile(rb"\n\s*")


def _without_repeats(drawn: bytes) -> bytes:
    """The same picture in half as many bytes: each style once, as a class, no id that nothing
    refers to, and no group that changes nothing. Only tags are changed, never text."""
    used = set(_REFERENCES.findall(drawn))
    classes: dict[bytes, bytes] = {}

    def classed(style: re.Match[bytes]) -> bytes:
        return b' class="%s"' % classes.setdefault(style[1], b"s%d" % len(classes))

    def smaller(tag: re.Match[bytes]) -> bytes:
        named = _IDS.sub(lambda each: each[0] if each[1] in used else b"", tag[0])
        return _STYLES.sub(classed, named)

    small = _TAGS.sub(smaller, _METADATA.sub(b"", drawn))
    rules = b"".join(b".%s{%s}" % (name, style) for style, name in classes.items())
    small, left = small.replace(b"</style>", rules + b"</style>", 1), 1
    while left:
        small, left = _GROUPS.subn(rb"\1", small)
    return _LINES.sub(b"\n", small)


_COMMENTS: Final = re.compile(rb"\s*<!--.*?-->", re.DOTALL)
_SPACES: Final = re.compile(rb"\s+")
_GLYPHS: Final = re.compile(rb"DejaVuSans-")
_LETTERS: Final = re.compile(rb'(<use xlink:href="[^"]*") transform="translate\(([-\d.]+) 0\)"/>')
_LONG_NUMBERS: Final = re.compile(rb"(?<!scale\()-?\d+\.\d{3,}")


def _compact(drawn: bytes) -> bytes:
    """The same picture in half as many bytes: matplotlib writes a millionth of a point, and the
    name of the font at every letter. (The scale of an outline is left as it is.)"""
    small = _SPACES.sub(b" ", _COMMENTS.sub(b"", drawn))
    small = _LETTERS.sub(rb'\1 x="\2"/>', _GLYPHS.sub(b"g", small)).replace(b"> <", b">\n<")
    return _LONG_NUMBERS.sub(lambda each: b"%g" % round(float(each[0]), 1), small)


def _saved(figure: Figure, kind: str, **options: Any) -> bytes:
    """Points by the thousand are pixels even in an SVG: fewer there, as a page holds it twice."""
    stream, dpi = io.BytesIO(), 96 if kind == "svg" else 144
    figure.savefig(stream, format=kind, dpi=dpi, facecolor=figure.get_facecolor(), **options)
    return stream.getvalue()
