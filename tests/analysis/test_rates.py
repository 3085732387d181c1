"""Writes per second: attempted when due, acknowledged when answered, nothing dropped."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.latency import OUTCOMES
from analysis.timeline import BARS_AT_MOST, bar_width_s, rates


def frame_of(*writes: tuple[float, float, str]) -> pd.DataFrame:
    begin_s, latency_ms, outcome = zip(*writes, strict=True)
    return pd.DataFrame(
        {
            "begin_s": np.array(begin_s),
            "latency_ms": np.array(latency_ms, dtype=np.float32),
            "outcome": np.array([OUTCOMES.index(name) for name in outcome], dtype=np.int8),
        }
    )


def test_a_queue_that_is_acknowledged_at_once_shows_where_it_was_acknowledged() -> None:
    frame = frame_of(
        (0.5, 3000, "lost"), (1.5, 2000, "lost"), (2.5, 1000, "lost"), (3.6, 1, "ok"),
        (3.7, 1, "absent"), (3.8, 8000, "info"), (3.9, float("nan"), "open"), (3.9, 5, "fail"),
    )  # fmt: skip
    bars = rates(frame, start_s=0, end_s=4, width_s=1)
    assert list(bars["from_s"]) == [0, 1, 2, 3]
    assert list(bars["attempted"]) == [1, 1, 1, 5]
    assert list(bars["lost"]) == [0, 0, 0, 3]
    assert list(bars["survived"]) == [0, 0, 0, 1]
    assert list(bars["absent"]) == [0, 0, 0, 1]


def test_writes_on_or_beyond_the_edge_are_in_the_last_bar() -> None:
    bars = rates(frame_of((9.9, 100, "ok"), (9.9, 5000, "ok")), start_s=8, end_s=10, width_s=1)
    assert list(bars["survived"]) == [0, 2]
    assert list(bars["from_s"]) == [8, 9]


@pytest.mark.parametrize(
    ("length_s", "width_s"), [(1, 1), (480, 1), (481, 2), (3600, 10), (86_400, 300)]
)
def test_bars_are_as_wide_as_a_picture_allows(length_s: float, width_s: int) -> None:
    assert bar_width_s(length_s) == width_s
    assert length_s / width_s <= BARS_AT_MOST
