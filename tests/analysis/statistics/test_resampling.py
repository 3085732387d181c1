"""Means, ratios and medians over runs: known values, missing intervals, and properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.statistics.intervals import (
    BCA,
    MIN_NONZERO,
    Share,
    mean_difference,
    mean_estimate,
    mean_of_differences,
    ratio_estimate,
    share_estimate,
    spread,
)
from bench.coverage import of_means
from tests.fixtures.budget import budget

pytestmark = pytest.mark.slow

rates = st.lists(st.floats(0.01, 1), min_size=12, max_size=60).map(np.array)


def test_a_mean_of_many_is_within_the_normal_interval() -> None:
    values = np.random.default_rng(1).beta(2, 2, 400)
    found = mean_estimate(values)
    error = 1.96 * values.std(ddof=1) / 20
    assert found.method == BCA
    assert found.low == pytest.approx(values.mean() - error, abs=0.1 * error)
    assert found.high == pytest.approx(values.mean() + error, abs=0.1 * error)


def test_few_lossy_runs_have_no_interval_but_a_bound() -> None:
    values = np.array([0.0] * 41 + [0.9] * (MIN_NONZERO - 1))
    found = spread(values, bounded=True)
    assert (found.low, found.high, found.method) == (None, None, None)
    assert found.why == "9 runs are above 0, a bootstrap needs 10"
    assert found.at_most == share_estimate(Share(9, 50)).high
    assert found.mean == pytest.approx(0.162)
    assert spread(values, bounded=False).at_most is None


def test_ten_lossy_runs_have_an_interval() -> None:
    found = spread(np.array([0.0] * 40 + [0.9] * 9 + [0.8]), bounded=True)
    assert 0 < found.low < found.mean < found.high < 1
    assert (found.why, found.at_most) == (None, None)


def test_fifty_runs_without_loss() -> None:
    found = spread(np.zeros(50), bounded=True)
    assert found.mean == 0
    assert found.at_most == pytest.approx(0.0711, abs=1e-4)
    assert found.why == "0 runs are above 0, a bootstrap needs 10"


def test_identical_runs_have_no_interval() -> None:
    found = mean_estimate(np.full(20, 0.5))
    assert (found.estimate, found.low, found.high) == (0.5, None, None)
    assert found.why == "all runs have the same value, so nothing varies"


def test_without_runs_only_the_reason_is_given() -> None:
    none = np.empty(0)
    assert spread(none, bounded=True).why == "no conclusive run"
    assert mean_difference(none, np.ones(3)).why == "no conclusive run"
    assert ratio_estimate(none, none).why == "there is nothing to divide by"


def test_the_median_lies_between_ranks_of_the_runs() -> None:
    # Of 50 runs, the 18th and the 33rd: P(18 <= B(50, 1/2) < 33) = 0.967 (Conover 1999).
    found = spread(np.arange(1.0, 51), bounded=False)
    assert (found.median_low, found.median, found.median_high) == (18, 25.5, 33)
    assert spread(np.arange(5.0), bounded=False).median_low is None


def test_a_pooled_rate_treats_the_writes_of_a_run_as_one_event() -> None:
    """Half of 40 runs lose half of 1,000 writes. With independent writes the interval would be ten
    times shorter."""
    lost, acknowledged = np.array([500.0] * 20 + [0.0] * 20), np.full(40, 1000.0)
    found = ratio_estimate(lost, acknowledged)
    assert found.estimate == 0.25
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.25 / 40**0.5, rel=0.05)
    one_by_one = share_estimate(Share(10_000, 40_000))
    assert one_by_one.low is not None
    assert one_by_one.high is not None
    assert found.high - found.low > 10 * (one_by_one.high - one_by_one.low)


def test_a_pooled_rate_resamples_lost_and_acknowledged_together() -> None:
    """Every run loses half of its acknowledged writes, and runs differ by a factor of 100 in their
    number: the rate is a half in any resample of pairs. Resampled apart, it could be anything."""
    acknowledged = np.linspace(100, 10_000, 40)
    lost = acknowledged / 2 + np.resize([1.0, -1.0], 40)
    found = ratio_estimate(lost, acknowledged)
    assert found.estimate == pytest.approx(0.5)
    assert 0.499 < found.low < 0.5 < found.high < 0.501


def test_the_interval_of_a_difference_reflects_both_samples() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.beta(2, 2, 200), rng.beta(2, 5, 300)
    found = mean_difference(a, b)
    error = 1.96 * (a.var(ddof=1) / 200 + b.var(ddof=1) / 300) ** 0.5
    assert found.estimate == pytest.approx(b.mean() - a.mean())
    assert found.low == pytest.approx(found.estimate - error, abs=0.1 * error)
    assert found.high == pytest.approx(found.estimate + error, abs=0.1 * error)


def test_a_difference_of_means_needs_losses_on_both_sides() -> None:
    lossy = np.linspace(0.1, 0.9, 30)
    assert mean_difference(lossy, np.zeros(30)).why == "0 runs are above 0, a bootstrap needs 10"
    found = mean_difference(lossy, lossy / 2)
    assert found.estimate == pytest.approx(-0.25)
    assert found.low < -0.25 < found.high < 0


@settings(max_examples=25, deadline=None)
@given(rates)
def test_an_interval_covers_its_mean_and_is_reproducible(values: np.ndarray) -> None:
    found = mean_estimate(values)
    assert mean_estimate(values) == found
    if found.low is not None:
        assert values.min() - 1e-9 <= found.low <= values.mean() + 1e-9
        assert values.mean() - 1e-9 <= found.high <= values.max() + 1e-9


@settings(max_examples=25, deadline=None)
@given(rates)
def test_an_interval_scales_with_its_numbers(values: np.ndarray) -> None:
    found, doubled = mean_estimate(values), mean_estimate(values * 2)
    if found.low is not None and doubled.low is not None:
        assert doubled.low == pytest.approx(2 * found.low)


def test_coverage_of_means() -> None:
    """A few campaigns; docs/reference/statistics.md has all of them, in more sizes."""
    rare, often = (
        of_means(0.1, 20, campaigns=budget(60, 100)),
        of_means(0.5, 50, campaigns=budget(60, 150)),
    )
    assert rare["given"] < 0.01
    assert rare["bound"] >= 0.95
    assert often["given"] > 0.99
    assert often["mean"] >= 0.9
    assert often["pooled"] >= 0.9


@pytest.mark.parametrize(("same", "pairs"), [(0.01, 10), (0.01, 12), (0.5, 20), (0.5, 50)])
def test_pairs_of_which_one_differs_otherwise_have_no_interval(same: float, pairs: int) -> None:
    """A third of the resamples do not have that one, and do not vary."""
    apart = np.array([same] * (pairs - 1) + [2 * same])
    found = mean_of_differences(np.zeros(pairs), apart)
    assert found.estimate == pytest.approx(apart.mean())
    assert (found.low, found.high) == (None, None)
    assert found.why == "nearly all pairs differ by the same, so too many resamples do not vary"


def test_pairs_that_vary_enough_have_an_interval() -> None:
    found = mean_of_differences(np.zeros(40), np.array([0.01] * 30 + [0.02] * 10))
    assert found.low is not None
    assert found.high is not None
    assert 0.005 < found.low < 0.0125 < found.high < 0.02
