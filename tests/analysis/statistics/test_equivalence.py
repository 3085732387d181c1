"""Equivalence: the guaranteed error rate at every pair of shares, summed over all tables."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special, stats

from analysis.statistics.contrasts import (
    as_extreme,
    equivalence,
    score,
)
from analysis.statistics.intervals import Share
from tests.fixtures.synthetic_results import shares

pytestmark = pytest.mark.slow

MARGIN = 0.05


def called(runs_a: int, runs_b: int) -> np.ndarray:
    """The tables that the test calls equivalent, each together with its mirror image."""
    calls = np.zeros((runs_a + 1, runs_b + 1))
    for a, b in product(range(runs_a + 1), range(runs_b + 1)):
        mirror = runs_a - a, runs_b - b
        near = abs(a / runs_a - b / runs_b) < MARGIN  # others are never called
        if near and (a, b) <= mirror:
            equivalent = equivalence(Share(a, runs_a), Share(b, runs_b)).equivalent
            calls[a, b] = calls[mirror] = equivalent
    return calls


@pytest.mark.parametrize(("runs_a", "runs_b"), [(52, 52), (58, 62)])
def test_the_true_error_rate_holds_at_every_pair_of_shares(runs_a: int, runs_b: int) -> None:
    """The normal approximation called 52 of 52 and 52 of 52 equivalent: 6.9 % at 1 and 0.95."""
    tables = called(runs_a, runs_b)
    lows = np.unique(
        [*np.linspace(0, 0.95, 96), *np.linspace(0, 0.01, 21), *np.linspace(0.94, 0.95, 21)]
    )
    worst = 0.0
    for share_a, share_b in ((lows, lows + MARGIN), (lows + MARGIN, lows)):
        of_a = stats.binom.pmf(np.arange(runs_a + 1), runs_a, np.minimum(share_a, 1)[:, None])
        of_b = stats.binom.pmf(np.arange(runs_b + 1), runs_b, np.minimum(share_b, 1)[:, None])
        worst = max(worst, float(((of_a @ tables) * of_b).sum(axis=1).max()))
    assert worst <= 0.05
    assert (worst > 0.02) == (min(runs_a, runs_b) >= 59), (
        "it has power whenever it can call a table"
    )


@pytest.mark.parametrize(("runs", "equivalent"), [(52, False), (58, False), (59, True), (60, True)])
def test_shares_of_0_and_1_are_equivalent_from_59_runs_on(runs: int, equivalent: bool) -> None:
    for part in (0, runs):
        found = equivalence(Share(part, runs), Share(part, runs))
        assert found.equivalent == equivalent
        assert found.p == pytest.approx(0.95**runs, rel=1e-6)


def restricted_error(a: Share, b: Share, apart: float) -> float:
    """The standard error if `b = a + apart`, at the most likely shares, found by a search."""

    def unlikely(at_a: float) -> float:
        at_b = at_a + apart
        return -float(
            special.xlogy(
                [a.part, a.whole - a.part, b.part, b.whole - b.part],
                np.clip([at_a, 1 - at_a, at_b, 1 - at_b], 0, 1),
            ).sum()
        )

    ends = (max(0.0, -apart), min(1.0, 1 - apart))
    at_a = optimize.minimize_scalar(
        unlikely, bounds=ends, method="bounded", options={"xatol": 1e-12}
    ).x
    at_b = at_a + apart
    return float((at_a * (1 - at_a) / a.whole + at_b * (1 - at_b) / b.whole) ** 0.5)


@given(shares(80), shares(80), st.sampled_from([0.05, 0.2]))
def test_the_closed_form_is_the_most_likely_pair(a: Share, b: Share, margin: float) -> None:
    found = score(np.array([b.part]), np.array([a.part]), b, a, margin)[0]
    expected = (b.part / b.whole - a.part / a.whole + margin) / restricted_error(a, b, -margin)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-4)


@given(shares(80), shares(80))
@settings(max_examples=10, deadline=None)
def test_tables_with_more_lossy_runs_are_more_extreme_still(one: Share, other: Share) -> None:
    """The p-value rests on this: every table above the least extreme one is as extreme."""
    scores = score(
        np.arange(one.whole + 1)[:, None], np.arange(other.whole + 1)[None, :], one, other, MARGIN
    )
    assert (np.diff(scores, axis=0) > -1e-9).all()
    least = as_extreme(one, other, MARGIN)
    assert least[other.part] <= one.part


def test_too_few_runs_prove_no_equivalence() -> None:
    found = equivalence(Share(5, 20), Share(5, 20))
    assert not found.equivalent
    assert found.low == pytest.approx(-found.high)
    assert found.difference == 0
    assert equivalence(Share(0, 100), Share(0, 100)).equivalent


@given(shares(80), shares(80))
@settings(max_examples=8, deadline=None)
def test_equivalence_does_not_depend_on_the_order(a: Share, b: Share) -> None:
    assert equivalence(a, b).p == pytest.approx(equivalence(b, a).p, abs=1e-6)


@pytest.mark.parametrize(("whole", "margin"), [(0, 0.05), (10, 0.0), (10, 1.0)])
def test_equivalence_of_nothing(whole: int, margin: float) -> None:
    with pytest.raises(ValueError, match="equivalence needs"):
        equivalence(Share(0, whole), Share(0, 10), margin=margin)
