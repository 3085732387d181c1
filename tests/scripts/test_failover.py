"""The power law of failovers: found in numbers that follow one, and not in others."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from scripts.failover import LEAST_S, law, laws

SIZES = [10, 100, 1000, 5000, 20000]


def test_an_exact_power_has_its_slope_and_goes_on() -> None:
    found = law(SIZES, [0.02 * n**0.7 for n in SIZES])
    assert found is not None
    assert found.slope == pytest.approx(0.7)
    assert (found.low, found.high) == (pytest.approx(0.7), pytest.approx(0.7))
    mean, low, high = found.at(2_000_000)
    assert mean == pytest.approx(0.02 * 2_000_000**0.7)
    assert low == pytest.approx(high)


def test_the_interval_is_that_of_scipy() -> None:
    draw = np.random.default_rng(3)
    sizes = np.repeat(SIZES, 3)
    seconds = 4 * sizes**0.05 * np.exp(draw.normal(0, 0.2, len(sizes)))
    found, theirs = law(sizes, seconds), stats.linregress(np.log(sizes), np.log(seconds))
    assert found is not None
    half = stats.t.ppf(0.975, len(sizes) - 2) * theirs.stderr
    assert found.slope == pytest.approx(theirs.slope)
    assert (found.low, found.high) == pytest.approx((theirs.slope - half, theirs.slope + half))
    mean, low, high = found.at(2_000_000)
    assert low < mean < high
    assert high / low > found.at(1000)[2] / found.at(1000)[1]


def test_intervals_hold_the_true_slope_as_often_as_they_say() -> None:
    draw, sizes, held = np.random.default_rng(5), np.repeat(SIZES, 3), 0
    for _ in range(400):
        found = law(sizes, 2 * sizes**0.5 * np.exp(draw.normal(0, 0.3, len(sizes))))
        assert found is not None
        held += found.low <= 0.5 <= found.high
    assert 0.92 <= held / 400 <= 0.98


@pytest.mark.parametrize("sizes", [[], [10, 100], [10, 10, 10]])
def test_too_little_has_no_slope(sizes: list[int]) -> None:
    assert law(sizes, [1.0] * len(sizes)) is None


def test_a_time_of_nothing_is_the_least() -> None:
    found = law([10, 100, 1000], [0, 0, 0])
    assert found is not None
    assert found.at(10)[0] == pytest.approx(LEAST_S)


def test_systems_and_faults_are_kept_apart() -> None:
    rows = pd.DataFrame(
        [
            {"system": system, "fault": fault, "partitions": n, "led_s": n**power}
            for system, fault, power in (("a", "stop", 1), ("b", "stop", 0), ("a", "crash", 2))
            for n in SIZES
        ]
    )
    slopes = {system: each.slope for system, each in laws(rows, "stop", "led_s").items()}
    assert slopes == {"a": pytest.approx(1), "b": pytest.approx(0)}
