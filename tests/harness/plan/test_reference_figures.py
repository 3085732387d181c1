"""Figures from elsewhere in a plan: only numbers and text, and their books balance."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import PlanError
from harness.plan import Plan, parse_plan

FIGURES = {
    "attempted": 1000, "acknowledged": 987, "survivors": 468, "lost": 520,
    "unacknowledged_found": 1,
}  # fmt: skip


def plan(**reference: Any) -> Plan:
    reported = {"source": "a page", "figures": FIGURES, **reference}
    return parse_plan(
        {"schema": 1, "name": "x", "target": {"version": "4.3.1"}, "reference": [reported]}
    )


def test_the_experiment_of_2013_balances() -> None:
    kept = plan(differs=["Another year."]).document()["reference"]
    assert kept == [{"source": "a page", "figures": FIGURES, "differs": ["Another year."]}]
    assert parse_plan(plan().document()) == plan(), "a stored plan reads back as it was"


@pytest.mark.parametrize(
    "slip",
    [
        {"survivors": 467},
        {"acknowledged": 1001, "survivors": 482},
        {"lost": 988, "survivors": 0},
        {"unacknowledged_found": 14, "survivors": 481},
    ],
)
def test_inconsistent_totals_are_refused(slip: dict[str, int]) -> None:
    with pytest.raises(PlanError, match="the totals are not consistent") as refused:
        plan(figures=FIGURES | slip)
    assert refused.value.key == "reference.0.figures"


@pytest.mark.parametrize(
    ("slip", "key"),
    [
        ({"figures": FIGURES | {"lost": -1}}, "reference.0.figures.lost"),
        ({"figures": FIGURES | {"lots": 1}}, "reference.0.figures.lots"),
        ({"source": ""}, "reference.0.source"),
        ({"differs": [""]}, "reference.0.differs.0"),
        ({"verdict": "invalid"}, "reference.0.verdict"),
    ],
)
def test_what_it_cannot_hold_is_refused_at_its_key(slip: dict[str, Any], key: str) -> None:
    with pytest.raises(PlanError) as refused:
        plan(**slip)
    assert refused.value.key == key
