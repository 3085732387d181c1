"""Cells: the class of each run, the denominators, and the document's shape."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from analysis.statistics.cells import cell_of
from analysis.statistics.samples import CLASSES, sample_of, verdict_class
from tests.fixtures.result_documents import FAILED, lossy, run


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (run(), "none"),
        (lossy(), "loss"),
        (lossy(doubts=("incomplete",)), "loss"),
        (lossy(doubts=("failed",)), "loss"),  # nothing can unlose a write
        (lossy(counter_examples=("lost", "unexpected")), "loss"),
        (run("invalid", counter_examples=("duplicates",)), "wrong"),
        (run("invalid", counter_examples=("failed_found",)), "wrong"),
        (run("invalid", lost=3, deleted=3, counter_examples=("unexpected",)), "wrong"),
        (run("unknown", doubts=("vacuous",)), "vacuous"),
        (run("unknown", doubts=("vacuous", "unproven")), "vacuous"),
        (run("unknown", doubts=("unproven",)), "unknown"),
        (run("unknown", doubts=("vacuous", "starved")), "unknown"),
        (run("unknown", doubts=("incomplete",)), "unknown"),
        (run("unknown", doubts=("starved",)), "unknown"),
        (run("unknown", doubts=("interrupted",)), "unknown"),
        (run("unknown", doubts=("failed",)), "harness_failure"),
        (FAILED, "harness_failure"),
    ],
)
def test_each_run_is_of_one_class(document: dict[str, Any], expected: str) -> None:
    assert verdict_class(document) == expected
    assert sample_of([document]).verdicts == {name: int(name == expected) for name in CLASSES}


def test_documents_from_before_causes_were_named() -> None:
    def old(document: dict[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in document.items() if k not in ("doubts", "counter_examples")}

    assert verdict_class(old(lossy())) == "loss"
    assert verdict_class(old(run("invalid", lost=3, deleted=3))) == "wrong"
    assert verdict_class(old(run("unknown"))) == "unknown"


MIXED = [
    *([lossy(200, unacknowledged=4)] * 6),
    *([lossy(400)] * 6),
    *([run()] * 28),
    *([run("invalid", counter_examples=("duplicates",), longest_gap_s=90.0)] * 2),
    *([run("unknown", doubts=("vacuous",))] * 3),
    *([run("unknown", doubts=("starved",))] * 4),
    FAILED,
]


def test_a_cell() -> None:
    cell = cell_of({"unclean": True, "acks": "all"}, MIXED)
    assert cell["key"] == {"unclean": True, "acks": "all"}
    assert cell["runs"] == 50
    assert cell["verdicts"] == {
        "loss": 12, "none": 28, "wrong": 2, "vacuous": 3, "unknown": 4, "harness_failure": 1,
    }  # fmt: skip
    share = cell["lossy_share"]
    assert share["estimate"] == 12 / 42
    assert (share["low"], share["high"]) == pytest.approx((0.1572, 0.4458), abs=1e-4)
    assert share["method"] == "Clopper-Pearson"
    assert share["in_words"] == "12 of 42 is 28.6 %: 15.7 % to 44.6 %"
    assert (cell["conclusive"], cell["conclusive_lossy"]) == (42, 12)
    assert (cell["inconclusive"], cell["inconclusive_lossy"]) == (8, 0)
    assert share["best_case"]["estimate"] == 12 / 50
    assert share["worst_case"]["estimate"] == 20 / 50
    assert cell["loss_rate"]["mean"] == pytest.approx(3.6 / 42)
    assert cell["loss_rate"]["median"] == 0
    assert cell["loss_rate"]["low"] < 3.6 / 42 < cell["loss_rate"]["high"]
    assert cell["loss_rate"]["quantiles"]["0.95"] == 0.4
    assert cell["pooled_loss_rate"]["estimate"] == pytest.approx(3.6 / 42)
    assert cell["unacknowledged_success_rate"]["mean"] == pytest.approx(6 * 0.004 / 42)
    assert cell["unacknowledged_success_rate"]["low"] is None
    assert cell["lost_per_fault_s"]["estimate"] == pytest.approx(3600 / 210)
    assert cell["longest_gap_s"] == {"median": 1.5, "max": 90.0, "runs": 42}
    assert cell["refused"] == {"median": 3.0, "max": 3.0, "runs": 42}
    assert cell["recovery_s"] == {"median": 2.0, "max": 2.0, "runs": 42, "not_recovered": 0}
    assert orjson.loads(orjson.dumps(cell)) == cell


@pytest.mark.parametrize("documents", [[], [FAILED] * 3, [run("unknown", doubts=("starved",))] * 3])
def test_a_cell_in_which_nothing_is_conclusive(documents: list[dict[str, Any]]) -> None:
    cell = cell_of({"acks": 1}, documents)
    assert cell["runs"] == len(documents)
    assert cell["lossy_share"]["estimate"] is None
    assert cell["lossy_share"]["in_words"] == cell["lossy_share"]["why"] == "no conclusive run"
    assert cell["loss_rate"]["why"] == "no conclusive run"
    assert cell["pooled_loss_rate"]["why"] == "there is nothing to divide by"
    assert cell["longest_gap_s"] == {"median": None, "max": None, "runs": 0}


def test_a_cell_without_loss_says_what_that_still_allows() -> None:
    cell = cell_of({}, [run()] * 50)
    assert cell["lossy_share"]["in_words"] == "0 of 50 still allows 7.1 %"
    assert cell["loss_rate"]["at_most"] == pytest.approx(0.0711, abs=1e-4)
    assert cell["lost_per_fault_s"]["estimate"] == 0
    assert cell["lost_per_fault_s"]["why"] == "0 runs are above 0, a bootstrap needs 10"


def test_runs_without_a_fault_are_in_no_rate_by_seconds_of_fault() -> None:
    cell = cell_of({}, [lossy(fault_s=10.0), lossy(fault_s=0.0), lossy(fault_s=None)])
    assert cell["lost_per_fault_s"]["estimate"] == 10


def test_runs_that_did_not_recover_are_the_slowest() -> None:
    never = {"recovered": False, "recovery_s": None}
    told = cell_of({}, [run(recovery_s=1.0), run(recovery_s=2.0), run(**never)])["recovery_s"]
    assert told == {"median": 2.0, "max": 2.0, "runs": 3, "not_recovered": 1}
    told = cell_of({}, [run(recovery_s=1.0), run(**never), run(**never)])["recovery_s"]
    assert told == {"median": None, "max": 1.0, "runs": 3, "not_recovered": 2}
    told = cell_of({}, [run(recovered=None, recovery_s=None)])["recovery_s"]
    assert told == {"median": None, "max": None, "runs": 0, "not_recovered": 0}
