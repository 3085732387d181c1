"""The number of processes follows from the rate and the delivery time-out, unless it is given."""

from __future__ import annotations

from typing import Any

import pytest

from harness.plan import parse_plan
from targets.kafka.target import Kafka


def plan(**load: Any) -> Any:
    document = {"schema": 1, "name": "x", "target": {"version": "4.3.1"}, "workload": load}
    return parse_plan(document)


def timeout(name: str, ms: object) -> dict[str, dict[str, object]]:
    return {"producer": {name: ms}}


@pytest.mark.parametrize(
    ("load", "processes"),
    [
        ({}, 1000),
        ({"rate_per_s": 500}, 5000),
        ({"rate_per_s": 500, **timeout("message.timeout.ms", 30_000)}, 18_750),
        ({"rate_per_s": 500, **timeout("delivery.timeout.ms", 30_000)}, 18_750),
        ({"client": "java", "rate_per_s": 20}, 3000),
        ({"client": "java", "rate_per_s": 20, **timeout("delivery.timeout.ms", 30_000)}, 750),
        ({"rate_per_s": 10, "duration_s": 60, **timeout("message.timeout.ms", 0)}, 750),
        ({"rate_per_s": 100_000}, 20_000),
        ({"rate_per_s": 0}, 1000),
        ({"rate_per_s": 500, "processes": 7}, 7),
    ],
)
def test_as_many_processes_as_keep_the_rate_while_all_writes_wait(
    load: dict[str, Any], processes: int
) -> None:
    made = plan(**load)
    assert made.workload.processes == processes
    assert parse_plan(made.document()) == made
    needed = made.blocked_s * made.workload.rate_per_s
    assert bool(Kafka().warnings(made)) == (processes < needed)


def test_the_warning_looks_at_the_time_out_of_the_client_that_writes() -> None:
    few = {"rate_per_s": 100, "processes": 1000}
    assert not Kafka().warnings(plan(**few))
    (warning,) = Kafka().warnings(plan(**few, **timeout("delivery.timeout.ms", 30_000)))
    assert "(30 s): 3000 would" in warning
    (warning,) = Kafka().warnings(plan(**few, client="java"))
    assert "(120 s): 12000 would" in warning
