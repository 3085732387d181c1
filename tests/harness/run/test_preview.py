"""A dry run shows the schedule on a time axis, and acts on the nodes that a fault would choose."""

from __future__ import annotations

from typing import Any

import pytest

from harness.plan import parse_plan
from harness.run.preview import chart, dry_run
from harness.run.resolving import resolve
from tests.fixtures.command_line import ackloss, ackloss_json

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


KAFKA = {"version": "4.3.1"}
WAITING = [
    {"id": "down", "at_s": 5, "nemesis": "kill", "nodes": "leader", "for_s": 8},
    {"id": "cut", "at_s": 20, "nemesis": "partition", "nodes": "broker(1)"},
    {"id": "then", "when": "isr < 3", "within_s": 5, "after_s": 5, "heal": ["cut"]},
]


def test_a_schedule_is_a_picture_on_the_axis_of_the_load() -> None:
    load = {"duration_s": 48}
    plan = parse_plan(
        {"schema": 1, "name": "x", "target": KAFKA, "workload": load, "faults": WAITING}
    )
    axis, down, cut, then = chart(dry_run(resolve(plan)))
    assert axis.split() == ["0", "s", "12", "s", "24", "s", "36", "s", "48", "s"]
    zero = axis.index("0 s")
    assert (down.index("█") - zero, down.count("█")) == (5, 8)
    assert down.endswith(" 5 s kill leader for 8 s")
    assert (cut.index("█") - zero, cut.count("█")) == (20, 10)  # until it is healed at the latest
    assert cut.endswith(" 20 s partition broker(1)")
    assert (then.index("·") - zero, then.count("·"), then.index("│") - zero) == (25, 5, 30)
    assert then.endswith("when 'isr < 3' holds, at most 5 s, and 5 s later heal cut")


def test_a_plan_without_faults_says_so() -> None:
    plan = parse_plan({"schema": 1, "name": "x", "target": KAFKA})
    assert chart(dry_run(resolve(plan))) == ["no faults"]


def test_the_command_line_shows_the_picture_and_details_only_on_request() -> None:
    short, long = (
        ackloss("run", "kafka-safe", "--dry-run", *more).stdout for more in ((), ("-v",))
    )
    for shown in (short, long):
        assert "measured by loss: Counts acknowledged writes that are lost" in shown
        assert "4 s partition leader" in shown
        assert "takes about " in shown
    assert "b1: net (peers" in long
    assert "b1: net (peers" not in short
    assert "plan with its defaults" in long
    (plan,) = ackloss_json("run", "kafka-safe", "--dry-run")["plans"]
    assert {"plan", "image", "nodes", "faults", "warnings"} <= plan.keys()
    assert plan["faults"][0]["commands"][0].startswith("b1: net (peers")
