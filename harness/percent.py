"""Shares and their differences as text that never rounds something to nothing, or to everything."""

from __future__ import annotations

import math


def percent(share: float) -> str:
    """A number from 0 on as a percentage; it reads 0 % or 100 % only if it is exactly that. The
    rate of unacknowledged success may be more than 1."""
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    room = min(100 * share, abs(100 - 100 * share))
    return f"{100 * share:.{max(1, 1 - _magnitude(room))}f} %"


def points(difference: float) -> str:
    """A difference of two shares in percentage points, with its sign; it reads 0 only if it is
    exactly that."""
    if not difference:
        return "0"
    value = 100 * difference
    return f"{value:+.{max(1, -_magnitude(abs(value)))}f}".replace("-", "−")


def _magnitude(value: float) -> int:
    """The power of ten of the first significant digit."""
    return math.floor(math.log10(value))
