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
    ("slip", "words"),
    [
        ({"survivors": 467}, "are not consistent: acknowledged + unacknowledged_found is 988"),
        ({"acknowledged": 1001, "survivors": 482}, "1001 acknowledged are more than 1000"),
        ({"lost": 988, "survivors": 0}, "988 lost are more than 987 acknowledged"),
        (
            {"unacknowledged_found": 14, "survivors": 481},
            "14 found unacknowledged are more than the 13",
        ),
    ],
)
def test_inconsistent_totals_are_refused(slip: dict[str, int], words: str) -> None:
    with pytest.raises(PlanError) as refused:
        plan(figures=FIGURES | slip)
    assert refused.value.key == "reference.0.figures"
    assert words in refused.value.what


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
