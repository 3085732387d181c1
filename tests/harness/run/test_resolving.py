"""Faults of plans are refused when they are read: what could meet nothing or not be proven, words
that the plan's own target does not have, and names that its cluster does not have."""

from __future__ import annotations

from typing import Any

import pytest

from harness import registry
from harness.errors import PlanError
from harness.plan import parse_plan
from harness.plan.model import Check
from harness.run.preview import warnings
from harness.run.resolving import resolve

STEP = {"id": "x", "at_s": 1, "for_s": 3}
KILL = {**STEP, "nemesis": "kill"}
CUT = {**STEP, "nemesis": "partition"}
UPGRADE = {"id": "x", "at_s": 1, "nemesis": "upgrade", "nodes": "all"}
ZONES = {"target": {"system": "kafka", "version": "4.3.1", "racks": ["a", "b", "c"]}}
OLD = {"target": {"system": "kafka", "version": "2.0.0"}}


def plan(system: str = "kafka", **keys: Any) -> dict[str, Any]:
    target = {"system": system, **({"version": "4.3.1"} if system == "kafka" else {})}
    cluster = {"kind": "memory" if system == "memory" else "docker"}
    return {"schema": 1, "name": "p", "cluster": cluster, "target": target, **keys}


def refused(document: dict[str, Any]) -> PlanError:
    with pytest.raises(PlanError) as error:
        resolve(parse_plan(document), file="plan.toml")
    assert (error.value.exit_code, error.value.file) == (4, "plan.toml")
    return error.value


@pytest.mark.parametrize(
    ("step", "key", "what"),
    [
        ({**KILL, "nodes": "broker(7)"}, "nodes", "'broker(7)' is not a node of this cluster"),
        ({**KILL, "nodes": "all - leader(99)"}, "nodes", "'leader(99)' is not a node"),
        ({**KILL, "nodes": "leader - leader"}, "nodes", "is never a node of this cluster"),
        ({**CUT, "nodes": "all", "groups": ["broker(1)", "broker(9)"]}, "groups.1", "'broker(9)'"),
        ({**CUT, "groups": ["broker(1)", "broker(2)"]}, "nodes", "would affect nothing"),
        ({**CUT, "form": "ring"}, "nodes", "partition of 'leader' would affect nothing"),
        ({**CUT, "form": "halves", "nodes": "all"}, "nodes", "would affect nothing"),
        ({**CUT, "nodes": "node:b1", "peers": "node:b1"}, "nodes", "would affect nothing"),
        (
            {**STEP, "nemesis": "lossy", "nodes": "node:b1", "peers": "node:b1"},
            "nodes",
            "lossy of 'node:b1' would affect nothing",
        ),
        ({"id": "x", "nemesis": "kill", "when": "isr(9) == [leader]"}, "when", "no partition 9"),
        ({"id": "x", "nemesis": "kill", "when": "isr > 3"}, "when", "a partition has 3 replicas"),
        (
            {**STEP, "nemesis": "stress", "at_most_s": 2},
            "at_most_s",
            "stress ends by itself after 2 s, before it is healed: for_s is 3",
        ),
        (
            {**STEP, "nemesis": "clock", "form": "drift", "limit_s": 3},
            "limit_s",
            "clock ends by itself after 3 s",
        ),
    ],
)
def test_a_fault_that_cannot_be_is_refused_at_its_key(
    step: dict[str, Any], key: str, what: str
) -> None:
    error = refused(plan(faults=[step]))
    assert error.key == f"faults.x.{key}"
    assert what in error.what


def test_a_family_that_the_seed_never_draws_is_refused_too() -> None:
    families = [{"nemesis": "kill"}, {"nemesis": "partition", "form": "ring", "nodes": "leader"}]
    error = refused(plan(mix={"families": families}, workload={"duration_s": 1}))
    assert error.key == "mix.families.1.nodes"


@pytest.mark.parametrize(
    "step",
    [
        {**KILL, "nodes": "out-of-isr(0)"},
        {**KILL, "nodes": "leader - broker(1)"},
        {**KILL, "nodes": "broker(1) & follower(0)"},
        {**KILL, "nodes": "all - random"},
        {**CUT, "nodes": "leader", "peers": "isr(0)"},
        {**CUT, "nodes": "node:b1", "peers": "clients"},
        {**CUT, "nodes": "controller", "peers": "leader"},
        {"id": "x", "nemesis": "kill", "when": "isr < 1"},
        {**STEP, "nemesis": "clock", "form": "jump", "limit_s": 2},
        {"id": "x", "at_s": 1, "nemesis": "stress", "at_most_s": 2},
    ],
)
def test_what_may_be_is_accepted(step: dict[str, Any]) -> None:
    """It depends on who leads when the fault begins, or on what is drawn."""
    (resolved,) = resolve(parse_plan(plan(faults=[step]))).steps
    assert resolved.step.id == step["id"]


