"""Named schedules, mixes and repeats: what they are written out as."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import PlanError
from harness.plan import Plan, parse_plan
from harness.plan.steps import named_schedules
from harness.run.preview import dry_run
from harness.run.resolving import resolve

MIX = {
    "families": [
        {"nemesis": "partition", "weight": 3, "direction": "in"},
        {"nemesis": "kill", "nodes": "one"},
    ],
    "mean_gap_s": 2,
    "mean_length_s": 3,
    "calm_s": 20,
}


def plan(**keys: Any) -> Plan:
    return parse_plan({"schema": 1, "name": "p", "seed": 7, "workload": {"duration_s": 60}, **keys})


def test_a_repeated_step_is_written_out_with_its_number() -> None:
    step = {"id": "roll", "at_s": 4, "nemesis": "kill", "nodes": "broker({n})", "for_s": 2}
    steps = plan(faults=[{**step, "repeat": {"times": 3, "every_s": 5}}]).faults
    assert [(s.id, s.at_s, s.nodes, s.for_s) for s in steps] == [
        ("roll-1", 4, "broker(1)", 2),
        ("roll-2", 9, "broker(2)", 2),
        ("roll-3", 14, "broker(3)", 2),
    ]


def test_repeated_steps_take_turns() -> None:
    kill = {"id": "k", "at_s": 5, "nemesis": "kill", "repeat": {"times": 2, "every_s": 20}}
    pause = {"id": "p", "at_s": 15, "nemesis": "pause", "repeat": {"times": 2, "every_s": 20}}
    steps = plan(faults=[kill, pause]).faults
    assert [(s.id, s.at_s) for s in steps] == [("k-1", 5), ("p-1", 15), ("k-2", 25), ("p-2", 35)]


def test_repeated_steps_beside_one_that_waits_stay_in_their_order() -> None:
    kill = {"id": "k", "at_s": 5, "nemesis": "kill", "repeat": {"times": 2, "every_s": 20}}
    wait = {"id": "w", "when": "isr whole", "nemesis": "pause"}
    assert [s.id for s in plan(faults=[kill, wait]).faults] == ["k-1", "k-2", "w"]


def test_a_repeated_step_that_waits_comes_later_each_time() -> None:
    step = {"id": "k", "when": "isr whole", "nemesis": "kill", "after_s": 1}
    steps = plan(faults=[{**step, "repeat": {"times": 2, "every_s": 5}}]).faults
    assert [(s.id, s.when, s.after_s) for s in steps] == [
        ("k-1", "isr whole", 1),
        ("k-2", "isr whole", 5),
    ]


def test_a_mix_is_drawn_from_the_seed_and_leaves_the_end_calm() -> None:
    steps = plan(mix=MIX).faults
    assert steps == plan(mix=MIX).faults
    assert steps != plan(mix=MIX, seed=8).faults
    assert len(steps) > 5
    assert {s.nemesis for s in steps} == {"partition", "kill"}
    for step in steps:
        begins_s, lasts_s = step.at_s or 0, step.for_s or 0
        assert 2 <= begins_s < begins_s + lasts_s <= 40.01
    assert all(s.options == {"direction": "in"} for s in steps if s.nemesis == "partition")


def test_weights_decide_how_often() -> None:
    many = {**MIX, "calm_s": 0, "mean_gap_s": 0.5}
    steps = plan(mix=many, workload={"duration_s": 1000}).faults
    share = sum(s.nemesis == "partition" for s in steps) / len(steps)
    assert len(steps) > 1000
    assert 0.70 < share < 0.80


def test_a_parsed_plan_parses_to_itself() -> None:
    for made in (plan(mix=MIX), plan(schedule="flapping-leader")):
        assert made.faults
        assert parse_plan(made.document()) == made


def test_a_parsed_mix_is_kept_beside_its_steps_and_vouches_for_no_others() -> None:
    made = plan(mix=MIX).document()
    assert made["mix"]["families"]
    made["faults"][0]["nodes"] = "all"
    with pytest.raises(PlanError, match="has faults and mix: one of the three"):
        parse_plan(made)


@pytest.mark.parametrize("name", named_schedules())
def test_every_named_schedule_binds_and_previews(name: str) -> None:
    assert named_schedules()[name]["about"]
    made = plan(schedule=name, target={"version": "4.3.1", "racks": ["a", "b", "c"]})
    reported = dry_run(resolve(made))["faults"]
    assert [step["id"] for step in reported] == [step.id for step in made.faults]
    assert all(step.get("commands") or step.get("heals") for step in reported)


STOCK = (
    "isolate-leader",
    "kill-all",
    "kill-leader",
    "lag-kill",
    "lag-power-loss",
    "pause-leader",
    "power-loss-all",
    "restart-quickly",
    "rolling-kill",
)


@pytest.mark.parametrize("name", STOCK)
@pytest.mark.parametrize("system", ["memory", "etcd", "zookeeper"])
def test_stock_schedules_are_in_the_words_of_every_system(system: str, name: str) -> None:
    workload = {"name": "set"}
    document: dict[str, Any] = {"schedule": name, "target": {"system": system}}
    if system == "zookeeper":
        document["target"]["version"] = "3.9.5"
    if system == "memory":
        document["cluster"] = {"kind": "memory"}
    made = parse_plan({"schema": 1, "name": "p", "seed": 1, "workload": workload, **document})
    assert dry_run(resolve(made))["faults"]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"schedule": "nonsense"}, "no schedule is named 'nonsense'; one of aphyr-2013"),
        (
            {"schedule": "zone-loss", "mix": MIX},
            "has schedule and mix: one of the three says what happens",
        ),
        ({"mix": {"families": []}}, "mix.families"),
        ({"mix": {**MIX, "mean_gap_s": 0}}, "mix.mean_gap_s"),
        (
            {"faults": [{"id": "k", "nemesis": "kill", "repeat": {"times": 0}}]},
            "faults.k.repeat.times",
        ),
    ],
)
def test_nonsense_is_refused_in_a_sentence(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanError) as refused:
        plan(**keys)
    assert words in str(refused.value)
