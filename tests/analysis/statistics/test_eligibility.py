"""Eligibility first, outcome second: a run counts by its circumstances, never by its losses."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.statistics.cells import Outcome, cell_of, is_conclusive, is_eligible, sample_of
from analysis.statistics.comparisons import comparisons_of
from tests.fixtures.synthetic_results import FAILED, lossy, run

DOUBTS = (
    "failed", "interrupted", "vacuous", "incomplete", "starved", "deleted", "not_yet_visible",
    "unproven", "unmet", "replicas", "readers", "checker",
)  # fmt: skip


@pytest.mark.parametrize("doubt", DOUBTS)
def test_a_doubt_excludes_a_lossless_run_and_its_lossy_twin(doubt: str) -> None:
    lossless, lost = run("unknown", doubts=(doubt,)), lossy(doubts=(doubt,))
    assert not is_conclusive(lossless)
    assert not is_conclusive(lost)
    sample = sample_of([lossless, lost])
    assert (sample.lossy.whole, sample.others.whole) == (0, 2)


@pytest.mark.parametrize("ended", [{}, {"lost": 100}, {"counter_examples": ("x",)}])
def test_a_run_without_a_doubt_counts_with_any_verdict(ended: dict[str, Any]) -> None:
    verdict = "invalid" if ended else "valid"
    assert is_conclusive(run(verdict, **ended))


def test_a_run_with_an_unproven_fault_does_not_count_with_any_verdict() -> None:
    for ended in (run(proven=False), lossy(proven=False)):
        assert not is_eligible(ended)


def test_a_recorded_eligibility_decides() -> None:
    assert not is_conclusive(run(eligible=False))
    assert is_eligible(lossy(doubts=("not_yet_visible",), eligible=True))


def test_bounds_cover_all_runs_that_do_not_count_for_any_reason() -> None:
    others = [
        run("unknown", doubts=("vacuous",)), run("unknown", doubts=("starved",)),
        run(proven=False), run("invalid", counter_examples=("unexpected",), eligible=False), FAILED,
    ]  # fmt: skip
    share = cell_of({}, [lossy()] * 3 + [run()] * 7 + others).lossy_share
    assert share.estimate == 3 / 10
    assert share.best_case.estimate == 3 / 15
    assert share.worst_case.estimate == 8 / 15


def test_a_loss_that_was_found_is_a_loss_in_both_bounds() -> None:
    cell = cell_of({}, [run()] * 10 + [lossy(doubts=("starved",))] * 3 + [FAILED] * 4)
    assert (cell.conclusive, cell.conclusive_lossy) == (10, 0)
    assert (cell.inconclusive, cell.inconclusive_lossy) == (7, 3)
    assert cell.verdicts["loss"] == 3, "the class of a run does not change"
    assert cell.lossy_share.best_case.estimate == 3 / 17
    assert cell.lossy_share.worst_case.estimate == 7 / 17


def test_rates_and_times_cover_conclusive_runs_only() -> None:
    slow = lossy(900, doubts=("starved",), longest_gap_s=99.0)
    cell = cell_of({}, [lossy(100), run(), slow])
    assert cell.loss_rate.mean == pytest.approx(0.05)
    assert cell.pooled_loss_rate.estimate == pytest.approx(0.05)
    assert asdict(cell.longest_gap_s) == {"median": 1.5, "max": 1.5, "runs": 2}


STARVED = run("unknown", doubts=("starved",))


def compared(*cells: list[Outcome]) -> list[dict[str, Any]]:
    """The comparisons as JSON has them."""
    pairs = comparisons_of([({"v": place}, runs) for place, runs in enumerate(cells)])
    return [asdict(each) for each in pairs]


def test_dropping_starved_lossless_runs_makes_no_difference() -> None:
    """15 of 50 runs are lossy in both cells. In one of them, 27 lossless runs and a proportional
    number of lossy ones starved: without bounds this gave +35 points, adjusted p 0.005."""
    a = [lossy()] * 15 + [run()] * 35
    b = [lossy(doubts=("starved",))] * 12 + [lossy()] * 3 + [run()] * 8 + [STARVED] * 27
    (each,) = compared(a, b)
    assert each["difference"] == pytest.approx(3 / 11 - 0.3)
    assert each["p_adjusted"] > 0.5
    assert not each["doubtful"]
    # If none of the lossy runs had starved: significant, and doubtful.
    (each,) = compared(a, [lossy()] * 15 + [run()] * 8 + [STARVED] * 27)
    assert each["difference"] == pytest.approx(0.352, abs=1e-3)
    assert each["p_adjusted"] == pytest.approx(0.005, abs=1e-3)
    assert each["doubtful"]
    assert each["bounds"]["least"] == pytest.approx(0)
    assert each["bounds"]["greatest"] == pytest.approx(0.54)
    assert each["bounds"]["p_against"] == each["bounds"]["p_against_adjusted"] == 1


def test_a_difference_that_no_bound_reverses_is_not_doubtful() -> None:
    (each,) = compared([lossy()] * 45 + [run()] * 3 + [FAILED] * 2, [run()] * 48 + [STARVED] * 2)
    assert not each["doubtful"]
    assert each["bounds"]["greatest"] < 0
    assert each["p_adjusted"] < each["bounds"]["p_against_adjusted"] < 1e-6


def test_the_bounds_are_corrected_like_the_tests() -> None:
    """p = 0.03 with the runs that do not count against it, among ten comparisons."""
    cells = [[lossy()] * 5 + [run()] * 45 for _ in range(4)]
    last = [lossy()] * 22 + [run()] * 20 + [STARVED] * 8
    each = next(one for one in compared(*cells, last) if one["b"]["v"] == 4)
    assert each["bounds"]["p_against"] <= each["bounds"]["p_against_adjusted"]


outcomes = st.lists(
    st.sampled_from([run(), lossy(), STARVED, lossy(doubts=("starved",)), FAILED]), max_size=12
)


@given(outcomes, outcomes)
def test_bounds_cover_every_possible_truth(a: list[Any], b: list[Any]) -> None:
    """The truth is one outcome for each run that does not count: any of them is possible."""
    first, second = sample_of(a), sample_of(b)
    if not (first.lossy.whole and second.lossy.whole):
        return
    (each,) = compared(a, b)
    for hidden in (0.0, 0.5, 1.0):
        shares = [
            (s.lossy.part + s.others.part + hidden * (s.others.whole - s.others.part)) / s.runs
            for s in (first, second)
        ]
        apart = shares[1] - shares[0]
        assert each["bounds"]["least"] - 1e-9 <= apart <= each["bounds"]["greatest"] + 1e-9
