"""The colours of figures and pages, on light and on dark paper.

They come from Paul Tol's schemes (bright, vibrant), which colour-blind readers can distinguish. The
pairs that matter most (survived and lost, leads and in sync) also differ in lightness, for print in
grey. Colour is never the only sign: a lost write is a cross at the top of its bar, and a belief is
hatched.
"""

from __future__ import annotations

from typing import Final

LIGHT: Final = {
    "paper": "#ffffff",
    "panel": "#f6f7f9",
    "ink": "#1b232e",
    "muted": "#5a6573",
    "rule": "#dfe3e8",
    "survived": "#4477aa",
    "lost": "#c8310f",
    "fail": "#6f7680",
    "info": "#a86e00",
    "absent": "#9c2c74",
    "leads": "#17705f",
    "insync": "#b3d6cd",
    "fault-1": "#e0b23e",
    "fault-2": "#8f7fd0",
    "fault-3": "#5aa5b8",
    "valid": "#17705f",
}

DARK: Final = {
    "paper": "#11161d",
    "panel": "#1a212b",
    "ink": "#e4e9f0",
    "muted": "#9ba7b6",
    "rule": "#2c3643",
    "survived": "#6fa8dc",
    "lost": "#ff7350",
    "fail": "#a3abb6",
    "info": "#eab141",
    "absent": "#dd86bd",
    "leads": "#43bfa3",
    "insync": "#245e52",
    "fault-1": "#c79a2b",
    "fault-2": "#8a7ad6",
    "fault-3": "#4a97ab",
    "valid": "#43bfa3",
}

FAULT_TINTS: Final = 3
"""The number of tints for faults; further faults repeat them."""
