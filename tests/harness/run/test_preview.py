"""A dry run shows commands on the nodes that a fault would choose."""

from __future__ import annotations

from typing import Any

import pytest

from harness.plan import parse_plan
from harness.run.preview import dry_run
from harness.run.resolving import resolve

LEADER = [
    {"id": "cut", "at_s": 1, "nemesis": "partition", "nodes": "leader", "peers": "all"},
    {"id": "met", "after_s": 1, "nemesis": "protocol", "nodes": "leader", "act": "reset"},
]


@pytest.mark.parametrize(
    "target",
    [{"version": "4.3.1"}, {"version": "2.8.2"}, {"version": "3.9.2", "metadata": "zookeeper"}],
)
def test_the_leader_of_a_dry_run_is_a_broker(target: dict[str, Any]) -> None:
    plan = parse_plan({"schema": 1, "name": "x", "target": target, "faults": LEADER})
    steps = dry_run(resolve(plan))["faults"]
    assert [step["nodes"] for step in steps] == ["leader (here as if b1)"] * 2
    assert all(command.startswith("b1") for step in steps for command in step["commands"])
