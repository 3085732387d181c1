"""Selectors and conditions are in the words of the plan's own target, or the plan is refused."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import PlanError
from harness.plan import parse_plan
from harness.run.resolving import resolve

CUT = {"id": "cut", "at_s": 1, "nemesis": "partition"}
MIX = {"families": [{"nemesis": "kill", "weight": 1000}, {"nemesis": "kill", "weight": 0.001}]}


def plan(system: str, **keys: Any) -> dict[str, Any]:
    target = {"system": system, **({"version": "4.3.1"} if system == "kafka" else {})}
    cluster = {"kind": "memory" if system == "memory" else "docker"}
    return {"schema": 1, "name": "p", "cluster": cluster, "target": target, **keys}


def resolved(document: dict[str, Any]) -> None:
    resolve(parse_plan(document))


@pytest.mark.parametrize(
    ("system", "step", "key", "what", "hint"),
    [
        ("kafka", {"nodes": "leeder"}, "nodes", "'leeder' is not a selector", "'leader'"),
        ("memory", {"nodes": "broker(1)"}, "nodes", "'broker(1)' is not a selector", "replica(N)"),
        ("memory", {"peers": "broker(1)"}, "peers", "'broker(1)' is not a selector", "replica(N)"),
        ("kafka", {"groups": ["all", "folower(0)"]}, "groups.1", "'folower(0)'", "'follower(0)'"),
    ],
)
def test_a_selector_of_another_system_is_refused_at_its_key(
    system: str, step: dict[str, Any], key: str, what: str, hint: str
) -> None:
    with pytest.raises(PlanError) as refused:
        resolved(plan(system, faults=[{**CUT, **step}]))
    assert refused.value.key == f"faults.cut.{key}"
    assert what in refused.value.what
    assert hint in (refused.value.hint or "")
    assert refused.value.exit_code == 4


@pytest.mark.parametrize(
    ("system", "when", "hint"),
    [("memory", "isr whole", "fully replicated"), ("kafka", "fully replicated", "isr whole")],
)
def test_a_condition_of_another_system_is_refused_at_its_key(
    system: str, when: str, hint: str
) -> None:
    steps = [{**CUT, "nodes": "all"}, {"id": "later", "when": when, "heal": "all"}]
    with pytest.raises(PlanError, match=f"is not a condition of {system}") as refused:
        resolved(plan(system, faults=steps))
    assert refused.value.key == "faults.later.when"
    assert hint in (refused.value.hint or "")


RACKS = {"system": "kafka", "version": "4.3.1", "racks": ["a", "b"]}
OLD = {"system": "kafka", "version": "2.0.0"}


@pytest.mark.parametrize(
    ("system", "keys", "nodes", "hint"),
    [
        ("memory", {}, "node:n9", "it has the nodes n1, n2, n3, c1"),
        ("kafka", {}, "all - node:b4", "it has the nodes b1, b2, b3, c1, c2, c3"),
        ("kafka", {}, "role:brokers", "did you mean 'role:broker'? it has the roles broker, "),
        ("kafka", {"target": OLD}, "role:controller", "it has the roles zookeeper, broker"),
        ("kafka", {}, "rack:a", "it has no racks"),
        ("kafka", {"target": RACKS}, "rack:z", "it has the racks a, b"),
    ],
)
def test_a_name_that_the_cluster_does_not_have_is_refused_at_its_key(
    system: str, keys: dict[str, Any], nodes: str, hint: str
) -> None:
    with pytest.raises(PlanError, match=r"names no .* of this cluster") as refused:
        resolved(plan(system, faults=[{**CUT, "nodes": nodes}], **keys))
    assert refused.value.key == "faults.cut.nodes"
    assert hint in (refused.value.hint or "")
    assert refused.value.exit_code == 4


def test_names_are_checked_in_options_and_families_too() -> None:
    step = {**CUT, "nodes": "all", "groups": ["node:n1", "node:n2 + node:n4"]}
    with pytest.raises(PlanError, match="'node:n4' names no node") as refused:
        resolved(plan("memory", faults=[step]))
    assert refused.value.key == "faults.cut.groups.1"
    families = [MIX["families"][0], {**MIX["families"][1], "nodes": "role:zookeeper"}]
    with pytest.raises(PlanError, match="'role:zookeeper' names no role") as refused:
        resolved(plan("kafka", mix={"families": families}))
    assert refused.value.key == "mix.families.1.nodes"


def test_names_that_the_cluster_has_are_accepted() -> None:
    for system, nodes, keys in (
        ("memory", "node:n1 + role:replica - role:controller + node:c1", {}),
        ("kafka", "node:b3 + role:controller", {}),
        ("kafka", "rack:a - rack:b", {"target": RACKS}),
        ("kafka", "role:zookeeper + node:z1", {"target": OLD}),
    ):
        resolved(plan(system, faults=[{**CUT, "nodes": nodes}], **keys))
    three = {"target": {"system": "memory", "replicas": 5}}
    resolved(plan("memory", faults=[{**CUT, "nodes": "node:n5"}], **three))


def test_an_earlier_step_that_is_not_there_is_refused_in_options_too() -> None:
    step = {**CUT, "nodes": "all", "peers": "same:before"}
    with pytest.raises(PlanError, match="no earlier fault is named 'before'") as refused:
        resolved(plan("memory", faults=[step]))
    assert refused.value.key == "faults.cut.peers"
    before = {"id": "before", "at_s": 0, "nemesis": "kill", "nodes": "one"}
    resolved(plan("memory", faults=[before, step]))
