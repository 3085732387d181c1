"""Where replicas are put: who leads at first is the plan's word."""

from __future__ import annotations

from typing import Any

import pytest

from harness.plan import parse_plan
from targets.kafka.placements import assignment


@pytest.mark.parametrize(
    ("leaders", "brokers", "replicas", "placed"),
    [
        ("one", 3, 3, {0: [1, 2, 3], 1: [1, 2, 3]}),
        ("spread", 3, 3, {0: [1, 2, 3], 1: [2, 3, 1]}),
        ("spread", 3, 2, {0: [1, 2], 1: [2, 3]}),
        ("spread", 1, 1, {0: [1], 1: [1]}),
    ],
)
def test_the_first_replica_leads(
    leaders: str, brokers: int, replicas: int, placed: dict[int, list[int]]
) -> None:
    topic: dict[str, Any] = {
        "partitions": 2,
        "replication_factor": replicas,
        "leaders": leaders,
    }
    plan = parse_plan(
        {"schema": 1, "name": "x", "target": {"version": "2.8.2", "brokers": brokers}}
        | {"topic": topic}
    )
    assert assignment(plan) == placed
