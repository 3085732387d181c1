"""Shares and differences as text: nothing rounds to nothing, or to everything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.protocols.checkers import percent, points


@given(st.fractions(0, 1, max_denominator=10**9).map(float))
def test_only_nothing_reads_0_and_only_everything_100_percent(share: float) -> None:
    shown = float(percent(share).removesuffix(" %"))
    assert (shown == 0) == (share == 0)
    assert (shown == 100) == (share == 1)
    assert shown == pytest.approx(100 * share, abs=0.06)


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        (0.35, "+35.0"),
        (0.04, "+4.0"),
        (0.003, "+0.3"),
        (-0.003, "−0.3"),
        (-0.00004, "−0.004"),
        (0.0, "0"),
        (-0.0, "0"),
        (-1.0, "−100.0"),
    ],
)
def test_a_difference_reads_0_only_if_it_is(difference: float, text: str) -> None:
    assert points(difference) == text
