"""Selection on the outcome, simulated: a few campaigns; docs/reference/statistics.md has all of
them."""

from __future__ import annotations

import pytest

from bench.selection import KINDS, Kind, simulated
from tests.fixtures.budget import budget

pytestmark = pytest.mark.slow

OF = {kind.name: kind for kind in KINDS}


def test_starvation_that_depends_on_the_cell_alone_makes_no_difference() -> None:
    rates = simulated(OF["half of B"], campaigns=budget(30, 60))
    assert rates["before"] > 0.2, "the earlier rule selected runs by their losses"
    assert rates["conclusive"] <= 0.1
    assert rates["called"] <= 0.05
    assert rates["interval"] >= 0.9
    assert rates["bounds"] >= 0.95


def test_starvation_that_depends_on_the_outcome_is_doubtful_at_most() -> None:
    rates = simulated(OF["B: 6 in 10 without loss, none with"], campaigns=budget(30, 60))
    assert rates["before"] > 0.3
    assert rates["conclusive"] > 0.3, "no eligibility rule helps if the outcome decides it"
    assert rates["called"] <= 0.05
    assert rates["interval"] < 0.9
    assert rates["bounds"] >= 0.95


def test_a_difference_is_found_if_few_runs_starve() -> None:
    rates = simulated(OF["B loses more: 1 in 20, in both"], campaigns=budget(30, 60))
    assert rates["called"] >= 0.9


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name.startswith("a cause")])
def test_what_is_printed_covers_where_one_cause_loses_writes_and_prevents_the_condition(
    kind: Kind,
) -> None:
    rates = simulated(kind, campaigns=200, rules=False)
    assert rates["interval"] < 0.9, "it was printed, and selected runs by what they lost"
    assert rates["printed"] >= 0.93


def test_what_is_printed_covers_where_nothing_selects_runs() -> None:
    for name in ("no run is starved", "half of B"):
        assert simulated(OF[name], campaigns=200, rules=False)["printed"] >= 0.93
