"""What a plan of the reference system may state."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import PlanError
from harness.plan import parse_plan
from harness.run.resolving import resolve
from targets.memory.plan import ABSENT


def plan_of(**target: object) -> dict[str, Any]:
    return {"schema": 1, "name": "x", "target": {"system": "memory", **target}}


SET = {
    "version": "1.0",
    "image": "debian:12",
    "settings": {"a": 1},
    "memory_mb": 4096,
}


@pytest.mark.parametrize("key", ABSENT)
def test_what_only_real_nodes_have_is_refused(key: str) -> None:
    with pytest.raises(PlanError) as refused:
        resolve(parse_plan(plan_of(**{key: SET[key]})), file="plan.toml")
    assert str(refused.value) == (
        f"plan.toml: target.{key}: the reference system has none; leave it out"
    )


def test_a_stored_plan_holds_the_defaults_and_is_accepted() -> None:
    stored = parse_plan(plan_of()).document()
    assert set(ABSENT) <= stored["target"].keys()
    assert resolve(parse_plan(stored)).plan.document() == stored
