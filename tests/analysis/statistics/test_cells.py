"""Cells: the class of each run, the denominators, and the shape of the document."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import orjson
import pytest

from analysis.statistics import cells
from analysis.statistics.cells import CLASSES, Outcome, sample_of, verdict_class
from tests.fixtures import result_documents
from tests.fixtures.synthetic_results import FAILED, lossy, outcome, run


def cell_of(key: cells.Key, outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """The cell as JSON has it."""
    return asdict(cells.cell_of(key, outcomes))


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (run(), "none"),
        (lossy(), "loss"),
        (lossy(doubts=("incomplete",)), "loss"),
        (lossy(doubts=("failed",)), "loss"),  # no later event can undo a loss
        (lossy(counter_examples=("lost", "unexpected")), "loss"),
        (run("invalid", counter_examples=("duplicates",)), "wrong"),
        (run("invalid", counter_examples=("failed_found",)), "wrong"),
        (run("invalid", lost=3, deleted=3, counter_examples=("unexpected",)), "wrong"),
        (run("unknown", doubts=("vacuous",)), "vacuous"),
        (run("unknown", doubts=("vacuous", "unproven")), "unknown"),
        (run("unknown", doubts=("vacuous", "unmet")), "unknown"),
        (run("unknown", doubts=("unproven",)), "unknown"),
        (run("unknown", doubts=("vacuous", "starved")), "unknown"),
        (run("unknown", doubts=("incomplete",)), "unknown"),
        (run("unknown", doubts=("starved",)), "unknown"),
        (run("unknown", doubts=("interrupted",)), "unknown"),
        (run("unknown", doubts=("failed",)), "harness_failure"),
        (FAILED, "harness_failure"),
    ],
)
def test_each_run_is_of_one_class(ended: Outcome, expected: str) -> None:
    assert verdict_class(ended) == expected
    assert sample_of([ended]).verdicts == {name: int(name == expected) for name in CLASSES}


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
    assert share["shown"] == 12 / 42
    assert share["in_words"] == "12 of 42: 28.6 % (15.7 % to 44.6 %)"
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


def test_a_lost_value_that_nobody_acknowledged_is_in_no_rate_of_the_acknowledged() -> None:
    document = result_documents.run("invalid", lost=300)
    document["counts"]["lost_unacknowledged"] = 100
    cell = cell_of({"acks": 1}, [outcome(document), outcome(document)])
    assert cell["pooled_loss_rate"]["estimate"] == pytest.approx(0.2)
    assert cell["lost_per_fault_s"]["estimate"] == pytest.approx(40)


def test_a_share_is_printed_over_all_runs_where_the_outcome_chose_those_that_count() -> None:
    share = cell_of({}, [run()] * 8 + [lossy(doubts=("unmet",))] * 2)["lossy_share"]
    assert share["chosen_by_outcome"]
    assert (share["estimate"], share["shown"]) == (0, 0.2)


@pytest.mark.parametrize("outcomes", [[], [FAILED] * 3, [run("unknown", doubts=("starved",))] * 3])
def test_a_cell_in_which_nothing_is_conclusive(outcomes: list[Outcome]) -> None:
    cell = cell_of({"acks": 1}, outcomes)
    assert cell["runs"] == len(outcomes)
    assert cell["lossy_share"]["estimate"] is None
    assert cell["lossy_share"]["in_words"] == cell["lossy_share"]["why"] == "no conclusive run"
    assert cell["loss_rate"]["why"] == "no conclusive run"
    assert cell["pooled_loss_rate"]["why"] == "there is nothing to divide by"
    assert cell["longest_gap_s"] == {"median": None, "max": None, "runs": 0}


def test_a_cell_without_loss_states_what_is_still_possible() -> None:
    cell = cell_of({}, [run()] * 50)
    assert cell["lossy_share"]["in_words"] == "0 of 50: at most 7.1 %"
    assert cell["loss_rate"]["at_most"] == pytest.approx(0.0711, abs=1e-4)
    assert cell["lost_per_fault_s"]["estimate"] == 0
    assert cell["lost_per_fault_s"]["why"] == "0 runs are above 0, a bootstrap needs 10"


def test_runs_without_a_fault_are_not_in_the_rate_per_second_of_fault() -> None:
    cell = cell_of({}, [lossy(fault_s=10.0), lossy(fault_s=0.0), lossy(fault_s=None)])
    assert cell["lost_per_fault_s"]["estimate"] == 10


def test_runs_that_did_not_recover_are_the_slowest() -> None:
    never = {"recovered": False, "recovery_s": None}
    times = cell_of({}, [run(recovery_s=1.0), run(recovery_s=2.0), run(**never)])["recovery_s"]
    assert times == {"median": 2.0, "max": 2.0, "runs": 3, "not_recovered": 1}
    times = cell_of({}, [run(recovery_s=1.0), run(**never), run(**never)])["recovery_s"]
    assert times == {"median": None, "max": 1.0, "runs": 3, "not_recovered": 2}
    times = cell_of({}, [run(recovered=None, recovery_s=None)])["recovery_s"]
    assert times == {"median": None, "max": None, "runs": 0, "not_recovered": 0}
