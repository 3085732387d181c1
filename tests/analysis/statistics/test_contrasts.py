"""Two shares: published intervals and p-values, Barnard's test on a grid, power by summation."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from analysis.statistics.contrasts import (
    BARNARD,
    FISHER,
    adjusted,
    difference,
    exact_test,
    runs_needed,
)
from analysis.statistics.intervals import Share
from tests.fixtures.budget import full_of
from tests.fixtures.synthetic_results import shares

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("b", "a", "low", "high"),
    [  # Newcombe 1998, Statistics in Medicine 17:873, table II, method 10
        (Share(56, 70), Share(48, 80), 0.0524, 0.3339),
        (Share(9, 10), Share(3, 10), 0.1705, 0.8090),
        (Share(6, 7), Share(2, 7), 0.0582, 0.8062),
        (Share(5, 56), Share(0, 29), -0.0381, 0.1926),
        (Share(0, 10), Share(0, 20), -0.1611, 0.2775),
        (Share(0, 10), Share(0, 10), -0.2775, 0.2775),
        (Share(10, 10), Share(0, 20), 0.6791, 1.0),
        (Share(10, 10), Share(0, 10), 0.6075, 1.0),
    ],
)
def test_published_differences(a: Share, b: Share, low: float, high: float) -> None:
    found = difference(a, b)
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


@given(shares(60), shares(60))
def test_a_difference_is_inside_its_interval_and_symmetric(a: Share, b: Share) -> None:
    found, turned = difference(a, b), difference(b, a)
    assert found.low >= -1 - 1e-12
    assert found.low <= found.estimate + 1e-12
    assert found.estimate - 1e-12 <= found.high <= 1 + 1e-12
    assert found.low == pytest.approx(-turned.high, abs=1e-12)


def test_without_runs_no_difference() -> None:
    assert difference(Share(0, 0), Share(1, 2)).why == "no conclusive run"
    assert exact_test(Share(1, 2), Share(0, 0)).p is None


def test_published_p_values() -> None:
    # The vaccine trial in scipy's and R's (Barnard package) documentation: one-sided 0.0341.
    assert exact_test(Share(7, 15), Share(12, 15)).p == pytest.approx(0.0682, abs=5e-4)
    three_of_twenty = exact_test(Share(0, 20), Share(3, 20))
    assert (three_of_twenty.test, three_of_twenty.p) == (BARNARD, pytest.approx(0.086, abs=1e-3))


def test_too_many_runs_for_barnard_are_for_fisher() -> None:
    found = exact_test(Share(5, 300), Share(20, 300))
    assert found.test == FISHER
    assert found.p == pytest.approx(0.0035, abs=3e-4)


@pytest.mark.parametrize("both", [0, 50])
def test_without_a_difference_the_p_value_is_1(both: int) -> None:
    assert exact_test(Share(both, 50), Share(both, 50)).p == 1


def _on_a_grid(a: Share, b: Share) -> float:
    """Barnard's p-value as the maximum over 2,000 values of the common share."""
    at_a, at_b = np.meshgrid(np.arange(a.whole + 1), np.arange(b.whole + 1), indexing="ij")
    pooled = (at_a + at_b) / (a.whole + b.whole)
    error = np.sqrt(pooled * (1 - pooled) * (1 / a.whole + 1 / b.whole))
    apart = np.abs(at_a / a.whole - at_b / b.whole)
    wald = np.divide(apart, error, out=np.zeros_like(apart), where=error > 0)
    as_far = wald >= wald[a.part, b.part] - 1e-9
    return max(
        float(binom.pmf(np.arange(a.whole + 1), a.whole, share) @ as_far
              @ binom.pmf(np.arange(b.whole + 1), b.whole, share))
        for share in np.linspace(0.0005, 0.9995, 2_000)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (Share(0, 50), Share(5, 50)),
        (Share(3, 20), Share(30, 50)),
        (Share(1, 10), Share(6, 10)),
        *full_of(
            (Share(20, 50), Share(26, 50)),
            (Share(80, 200), Share(100, 200)),
        ),
    ],
)
def test_barnard_finds_the_worst_common_share(a: Share, b: Share) -> None:
    assert exact_test(a, b).p == pytest.approx(_on_a_grid(a, b), rel=0.01)


@settings(max_examples=30, deadline=None)
@given(shares(60), shares(60))
def test_a_p_value_does_not_depend_on_the_order(a: Share, b: Share) -> None:
    p, turned = exact_test(a, b).p, exact_test(b, a).p
    assert 0 <= p <= 1
    assert turned == pytest.approx(p, rel=1e-3)


def test_published_adjustment() -> None:
    # Benjamini and Hochberg 1995, section 4.1: fifteen tests, the first four are called at 0.05.
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
         0.5719, 0.6528, 0.7590, 1.0]  # fmt: skip
    called = [each for each in adjusted(p) if each is not None and each <= 0.05]
    assert len(called) == 4
    assert called[-1] == pytest.approx(0.0095 * 15 / 4)


def test_a_missing_p_value_is_not_counted() -> None:
    assert adjusted([None, 0.02, None, 0.04]) == [None, 0.04, None, 0.04]
    assert adjusted([None]) == [None]
    assert adjusted([]) == []


def test_runs_needed_as_published() -> None:
    # R's power.prop.test(p1 = .50, p2 = .75, power = .90): n = 76.7
    assert runs_needed(0.5, 0.75, power=0.9) == 77
    assert runs_needed(0.2, 0.2) is None


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (0.0, 0.2),
        (0.0, 1.0),
        (0.1, 0.8),
        *full_of((0.1, 0.5), (0.5, 0.9)),
    ],
)
def test_so_many_runs_have_the_power(a: float, b: float) -> None:
    runs = runs_needed(a, b)
    power = _power(a, b, runs)
    assert power >= 0.79
    assert _power(a, b, math.ceil(runs * 0.5)) < power - 0.05


def _power(a: float, b: float, runs: int) -> float:
    """The power of the test, summed over the tables that matter."""
    chances_a, chances_b = (binom.pmf(range(runs + 1), runs, share) for share in (a, b))
    return float(
        sum(
            chances_a[x] * chances_b[y]
            for x, y in product(range(runs + 1), repeat=2)
            if chances_a[x] * chances_b[y] > 1e-5
            and (exact_test(Share(x, runs), Share(y, runs)).p or 0) <= 0.05
        )
    )


@given(st.floats(0, 0.4), st.floats(0.05, 0.5))
def test_a_larger_difference_needs_fewer_runs(share: float, apart: float) -> None:
    near, far = runs_needed(share, share + apart), runs_needed(share, share + apart + 0.1)
    assert far <= near
