"""Writes per second: an attempt counts when it was due, an acknowledgement when the answer came.

The acknowledgements of a bar are split into survived, absent and lost. A queue that is acknowledged
at once after a stall, and then lost, is therefore visible as one tall bar of lost writes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.latency import ABSENT, LOST, outcome_is
from harness.protocols import OK

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