def test_a_cell_may_have_more_partitions() -> None:
    cells = [{"name": "one"}, {"name": "four", "topic": {"partitions": 4}}]
    step = {**KILL, "when": "leader(3) moved", "nodes": "leader(3)"}
    del step["at_s"]
    assert len(resolve(parse_plan(plan(faults=[step], cells=cells))).cells) == 2
    refused(plan(faults=[step]))


def warned(*faults: dict[str, Any], **keys: Any) -> list[str]:
    found = warnings(resolve(parse_plan(plan(faults=list(faults), **keys))))
    return [each for each in found if each.startswith("faults.")]


KEPT = {"id": "kept", "at_s": 1, "nemesis": "kill"}
HEALS_IT = {"id": "h", "heal": ["kept"]}


@pytest.mark.parametrize(
    ("faults", "places"),
    [
        ([KEPT], [0]),
        ([{**KEPT, "for_s": 2}], []),
        ([KEPT, HEALS_IT], []),
        ([{**KILL, "id": "x"}, {"id": "h", "heal": ["x"]}, {**KEPT, "at_s": 9}], [2]),
        ([{**KEPT, "id": "a"}, KEPT, HEALS_IT], [0]),
        ([{**KEPT, "nemesis": "stress", "at_most_s": 2}], []),
        ([{**KEPT, "nemesis": "stress", "at_most_s": 900}], [0]),
        ([{**KEPT, "nemesis": "membership", "form": "elect", "nodes": "all"}], []),
        ([{**KEPT, "nemesis": "client", "replaced": "at-once"}], []),
    ],
)
def test_a_fault_that_nothing_heals_is_a_warning(
    faults: list[dict[str, Any]], places: list[int]
) -> None:
    found = warned(*faults)
    where = [f"faults.{faults[place]['id']}" for place in places]
    assert [each.split(":")[0] for each in found] == where
    for each in found:
        assert (
            "nothing heals it before the load ends, when ackloss heals all faults: add for_s"
            in each
        )


@pytest.mark.parametrize(
    ("step", "torn"),
    [
        ({"nodes": "rack:a"}, "rack:a"),
        ({"nodes": "all"}, "rack:a, rack:b, rack:c"),
        ({"nodes": "rack:a", "peers": "role:broker"}, "rack:a"),
        ({"nodes": "rack:a", "form": "halves"}, None),
        ({"nodes": "rack:a", "peers": "clients"}, None),
        ({"nodes": "leader + controller"}, None),
    ],
)
def test_an_isolated_zone_is_a_warning(step: dict[str, Any], torn: str | None) -> None:
    found = warned({**CUT, **step}, **ZONES)
    assert len(found) == (torn is not None)
    assert torn is None or f"cuts the nodes of {torn} from each other" in found[0]


WORDS: list[tuple[str, dict[str, Any], dict[str, Any], str, str, str]] = [
    ("kafka", {}, {"nodes": "leeder"}, "nodes", "'leeder' is not a selector", "'leader'"),
    ("memory", {}, {"nodes": "broker(1)"}, "nodes", "is not a selector of memory", "replica(N)"),
    ("memory", {}, {"peers": "broker(1)"}, "peers", "is not a selector of memory", "replica(N)"),
    ("kafka", {}, {"groups": ["all", "folower(0)"]}, "groups.1", "'folower(0)'", "'follower(0)'"),
    ("memory", {}, {"when": "isr whole"}, "when", "not a condition of memory", "fully replicated"),
    ("kafka", {}, {"when": "quorum lost"}, "when", "not a condition of kafka", "isr whole"),
    ("memory", {}, {"nodes": "node:n9"}, "nodes", "no node of", "the nodes n1, n2, n3, c1"),
    ("kafka", {}, {"nodes": "all - node:b4"}, "nodes", "no node of", "b1, b2, b3, c1, c2, c3"),
    ("kafka", {}, {"nodes": "role:brokers"}, "nodes", "no role of", "did you mean 'role:broker'?"),
    ("kafka", OLD, {"nodes": "role:controller"}, "nodes", "no role of", "zookeeper, broker"),
    ("kafka", {}, {"nodes": "rack:a"}, "nodes", "no rack of", "it has no racks"),
    ("kafka", ZONES, {"nodes": "rack:z"}, "nodes", "no rack of", "it has the racks a, b, c"),
    ("memory", {}, {"groups": ["node:n1", "node:n4"]}, "groups.1", "'node:n4' names no", "n3"),
    ("memory", {}, {"peers": "same:before"}, "peers", "no earlier fault is named 'before'", "none"),
]


