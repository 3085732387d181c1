"""Eligibility first, outcome second: a run counts by what happened to it, never by what it lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.statistics.cells import cell_of
from analysis.statistics.comparisons import comparisons_of
from analysis.statistics.eligibility import is_conclusive, is_eligible
from analysis.statistics.samples import sample_of
from tests.fixtures.result_documents import FAILED, lossy, run

DOUBTS = (
    "failed", "interrupted", "vacuous", "incomplete", "starved", "deleted", "not_yet_visible",
    "unproven", "unmet", "replicas", "readers", "checker",
)  # fmt: skip


def old(document: dict[str, Any], *without: str) -> dict[str, Any]:
    """The same as it was before `eligible` was written."""
    return {key: value for key, value in document.items() if key not in ("eligible", *without)}


@pytest.mark.parametrize("doubt", DOUBTS)
@pytest.mark.parametrize("written", [True, False])
def test_what_silences_a_lossless_run_silences_its_lossy_twin(doubt: str, written: bool) -> None:
    lossless, lost = run("unknown", doubts=(doubt,)), lossy(doubts=(doubt,))
    for document in (lossless, lost):
        told = document if written else old(document)
        assert not is_conclusive(told)
    sample = sample_of([lossless, lost])
    assert (sample.lossy.whole, sample.others.whole) == (0, 2)


@pytest.mark.parametrize("document", [run(), lossy(), run("invalid", counter_examples=("x",))])
def test_a_run_without_a_doubt_counts_whichever_way_it_ended(document: dict[str, Any]) -> None:
    assert is_conclusive(document)
    assert is_conclusive(old(document))


def test_a_run_with_an_unproven_fault_does_not_count_whichever_way_it_ended() -> None:
    for document in (run(proven=False), lossy(proven=False)):
        assert not is_eligible(document)
        assert not is_eligible(old(document))


def test_what_was_written_of_eligibility_is_believed() -> None:
    assert not is_conclusive(run(eligible=False))
    assert is_eligible(lossy(doubts=("not_yet_visible",), eligible=True))


def test_documents_of_old() -> None:
    assert is_eligible(old(lossy(doubts=("not_yet_visible",))))
    assert not is_eligible(old(run(), "complete"))
    assert not is_eligible(old(run(), "doubts")), "it does not say what was doubted"
    assert not is_eligible(FAILED)


def test_bounds_are_over_all_runs_whatever_keeps_them_from_counting() -> None:
    others = [
        run("unknown", doubts=("vacuous",)), run("unknown", doubts=("starved",)),
        run(proven=False), run("invalid", counter_examples=("unexpected",), eligible=False), FAILED,
    ]  # fmt: skip
    cell = cell_of({}, [lossy()] * 3 + [run()] * 7 + others)
    share = cell["lossy_share"]
    assert share["estimate"] == 3 / 10
    assert share["best_case"]["estimate"] == 3 / 15
    assert share["worst_case"]["estimate"] == 8 / 15


def test_a_loss_that_was_seen_is_a_loss_in_both_bounds() -> None:
    cell = cell_of({}, [run()] * 10 + [lossy(doubts=("starved",))] * 3 + [FAILED] * 4)
    assert (cell["conclusive"], cell["conclusive_lossy"]) == (10, 0)
    assert (cell["inconclusive"], cell["inconclusive_lossy"]) == (7, 3)
    assert cell["verdicts"]["loss"] == 3, "classes stay what they were"
    assert cell["lossy_share"]["best_case"]["estimate"] == 3 / 17
    assert cell["lossy_share"]["worst_case"]["estimate"] == 7 / 17


def test_rates_and_times_are_of_conclusive_runs_alone() -> None:
    slow = lossy(900, doubts=("starved",), longest_gap_s=99.0)
    cell = cell_of({}, [lossy(100), run(), slow])
    assert cell["loss_rate"]["mean"] == pytest.approx(0.05)
    assert cell["pooled_loss_rate"]["estimate"] == pytest.approx(0.05)
    assert cell["longest_gap_s"] == {"median": 1.5, "max": 1.5, "runs": 2}


STARVED = run("unknown", doubts=("starved",))


def told(*cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return comparisons_of([({"v": place}, runs) for place, runs in enumerate(cells)])


def test_starved_lossless_runs_that_are_dropped_make_no_difference() -> None:
    """15 of 50 lossy in both cells; in one of them 27 lossless runs and as many of the lossy ones
    as chance has it were starved: it gave +35 points, adjusted p 0.005."""
    a = [lossy()] * 15 + [run()] * 35
    b = [lossy(doubts=("starved",))] * 12 + [lossy()] * 3 + [run()] * 8 + [STARVED] * 27
    (each,) = told(a, b)
    assert each["difference"] == pytest.approx(3 / 11 - 0.3)
    assert each["p_adjusted"] > 0.5
    assert not each["doubtful"]
    # As it was reproduced, had none of the lossy runs been starved: told, and doubtful.
    (each,) = told(a, [lossy()] * 15 + [run()] * 8 + [STARVED] * 27)
    assert each["difference"] == pytest.approx(0.352, abs=1e-3)
    assert each["p_adjusted"] == pytest.approx(0.005, abs=1e-3)
    assert each["doubtful"]
    assert each["bounds"]["least"] == pytest.approx(0)
    assert each["bounds"]["greatest"] == pytest.approx(0.54)
    assert each["bounds"]["p_against"] == each["bounds"]["p_against_adjusted"] == 1


def test_a_difference_that_no_bound_can_turn_is_not_doubtful() -> None:
    (each,) = told([lossy()] * 45 + [run()] * 3 + [FAILED] * 2, [run()] * 48 + [STARVED] * 2)
    assert not each["doubtful"]
    assert each["bounds"]["greatest"] < 0
    assert each["p_adjusted"] < each["bounds"]["p_against_adjusted"] < 1e-6


def test_the_bounds_are_corrected_like_the_tests() -> None:
    """p 0.03 with the runs that do not count against it, among ten comparisons."""
    cells = [[lossy()] * 5 + [run()] * 45 for _ in range(4)]
    last = [lossy()] * 22 + [run()] * 20 + [STARVED] * 8
    each = next(one for one in told(*cells, last) if one["b"]["v"] == 4)
    assert each["bounds"]["p_against"] <= each["bounds"]["p_against_adjusted"]


outcomes = st.lists(
    st.sampled_from([run(), lossy(), STARVED, lossy(doubts=("starved",)), FAILED]), max_size=12
)


@given(outcomes, outcomes)
def test_bounds_hold_the_truth_whatever_it_is(a: list[Any], b: list[Any]) -> None:
    """Of all runs, were the outcome of each known: any outcome of those that were not seen."""
    first, second = sample_of(a), sample_of(b)
    if not (first.lossy.whole and second.lossy.whole):
        return
    (each,) = told(a, b)
    for hidden in (0.0, 0.5, 1.0):
        shares = [
            (s.lossy.part + s.others.part + hidden * (s.others.whole - s.others.part)) / s.runs
            for s in (first, second)
        ]
        apart = shares[1] - shares[0]
        assert each["bounds"]["least"] - 1e-9 <= apart <= each["bounds"]["greatest"] + 1e-9
