"""Comparisons: the pairs, the sign of differences, and the correction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import orjson
import pytest

from analysis.statistics import comparisons
from analysis.statistics.cells import Key, Outcome, sample_of
from analysis.statistics.comparisons import compared
from tests.fixtures.synthetic_results import FAILED, lossy, run

Runs = list[Outcome]


def comparisons_of(cells: Iterable[tuple[Key, Runs]]) -> list[dict[str, Any]]:
    """The comparisons as JSON has them."""
    return [asdict(each) for each in comparisons.comparisons_of(list(cells))]


def runs(losing: int, of: int = 50) -> Runs:
    return [lossy(100 + 10 * n) for n in range(losing)] + [run()] * (of - losing)


MATRIX = [
    ({"unclean": unclean, "min_isr": least}, runs(30 if unclean and least == 1 else 1))
    for unclean in (False, True)
    for least in (1, 2, 3)
]


def test_only_pairs_that_differ_in_one_axis() -> None:
    pairs = comparisons_of(MATRIX)
    assert len(pairs) == 9  # three times unclean on and off, twice three of min_isr
    for each in pairs:
        apart = [axis for axis in each["a"] if each["a"][axis] != each["b"][axis]]
        assert apart == [each["axis"]]


def test_a_difference_is_b_less_a() -> None:
    pair = next(
        each
        for each in comparisons_of(MATRIX)
        if each["axis"] == "unclean" and each["a"]["min_isr"] == 1
    )
    assert (pair["a"]["unclean"], pair["b"]["unclean"]) == (False, True)
    assert pair["difference"] == pytest.approx(0.58)
    assert 0 < pair["low"] < 0.58 < pair["high"]
    assert pair["test"] == "Barnard"
    assert pair["method"] == "Newcombe hybrid score"
    assert pair["p"] < 1e-6
    assert pair["p"] < pair["p_adjusted"] <= 9 * pair["p"]
    assert pair["runs_needed"] < 50
    assert pair["loss_rate"]["estimate"] > 0
    assert pair["loss_rate"]["why"] == "1 run is above 0, a bootstrap needs 10"


def test_a_small_p_value_is_not_significant_among_many() -> None:
    """One pair with p = 0.024, among nine that do not differ."""
    cells = [({"version": n, "load": 1}, runs(0)) for n in range(4)]
    cells.append(({"version": 9, "load": 1}, runs(5)))
    pairs = [each for each in comparisons_of(cells) if each["b"]["version"] == 9]
    assert all(each["p"] < 0.05 < each["p_adjusted"] for each in pairs)


def test_cells_without_a_conclusive_run_are_reported_and_not_counted() -> None:
    pairs = comparisons_of([({"v": 1}, runs(0)), ({"v": 2}, runs(20)), ({"v": 3}, [FAILED] * 5)])
    assert [each["p"] is None for each in pairs] == [False, True, True]
    first, second, _ = pairs
    assert first["p_adjusted"] == first["p"]
    assert second["why"] == "no conclusive run"
    assert (second["difference"], second["p_adjusted"], second["runs_needed"]) == (None, None, None)


def test_equal_shares_cannot_be_distinguished() -> None:
    (pair,) = comparisons_of([({"v": 1}, runs(0)), ({"v": 2}, runs(0))])
    assert pair["runs_needed"] is None
    assert pair["p"] == 1


def test_an_axis_that_one_cell_lacks_is_a_difference() -> None:
    pairs = comparisons_of([({"v": 1}, runs(0)), ({"v": 1, "acks": "all"}, runs(0))])
    assert [each["axis"] for each in pairs] == ["acks"]


def test_one_cell_of_two_campaigns() -> None:
    old, new = sample_of(runs(12)), sample_of(runs(30))
    pair = asdict(compared({"v": 1}, old, {"v": 1}, new))
    assert pair["axis"] is None
    assert pair["difference"] == pytest.approx(0.36)
    assert pair["loss_rate"]["low"] > 0
    assert orjson.loads(orjson.dumps(pair)) == pair


def test_a_difference_is_printed_over_all_runs_where_the_outcome_chose_those_that_count() -> None:
    """Six losses among twelve that do not count: 30 points are not what the campaign found."""
    unmet = [lossy(doubts=("unmet",))] * 6 + [run("unknown", doubts=("unmet",))] * 6
    (pair,) = comparisons.comparisons_of(
        [({"a": "x"}, [run()] * 88 + unmet), ({"a": "y"}, [lossy()] * 30 + [run()] * 70)]
    )
    assert pair.difference == pytest.approx(0.3)
    assert pair.chosen_by_outcome
    assert (pair.bounds.least, pair.bounds.greatest) == pytest.approx((0.18, 0.24))
    assert pair.shown_low == pair.bounds.low < pair.bounds.least
    assert pair.shown_high == pair.bounds.high > pair.bounds.greatest
    fair = [run("unknown", doubts=("unmet",))] * 12
    (pair,) = comparisons.comparisons_of(
        [({"a": "x"}, [run()] * 88 + fair), ({"a": "y"}, [lossy()] * 30 + [run()] * 70)]
    )
    assert not pair.chosen_by_outcome
    assert (pair.shown_low, pair.shown_high) == (pair.low, pair.high)


def test_pairs_are_printed_over_all_shared_runs_where_the_outcome_chose_them() -> None:
    at = [f"run-{n}" for n in range(50)]
    a = [run()] * 40 + [lossy(doubts=("unmet",))] * 10
    b = [lossy()] * 20 + [run()] * 30
    (pair,) = comparisons.comparisons_of([({"a": "x"}, a), ({"a": "y"}, b)], shared=[at, at])
    assert pair.test == "McNemar"
    assert pair.chosen_by_outcome
    assert pair.difference == pytest.approx(0.5), "of complete pairs"
    assert pair.bounds.least == pair.bounds.greatest == pytest.approx(0.2)
    assert pair.shown_low < 0.2 < pair.shown_high < 0.5
