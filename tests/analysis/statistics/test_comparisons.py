"""Comparisons: which pairs are made, which way differences point, and the correction."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from analysis.statistics.comparisons import compared, comparisons_of
from analysis.statistics.samples import sample_of
from tests.fixtures.result_documents import FAILED, lossy, run

Runs = list[dict[str, Any]]


def runs(losing: int, of: int = 50) -> Runs:
    return [lossy(100 + 10 * n) for n in range(losing)] + [run()] * (of - losing)


MATRIX = [
    ({"unclean": unclean, "min_isr": least}, runs(30 if unclean and least == 1 else 1))
    for unclean in (False, True)
    for least in (1, 2, 3)
]


def test_only_pairs_that_one_axis_tells_apart() -> None:
    told = comparisons_of(MATRIX)
    assert len(told) == 9  # three times unclean on and off, twice three of min_isr
    for each in told:
        apart = [axis for axis in each["a"] if each["a"][axis] != each["b"][axis]]
        assert apart == [each["axis"]]


def test_a_difference_is_b_less_a() -> None:
    told = next(
        each
        for each in comparisons_of(MATRIX)
        if each["axis"] == "unclean" and each["a"]["min_isr"] == 1
    )
    assert (told["a"]["unclean"], told["b"]["unclean"]) == (False, True)
    assert told["difference"] == pytest.approx(0.58)
    assert 0 < told["low"] < 0.58 < told["high"]
    assert told["test"] == "Barnard"
    assert told["p"] < 1e-6
    assert told["p"] < told["p_adjusted"] <= 9 * told["p"]
    assert told["runs_needed"] < 50
    assert told["loss_rate"]["estimate"] > 0
    assert told["loss_rate"]["why"] == "1 run is above 0, a bootstrap needs 10"


def test_what_seems_a_difference_is_none_among_many() -> None:
    """One pair of p = 0.024, among nine that differ in nothing."""
    cells = [({"version": n, "load": 1}, runs(0)) for n in range(4)]
    cells.append(({"version": 9, "load": 1}, runs(5)))
    told = [each for each in comparisons_of(cells) if each["b"]["version"] == 9]
    assert all(each["p"] < 0.05 < each["p_adjusted"] for each in told)


def test_cells_without_a_judged_run_are_said_to_be_so_and_not_counted() -> None:
    told = comparisons_of([({"v": 1}, runs(0)), ({"v": 2}, runs(20)), ({"v": 3}, [FAILED] * 5)])
    assert [each["p"] is None for each in told] == [False, True, True]
    first, second, _ = told
    assert first["p_adjusted"] == first["p"]
    assert second["why"] == "no conclusive run"
    assert (second["difference"], second["p_adjusted"], second["runs_needed"]) == (None, None, None)


def test_the_same_shares_cannot_be_told_apart() -> None:
    told = comparisons_of([({"v": 1}, runs(0)), ({"v": 2}, runs(0))])
    assert told[0]["runs_needed"] is None
    assert told[0]["p"] == 1


def test_an_axis_that_one_cell_lacks_tells_them_apart() -> None:
    told = comparisons_of([({"v": 1}, runs(0)), ({"v": 1, "acks": "all"}, runs(0))])
    assert [each["axis"] for each in told] == ["acks"]


def test_two_nights_of_one_cell() -> None:
    old, new = sample_of(runs(12)), sample_of(runs(30))
    told = compared({"v": 1}, old, {"v": 1}, new).document()
    assert told["axis"] is None
    assert told["difference"] == pytest.approx(0.36)
    assert told["loss_rate"]["low"] > 0
    assert orjson.loads(orjson.dumps(told)) == told
