"""Selection on the outcome, simulated: a few campaigns here, all of them in docs/statistics.md."""

from __future__ import annotations

from bench.selection import KINDS, played

OF = {kind.name: kind for kind in KINDS}


def test_starvation_that_depends_on_the_cell_alone_makes_no_difference() -> None:
    told = played(OF["half of B"], campaigns=60)
    assert told["before"] > 0.2, "what was counted before had chosen its runs by what they lost"
    assert told["conclusive"] <= 0.1
    assert told["called"] <= 0.05
    assert told["interval"] >= 0.9
    assert told["bounds"] >= 0.95


def test_starvation_that_depends_on_the_outcome_is_doubtful_at_most() -> None:
    told = played(OF["B: 6 in 10 without loss, none with"], campaigns=60)
    assert told["before"] > 0.3
    assert told["conclusive"] > 0.3, "no rule for eligibility helps where the outcome decides it"
    assert told["called"] <= 0.05
    assert told["interval"] < 0.9
    assert told["bounds"] >= 0.95


def test_what_is_there_is_found_where_few_runs_are_starved() -> None:
    told = played(OF["B loses more: 1 in 20, in both"], campaigns=60)
    assert told["called"] >= 0.9
