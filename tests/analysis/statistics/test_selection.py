"""Selection on the outcome, simulated: a few campaigns; docs/statistics.md has all of them."""

from __future__ import annotations

from bench.selection import KINDS, simulated

OF = {kind.name: kind for kind in KINDS}


def test_starvation_that_depends_on_the_cell_alone_makes_no_difference() -> None:
    rates = simulated(OF["half of B"], campaigns=60)
    assert rates["before"] > 0.2, "the earlier rule selected runs by their losses"
    assert rates["conclusive"] <= 0.1
    assert rates["called"] <= 0.05
    assert rates["interval"] >= 0.9
    assert rates["bounds"] >= 0.95


def test_starvation_that_depends_on_the_outcome_is_doubtful_at_most() -> None:
    rates = simulated(OF["B: 6 in 10 without loss, none with"], campaigns=60)
    assert rates["before"] > 0.3
    assert rates["conclusive"] > 0.3, "no eligibility rule helps if the outcome decides it"
    assert rates["called"] <= 0.05
    assert rates["interval"] < 0.9
    assert rates["bounds"] >= 0.95


def test_a_difference_is_found_if_few_runs_starve() -> None:
    rates = simulated(OF["B loses more: 1 in 20, in both"], campaigns=60)
    assert rates["called"] >= 0.9
