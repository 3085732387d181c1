"""Histograms of latencies: Jepsen's quantiles, and exact merging."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from checkers.sets.checker import POINTS, Latencies, merged
from harness.protocols.runs import NULL


def of(*latencies_ns: int) -> Latencies:
    return Latencies.of(np.array(latencies_ns, np.int64))


def test_quantiles_are_at_the_place_below() -> None:
    hundred = of(*range(100, 0, -1))
    assert hundred.quantiles_ns() == {"0": 1, "0.5": 51, "0.95": 96, "0.99": 100, "1": 100}
    assert of(3, 4).quantiles_ns() == {"0": 3, "0.5": 4, "0.95": 4, "0.99": 4, "1": 4}
    assert of(5).quantiles_ns() == dict.fromkeys(POINTS, 5)


def test_unknown_latencies_are_left_out() -> None:
    assert of(NULL, 7, NULL).quantiles_ns() == dict.fromkeys(POINTS, 7)
    assert of(NULL).quantiles_ms() == {}


def test_milliseconds_are_to_the_microsecond() -> None:
    assert of(1_234_567).quantiles_ms() == dict.fromkeys(POINTS, 1.235)


@given(st.lists(st.lists(st.integers(0, 5)), max_size=4))
def test_merged_is_as_of_all(parts: list[list[int]]) -> None:
    whole = of(*(latency for part in parts for latency in part))
    together = merged(of(*part) for part in parts)
    assert together.ns.tolist() == whole.ns.tolist()
    assert together.number.tolist() == whole.number.tolist()
    assert together.quantiles_ns() == whole.quantiles_ns()
