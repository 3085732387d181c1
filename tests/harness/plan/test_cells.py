"""Cells in a plan: what each of them is, and what is refused, with the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import PlanError
from harness.plan import load_plan, parse_plan
from harness.plan.model import MOST, dotted_keys, merged
from harness.run.resolving import resolve
from targets.kafka.configuration import assignment

ROOT = Path(__file__).parents[3]
KAFKA: dict[str, Any] = {
    "schema": 1,
    "name": "cells",
    "expect": "invalid",
    "target": {"version": "4.3.1"},
    "topic": {"partitions": 2, "settings": {"min.insync.replicas": 1, "retention.ms": -1}},
    "workload": {"processes": 100, "clients": 3, "rate_per_s": 300, "producer": {"acks": "all"}},
}
MEMORY: dict[str, Any] = {
    "schema": 1,
    "name": "cells",
    "cluster": {"kind": "memory"},
    "target": {"system": "memory", "partitions": 2},
}
ONE: dict[str, Any] = {"name": "one", "topic": {"settings": {"min.insync.replicas": 2}}}
TWO: dict[str, Any] = {"name": "two", "workload": {"producer": {"acks": "1"}}, "expect": "valid"}


def resolved_cells(*cells: dict[str, Any], **more: Any) -> Any:
    return resolve(parse_plan({**KAFKA, "cells": list(cells), **more}))


def test_each_cell_is_the_plan_with_its_own_keys_and_its_share_of_the_load() -> None:
    one, two, three = resolved_cells(ONE, TWO, {"name": "three"}).cells
    assert [cell.name for cell in (one, two, three)] == ["one", "two", "three"]
    assert one.plan.topic.settings == {"min.insync.replicas": 2, "retention.ms": -1}
    assert two.plan.topic.settings == {"min.insync.replicas": 1, "retention.ms": -1}
    assert (one.plan.workload.producer, two.plan.workload.producer) == (
        {"acks": "all"},
        {"acks": "1"},
    )
    load = three.plan.workload
    assert (load.rate_per_s, load.processes, load.clients) == (100, 34, 3)
    assert [cell.plan.expect for cell in (one, two, three)] == [None, "valid", None]
    assert one.plan.name == "cells: one"
    assert not one.plan.cells
    assert one.overrides == {'topic.settings."min.insync.replicas"': 2}
    assert three.overrides == {}
    parse_plan(one.plan.document())


def test_a_cell_has_no_more_clients_than_processes() -> None:
    (one, _) = resolved_cells(ONE, TWO, workload={"processes": 4, "clients": 3}).cells
    assert (one.plan.workload.processes, one.plan.workload.clients) == (2, 2)


def test_topics_of_cells_are_their_own_and_first_led_by_the_same_broker() -> None:
    plans = [cell.plan for cell in resolved_cells(ONE, TWO).cells]
    assert [plan.topic.name for plan in plans] == ["ackloss-one", "ackloss-two"]
    assert [assignment(plan) for plan in plans] == [{0: [1, 2, 3], 1: [1, 2, 3]}] * 2


def test_leaders_of_cells_are_spread_where_the_plan_says_so() -> None:
    topic = {"partitions": 1, "leaders": "spread"}
    cells = resolved_cells(ONE, TWO, {"name": "c"}, {"name": "d"}, topic=topic).cells
    assert [assignment(cell.plan)[0][0] for cell in cells] == [1, 2, 3, 1]


def test_a_plan_without_cells_places_leaders_and_hashes_as_before() -> None:
    plan: Any = parse_plan(KAFKA)
    assert assignment(plan) == {0: [1, 2, 3], 1: [2, 3, 1]}
    assert "cells" not in plan.document()
    (only,) = resolve(plan).cells
    assert (only.name, only.plan) == ("", plan)


def test_partitions_of_the_reference_system_follow_one_another() -> None:
    cells = [{"name": "a"}, {"name": "b", "target": {"defects": ["unclean-election"]}}]
    found: Any = resolve(parse_plan({**MEMORY, "cells": cells})).cells
    assert [each.plan.target.first_partition for each in found] == [0, 2]
    assert [each.plan.target.defects for each in found] == [[], ["unclean-election"]]


@pytest.mark.parametrize("name", ["isr-cells", "groups/group-java", "memory/cells"])
def test_the_stored_plan_of_a_cell_is_that_of_a_run_of_the_cell_alone(name: str) -> None:
    for cell in resolve(load_plan(ROOT / "plans" / f"{name}.toml")).cells:
        alone = resolve(parse_plan(cell.plan.document())).plan
        target = {**cell.plan.document()["target"]}
        if "first_partition" in target:
            target["first_partition"] = 0
        assert alone.document() == {**cell.plan.document(), "target": target}


def test_the_znode_of_a_cell_stays_that_of_its_stored_plan() -> None:
    cells = [{"name": "a"}, {"name": "b", "workload": {"read": "sync"}}]
    plan = {"schema": 1, "name": "z", "target": {"system": "zookeeper", "version": "3.9.4"}}
    found = resolve(parse_plan({**plan, "workload": {"name": "set"}, "cells": cells})).cells
    alone: list[Any] = [parse_plan(cell.plan.document()) for cell in found]
    assert [each.workload.parent for each in alone] == ["/ackloss/a", "/ackloss/b"]
    assert [each.workload.read for each in alone] == ["plain", "sync"]


@pytest.mark.parametrize(
    ("system", "name", "made"),
    [
        ({"version": "4.3.1"}, "a" * 60, "topic.name"),
        ({"system": "zookeeper", "version": "3.9.4"}, "ends-with-a.", "workload.parent"),
    ],
)
def test_a_cell_whose_stored_plan_could_not_be_read_is_refused(
    system: dict[str, str], name: str, made: str
) -> None:
    workload = {"name": "set" if "system" in system else "append"}
    plan = {"schema": 1, "name": "p", "target": system, "workload": workload}
    with pytest.raises(PlanError) as refused:
        resolve(parse_plan({**plan, "cells": [{"name": "a"}, {"name": name}]}))
    assert refused.value.key == "cells.1.name"
    assert refused.value.what == f"the cell {name!r} would have a {made} that is not allowed"


def test_tables_are_merged_and_all_else_is_replaced() -> None:
    document = {"a": {"b": 1, "c": [1, 2]}, "d": 4}
    overrides = {"a": {"c": [3]}, "e": {"f.g": 5}}
    assert merged(document, overrides) == {"a": {"b": 1, "c": [3]}, "d": 4, "e": {"f.g": 5}}
    assert document == {"a": {"b": 1, "c": [1, 2]}, "d": 4}
    assert dotted_keys(overrides) == {"a.c": [3], 'e."f.g"': 5}


@pytest.mark.parametrize(
    ("cells", "key", "words"),
    [
        ([ONE], "cells", "one cell alone is a run without cells"),
        ([ONE, TWO, {**TWO, "name": "one"}], "cells.2.name", "'one' names an earlier cell too"),
        ([ONE, {"name": "No"}], "cells.1.name", "'No' is not allowed here"),
        ([ONE, {"topic": {}}], "cells.1.name", "is missing"),
        ([ONE, {**TWO, "expect": "lost"}], "cells.1.expect", "'lost' is not allowed here"),
        ([{"name": f"c{n}"} for n in range(MOST + 1)], "cells", f"at most {MOST}"),
        (
            [ONE, {"name": "x", "target": {"brokers": 5}}],
            "cells.1.target.brokers",
            "no cell may change this key: all cells have it in common",
        ),
        (
            [ONE, {"name": "x", "workload": {"rate_per_s": 5}}],
            "cells.1.workload.rate_per_s",
            "no cell may change this key",
        ),
        ([ONE, {"name": "x", "topic": {"name": "t"}}], "cells.1.topic.name", "no cell may"),
        (
            [ONE, {"name": "x", "topic": {"setings": {"a": 1}}}],
            "cells.1.topic.setings.a",
            "no cell may change this key",
        ),
        (
            [ONE, {"name": "x", "topic": {"settings": {"min.insync.replicas": 4}}}],
            'cells.1.topic.settings."min.insync.replicas"',
            "more than topic.replication_factor, 3",
        ),
        (
            [ONE, {"name": "x", "workload": {"producer": {"akcs": "1"}}}],
            'cells.1.workload.producer."akcs"',
            "did you mean 'acks'?",
        ),
    ],
)
def test_what_cannot_be_a_cell_is_refused_with_its_key(
    cells: list[dict[str, Any]], key: str, words: str
) -> None:
    with pytest.raises(PlanError) as refused:
        resolved_cells(*cells)
    assert refused.value.key == key
    assert words in str(refused.value)


def test_a_target_that_holds_no_cells_says_so() -> None:
    plan = parse_plan({**KAFKA, "cells": [ONE, TWO]})
    from harness.run.cells import cell_plans

    class Alone:
        plugin = "alone"
        cell_keys = ()

    with pytest.raises(PlanError, match="alone cannot hold several cells in one run") as refused:
        cell_plans(plan, Alone())  # type: ignore[arg-type]
    assert refused.value.key == "cells"


@pytest.mark.parametrize(
    ("more", "key", "words"),
    [
        ({"workload": {"client": "exec"}}, "workload.client", "cells have clients of ackloss"),
        ({"workload": {"client": "java"}}, "workload.client", "would be shared by all cells"),
        (
            {"faults": [{"id": "c", "at_s": 1, "nemesis": "client"}]},
            "faults.c.nemesis",
            "a fault meets all cells alike",
        ),
    ],
)
def test_clients_that_cells_cannot_have_each_for_itself_are_refused(
    more: dict[str, Any], key: str, words: str
) -> None:
    with pytest.raises(PlanError) as refused:
        resolved_cells(ONE, TWO, **more)
    assert refused.value.key == key
    assert words in str(refused.value)
    resolve(parse_plan({**KAFKA, **more}))  # without cells it is accepted


def test_what_a_version_does_not_honour_is_reported_of_the_cell_that_asks_for_it() -> None:
    old = {"version": "0.8.1.1"}
    found = resolved_cells(ONE, TWO, target=old, topic={}).unsupported
    assert [each.key for each in found if "min.insync" in each.key] == [
        'cells.0.topic.settings."min.insync.replicas"'
    ]


def test_the_shipped_plan_expects_of_its_twelve_cells_what_their_settings_decide() -> None:
    """Six lose, four do not; two depend on when the brokers' sessions end
    (docs/evidence/findings.md)."""
    cells = resolve(load_plan(ROOT / "plans" / "isr-cells.toml")).cells
    lossy = {cell.name for cell in cells if cell.plan.expect == "invalid"}
    assert len(cells) == 12
    assert lossy == {f"unclean-1-{acks}" for acks in ("1", "all")} | {
        f"{unclean}-{least}-1" for unclean in ("unclean", "clean") for least in (2, 3)
    }
    undecided = {cell.name for cell in cells if cell.plan.expect is None}
    assert undecided == {"clean-1-1", "unclean-2-all"}
