"""Quantiles of latencies, as Jepsen has them."""

from __future__ import annotations

import numpy as np

from checkers.sets.checker import POINTS, quantiles_ns
from harness.protocols.runs import NULL


def of(*latencies_ns: int) -> dict[str, int]:
    return quantiles_ns(np.array(latencies_ns, np.int64))


def test_quantiles_are_at_the_place_below() -> None:
    assert of(*range(100, 0, -1)) == {"0": 1, "0.5": 51, "0.95": 96, "0.99": 100, "1": 100}
    assert of(3, 4) == {"0": 3, "0.5": 4, "0.95": 4, "0.99": 4, "1": 4}
    assert of(5) == dict.fromkeys(POINTS, 5)


def test_unknown_latencies_are_left_out() -> None:
    assert of(NULL, 7, NULL) == dict.fromkeys(POINTS, 7)
    assert of(NULL) == {}
