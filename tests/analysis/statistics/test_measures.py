"""What checkers count besides their primary finding, over the runs of a cell."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.primary import measures_of
from analysis.statistics.cells import cell_of
from harness.history.documents import CheckRecord, RunResult
from tests.fixtures.synthetic_results import FAILED, run


def of_group(skipped: int, *, check: str = "delivery", **counts: Any) -> RunResult:
    """A run of a group that skipped so many of its 1,000 acknowledged records."""
    found = ("skipped",) if skipped else ()
    ended: Any = run("invalid" if skipped else "valid", counter_examples=found)
    counted = {
        "skipped": skipped,
        "acknowledged": 1000,
        "reprocessed": 4,
        "reprocessed_beyond": 0,
        "processed": 1000 - skipped,
        "commits": 50,
        "lost_commits": 0,
        **counts,
    }
    checks = (CheckRecord(name=check, verdict=ended.verdict, counts=counted),)
    return RunResult(**{**vars(ended), "model": "group", "checks": checks})


def test_the_numbers_of_a_measure() -> None:
    cell = cell_of({}, [of_group(0), of_group(0), of_group(100), of_group(300), FAILED])
    skipped = cell.measures["skipped"]
    assert (skipped.count, skipped.whole) == (400, 4000)
    assert (skipped.runs, skipped.of_runs) == (2, 4)
    assert skipped.pooled.estimate == 0.1
    assert skipped.rate.median == 0.05
    assert skipped.share_of_runs.estimate == 0.5
    assert skipped.share_of_runs.low == pytest.approx(0.0676, abs=1e-4)
    again = cell.measures["reprocessed"]
    assert again.pooled.estimate == pytest.approx(16 / 3600), "of what was processed"
    assert cell.measures["lost_commits"].runs == 0


def test_six_runs_give_the_median_an_interval() -> None:
    skips = (10, 20, 30, 40, 50, 60)
    rate = cell_of({}, [of_group(each) for each in skips]).measures["skipped"].rate
    assert (rate.median, rate.median_low, rate.median_high) == (0.035, 0.01, 0.06)
    few = cell_of({}, [of_group(each) for each in skips[1:]]).measures["skipped"].rate
    assert (few.median_low, few.median_high) == (None, None)


def test_a_run_that_lacks_a_count_is_left_out_and_0_of_0_is_no_rate() -> None:
    runs = [of_group(0, commits=None), of_group(0, commits=0), of_group(0, lost_commits=5)]
    lost = cell_of({}, runs).measures["lost_commits"]
    assert (lost.of_runs, lost.count, lost.whole) == (2, 5, 50)
    assert lost.rate.median == 0.1, "only one of the two has committed anything"
    assert cell_of({}, runs).measures["skipped"].of_runs == 3


def test_runs_under_doubt_are_left_out_and_checkers_without_measures_have_none() -> None:
    doubtful = RunResult(**{**vars(of_group(500)), "eligible": False, "doubts": ("starved",)})
    assert cell_of({}, [doubtful, of_group(0)]).measures["skipped"].count == 0
    assert cell_of({}, [run(), run()]).measures == {}
    assert measures_of(of_group(1, check="from-a-package-that-is-gone")) == ()
