"""Intervals for a share: published numbers, exact coverage, and properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.statistics.intervals import (
    CLOPPER_PEARSON,
    WILSON,
    Share,
    bounds,
    chosen_by_outcome,
    limits_over_all,
    share_estimate,
    share_in_words,
)
from bench.coverage import (
    EXACT_AT_LEAST,
    RUNS,
    SHARES,
    WILSON_AT_LEAST,
    WILSON_ON_AVERAGE,
    reckoned,
    simulated,
    wilson_on_average,
)
from tests.fixtures.synthetic_results import shares

METHODS = (CLOPPER_PEARSON, WILSON)


@pytest.mark.parametrize(
    ("part", "whole", "method", "low", "high"),
    [  # Newcombe 1998, Statistics in Medicine 17:857, table I: methods 5 (exact) and 3 (score)
        (81, 263, CLOPPER_PEARSON, 0.2527, 0.3676),
        (15, 148, CLOPPER_PEARSON, 0.0578, 0.1617),
        (0, 20, CLOPPER_PEARSON, 0.0, 0.1684),
        (1, 29, CLOPPER_PEARSON, 0.0009, 0.1776),
        (81, 263, WILSON, 0.2553, 0.3662),
        (15, 148, WILSON, 0.0624, 0.1605),
        (0, 20, WILSON, 0.0, 0.1611),
        (1, 29, WILSON, 0.0061, 0.1718),
    ],
)
def test_published_intervals(part: int, whole: int, method: str, low: float, high: float) -> None:
    found = bounds(Share(part, whole), method=method, confidence=0.95)
    assert found == pytest.approx((low, high), abs=5e-5)
    assert share_estimate(Share(part, whole)).estimate == part / whole


def test_losses_are_said_where_no_run_counts() -> None:
    """Once nothing was said of four runs of four that had lost writes."""
    assert share_in_words(Share(0, 0), Share(4, 4)) == "no conclusive run; 4 of 4 others lost"
    assert share_in_words(Share(0, 0), Share(0, 4)) == "no conclusive run"


def test_a_share_in_words() -> None:
    assert share_in_words(Share(0, 50)) == "0 of 50: at most 7.1 %"
    assert share_in_words(Share(50, 50)) == "50 of 50: at least 92.9 %"
    assert share_in_words(Share(3, 20)) == "3 of 20: 15.0 % (3.2 % to 37.9 %)"
    assert share_in_words(Share(0, 7402)) == "0 of 7402: at most 0.050 %"
    assert share_in_words(Share(1, 2100)) == "1 of 2100: 0.048 % (0.0012 % to 0.27 %)"
    assert share_in_words(Share(4999, 5000)) == "4999 of 5000: 99.980 % (99.89 % to 99.99949 %)"
    assert share_in_words(Share(0, 0)) == "no conclusive run"


def test_without_runs_only_the_reason_is_given() -> None:
    estimate = share_estimate(Share(0, 0))
    assert (estimate.estimate, estimate.low, estimate.high) == (None, None, None)
    assert estimate.why == "no conclusive run"


@pytest.mark.parametrize(("part", "whole"), [(-1, 3), (4, 3)])
def test_a_part_outside_the_whole_is_an_error(part: int, whole: int) -> None:
    with pytest.raises(ValueError, match="is not a share"):
        Share(part, whole)


@given(shares(400), st.sampled_from(METHODS))
def test_the_interval_covers_the_share_mirrors_and_grows(share: Share, method: str) -> None:
    others = Share(share.whole - share.part, share.whole)
    one_more = Share(share.part + 1, share.whole + 1)
    (low, high), (_, mirrored), more = (
        bounds(each, method=method, confidence=0.95) for each in (share, others, one_more)
    )
    assert 0 <= low <= share.part / share.whole + 1e-12
    assert share.part / share.whole - 1e-12 <= high <= 1
    assert low == pytest.approx(1 - mirrored, abs=1e-9)
    assert more[0] >= low - 1e-12
    assert more[1] >= high - 1e-12


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("share", SHARES)
def test_coverage(share: float, runs: int) -> None:
    for method, least in ((CLOPPER_PEARSON, EXACT_AT_LEAST), (WILSON, WILSON_AT_LEAST)):
        covered = reckoned(share, runs, method)
        assert covered >= least
        # 2,000 simulated campaigns agree within four standard errors
        error = 4 * (covered * (1 - covered) / 2_000) ** 0.5
        assert simulated(share, runs, method) == pytest.approx(covered, abs=error)


@pytest.mark.parametrize("runs", RUNS)
def test_coverage_over_all_shares(runs: int) -> None:
    assert wilson_on_average(runs) >= WILSON_ON_AVERAGE
    assert min(reckoned(share / 200, runs, CLOPPER_PEARSON) for share in range(1, 200)) >= 0.95


def test_where_the_others_are_lossy_more_often_the_bounds_stand_instead_of_the_interval() -> None:
    """The published case: 0 of 88, and 6 of the other 12 lost."""
    low, high = limits_over_all(Share(0, 88), Share(6, 12))
    assert (low, high) == pytest.approx((0.0223, 0.2002), abs=1e-4)
    assert low == bounds(Share(6, 100), method=CLOPPER_PEARSON, confidence=0.95)[0]
    assert high == bounds(Share(12, 100), method=CLOPPER_PEARSON, confidence=0.95)[1]
    words = share_in_words(Share(0, 88), Share(6, 12))
    assert words == "0 of 88; 6 of 12 others lost: 2.2 % to 20.0 % of all 100"
    inconsistent = share_in_words(Share(0, 88), Share(6, 12), head="inconsistent")
    assert "6 of 12 others inconsistent" in inconsistent


def test_where_the_others_are_not_lossy_more_often_the_interval_stands() -> None:
    for share, others in (
        (Share(0, 88), Share(0, 12)),
        (Share(44, 88), Share(6, 12)),
        (Share(80, 88), Share(1, 12)),
    ):
        assert not chosen_by_outcome(share, others)
        assert share_in_words(share, others) == share_in_words(share)
    assert not chosen_by_outcome(Share(0, 0), Share(6, 12))
    assert chosen_by_outcome(Share(43, 88), Share(6, 12))