@pytest.mark.parametrize(("system", "keys", "step", "key", "what", "hint"), WORDS)
def test_words_and_names_that_there_are_not_are_refused_at_their_key(
    system: str, keys: dict[str, Any], step: dict[str, Any], key: str, what: str, hint: str
) -> None:
    begins = {"at_s": None, "nodes": "all"} if "when" in step else {}
    error = refused(plan(system, faults=[{**CUT, **begins, "for_s": 1, **step}], **keys))
    assert error.key == f"faults.x.{key}"
    assert what in error.what
    assert hint in (error.hint or "")


def test_names_that_the_cluster_has_are_accepted() -> None:
    for system, nodes, keys in (
        ("memory", "node:n1 + role:replica - role:controller + node:c1", {}),
        ("kafka", "rack:a - rack:b", ZONES),
        ("kafka", "role:zookeeper + node:z1", OLD),
        ("memory", "node:n5", {"target": {"system": "memory", "replicas": 5}}),
    ):
        (resolved,) = resolve(
            parse_plan(plan(system, faults=[{**CUT, "nodes": nodes}], **keys))
        ).steps
        assert resolved.step.nodes == nodes
    before = {"id": "before", "at_s": 0, "nemesis": "kill", "nodes": "one"}
    both = resolve(parse_plan(plan("memory", faults=[before, {**CUT, "peers": "same:before"}])))
    assert [each.step.id for each in both.steps] == ["before", CUT["id"]]


@pytest.mark.parametrize(
    ("version", "to", "key", "what"),
    [
        ("3.9.2", "", "to", "'' is not a released version"),
        ("3.9.2", "3.8.9", "to", "'3.8.9' is not a released version"),
        ("2.8.2", "4.0.2", "to", "no path leads from 2.8.2 with zookeeper to 4.0.2"),
        ("3.9.2", "9.9.9", "to", "Kafka 9.9.9 is an unsupported version"),
        ("3.9.2", "2.8.2", "to", "no path leads from 3.9.2 with kraft to 2.8.2"),
        ("3.9.2", "3.8.1", "to", "no path leads from 3.9.2 back to 3.8.1, which does not know the"),
    ],
)
def test_versions_without_a_path_between_them(version: str, to: str, key: str, what: str) -> None:
    faults = [{**UPGRADE, "to": to}]
    error = refused(plan(target={"system": "kafka", "version": version}, faults=faults))
    assert (error.key, error.what[: len(what)]) == (f"faults.x.{key}", what)


def test_the_way_back_is_open_where_levels_permit_it_or_a_step_changes_them() -> None:
    """What a node does with a level that it does not know, the run shows."""
    levels = {"id": "l", "nemesis": "features", "nodes": "all"}
    back = {**UPGRADE, "to": "3.8.1"}
    for low, faults in (({"metadata.version": 20}, [back]), ({}, [levels, back])):
        target = {"system": "kafka", "version": "3.9.2", "features": low}
        resolved = resolve(parse_plan(plan(target=target, faults=faults)))
        assert [each.step.nemesis for each in resolved.steps][-1] == "upgrade"


def test_what_upgrades_cannot_be_done_to() -> None:
    """Nothing undoes one; and not every cluster, and not every system, has programs to replace."""
    to = {**UPGRADE, "to": "4.4.0"}
    assert refused(plan(faults=[{**to, "for_s": 5}])).key == "faults.x.for_s"
    assert refused(plan(faults=[to, {"id": "y", "heal": ["x"]}])).key == "faults.y.heal"
    simulated = refused(plan("memory", faults=[to]))
    assert simulated.what == "upgrade cannot be made: a simulated node has no versions"
    for kind in ("ssh", "compose", "external"):
        assert registry.make("clusters", kind, {}, key="cluster.kind").why_no_lever("program")
    etcd = refused(plan("etcd", workload={"name": "set"}, faults=[{**to, "to": "3.4.23"}]))
    assert etcd.what == "etcd has no path from one program to another"


@pytest.mark.parametrize("asked", [[], ["register"]])
def test_what_judges_a_workload_is_its_own_unless_the_plan_says(asked: list[str]) -> None:
    document = plan(workload={"name": "metadata"}, checks=asked)
    (judge,) = resolve(parse_plan(document)).plan.checks
    assert judge == (asked[0] if asked else Check(name="register", consistency="eventual"))


@pytest.mark.parametrize(("checks", "connect"), [(["set"], "all"), (["set", "replicas"], "one")])
def test_clients_of_final_reads_stay_where_each_node_is_to_be_read(
    checks: list[str], connect: str
) -> None:
    resolved = resolve(parse_plan(plan("etcd", workload={"name": "set"}, checks=checks)))
    final: Any = resolved.final_plan.workload
    assert final.connect == connect
    assert final == resolved.plan.workload.model_copy(update={"connect": connect})
