"""A replica that is out of sync at the end is a doubt, also of models without a final read."""

from __future__ import annotations

from pathlib import Path

import pytest

import ackloss

pytestmark = pytest.mark.slow

PLAN = """
schema = 1
name = "followers that are killed, and come back when the load has ended"
seed = 2

[cluster]
kind = "memory"

[target]
system = "memory"
commit = "isr"

[workload]
name = "{workload}"
processes = 6
rate_per_s = 100
duration_s = 2

[final]
drain_s = 5
settle_s = {settle_s}
read_s = 20

[[faults]]
id = "kill-follower"
at_s = 0.5
nemesis = "kill"
nodes = "follower(0)"
"""


SHORT, LONG = (0.01, "unknown", ("replicas",), 1), (20, "valid", (), 3)


@pytest.mark.parametrize(
    ("workload", "settle_s", "verdict", "doubts", "in_sync"),
    [
        ("register", *SHORT),
        ("register", *LONG),
        ("set", *SHORT),
        ("transactions", *SHORT),
        pytest.param("set", *LONG, marks=pytest.mark.full),
        pytest.param("transactions", *LONG, marks=pytest.mark.full),
    ],
)
def test_a_replica_that_is_behind_is_a_doubt(
    tmp_path: Path, workload: str, settle_s: float, verdict: str, doubts: tuple[str], in_sync: int
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.format(workload=workload, settle_s=settle_s))
    run = ackloss.run(plan, out=tmp_path / "runs")
    assert (run.result.verdict, run.result.doubts) == (verdict, doubts)
    assert run.result.eligible is (not doubts)
    assert [each.in_sync for each in run.metadata.in_sync or ()] == [in_sync]
