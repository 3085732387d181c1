"""Plans: what is refused, in which words, and what --set changes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from harness.errors import PlanError
from harness.plan import load_plan, parse_plan
from harness.plan.parsing import apply_change

PLANS = sorted((Path(__file__).parents[3] / "plans").rglob("*.toml"))

MINIMAL = {"schema": 1, "name": "a plan", "target": {"version": "4.3.1"}}


def refused(**changes: object) -> PlanError:
    with pytest.raises(PlanError) as error:
        parse_plan({**MINIMAL, **changes}, file="plan.toml")
    assert error.value.file == "plan.toml"
    return error.value


def test_shipped_plans_are_valid_and_say_what_they_show() -> None:
    """A plan whose outcome is a matter of chance says so, and expects none."""
    for plan in map(load_plan, PLANS):
        assert plan.about.strip()
        chance = "no verdict is expected" in " ".join(plan.about.lower().split())
        assert (plan.expect is None) == chance


def test_defaults_fill_a_minimal_plan() -> None:
    plan = parse_plan(MINIMAL)
    assert (plan.target.brokers, plan.target.controllers) == (3, 3)
    assert parse_plan(plan.document()) == plan
    assert parse_plan(plan.document()).digest() == plan.digest()


def test_an_option_beside_the_keys_of_workload_gets_the_hint_of_its_table() -> None:
    assert refused(workload={"hot": 1}).hint == (
        "remove it; options of the workload itself are in [workload.options]"
    )
    assert refused(final={"hot": 1}).hint == "remove it"


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_numbers_of_faults_are_finite(number: float) -> None:
    """JSON has neither infinity nor NaN: the stored plan, and the fault, would have the default."""
    given = {"nemesis": "stress", "at_most_s": number}
    for error, key in [
        (refused(faults=[{"id": "x", "at_s": 1, **given}]), "faults.x.at_most_s"),
        (refused(mix={"families": [given]}), "mix.families.0.at_most_s"),
    ]:
        assert (error.key, error.hint) == (key, "use a finite number")


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"workload": {"options": {"keys": math.inf}}}, "workload.options.keys"),
        ({"checks": [{"name": "loss", "within": math.nan}]}, "checks.0.within"),
        ({"cluster": {"kind": "memory", "delay": math.inf}}, "cluster.delay"),
        ({"target": {"version": "4.3.1", "settings": {"a": math.nan}}}, "target.settings.a"),
        (
            {"faults": [{"id": "x", "nemesis": "protocol", "rules": [{"n": math.nan}]}]},
            "faults.x.rules",
        ),
        ({"cells": [{"name": "a", "topic": {"x": math.inf}}, {"name": "b"}]}, "cells.0.topic"),
    ],
)
def test_numbers_of_other_options_are_finite(changes: dict[str, object], key: str) -> None:
    error = refused(**changes)
    assert (error.key, error.hint) == (key, "use a finite number")


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"faults": [{"id": "x", "at_s": 1}]}, "faults.x", "either a nemesis"),
        (
            {"faults": [{"id": "x", "at_s": 1, "when": "isr whole", "nemesis": "kill"}]},
            "faults.x",
            "not both",
        ),
        ({"faults": [{"id": "x", "heal": ["y"]}]}, "faults.x.heal", "no earlier step"),
        (
            {"faults": [{"id": "x", "nemesis": "kill"}, {"id": "x", "nemesis": "kill"}]},
            "faults.x.id",
            "an earlier step too",
        ),
        ({"target": {"version": "4.3.1; reboot"}}, "target.version", "is an unsupported version"),
        ({"target": {"version": "4.3.1", "image": "kafka"}}, "target", "not both"),
        ({"target": {"image": "--privileged"}}, "target.image", "is not allowed here"),
        ({"topic": {"name": "../../etc"}}, "topic.name", "is not allowed here"),
        ({"topic": {"settings": {"a b": 1}}}, "topic.settings", "not a setting name"),
        (
            {"target": {"version": "4.3.1", "settings": {"x": "1\nprocess.roles=x"}}},
            "target.settings.x",
            "control character",
        ),
        ({"schema": 2}, "schema", "this ackloss reads 1"),
    ],
)
def test_what_cannot_be_is_refused_at_its_key(
    changes: dict[str, object], key: str, words: str
) -> None:
    error = refused(**changes)
    assert (error.key or "").startswith(key)
    assert words in str(error)


def test_a_name_may_be_any_text() -> None:
    assert parse_plan({**MINIMAL, "name": "<script>alert(1)</script>"}).name.startswith("<")


def test_toml_errors_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text("schema = 1\nname = \n")
    with pytest.raises(PlanError, match="line 2") as error:
        load_plan(path)
    assert error.value.file == str(path)


@pytest.mark.parametrize(
    ("change", "at", "value"),
    [
        ("target.version=3.9", ("target", "version"), "3.9"),
        ("topic.partitions=5", ("topic", "partitions"), 5),
        ('topic.settings."min.insync.replicas"=2', ("topic", "settings", "min.insync.replicas"), 2),
        ("workload.producer.acks=all", ("workload", "producer", "acks"), "all"),
        ("faults.0.at_s=9.5", ("faults", 0, "at_s"), 9.5),
        ("name=a = b", ("name",), "a = b"),
    ],
)
def test_set_changes_one_key(change: str, at: tuple[str | int, ...], value: object) -> None:
    document: dict[str, object] = {"faults": [{"id": "x", "at_s": 1}]}
    apply_change(document, change)
    place: object = document
    for part in at:
        place = place[part]  # type: ignore[index]
    assert place == value


@pytest.mark.parametrize(
    "change", ["topic.partitions", "=3", "a..b=3", "faults.7.at_s=1", "name.x=1"]
)
def test_set_refuses_what_is_no_change(change: str) -> None:
    with pytest.raises(PlanError):
        apply_change({"name": "x", "faults": []}, change)
