"""What every plug-in promises, of whatever kind: tests that find those of this installation in the
registry, no list to edit.

    pytest --pyargs ackloss.conformance -k NAME

runs those of one plug-in, whether it is in a package or in a folder that `ACKLOSS_PLUGINS` names.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from harness import registry
from harness.errors import PlanError
from harness.models import MODELS
from harness.plan import Plan, parse_plan
from harness.protocols import FAIL, INFO, OK, ImageRef, Ingredients, Workload, completion

ALL = [(kind, name) for kind in registry.KINDS for name in registry.plugins(kind)]
UNITS = ("_s", "_ms", "_ns", "_bytes", "_mb", "_count", "_share", "_per_s")


@pytest.mark.parametrize(("kind", "name"), ALL, ids=lambda part: part)
def test_it_is_a_frozen_dataclass_that_says_what_it_is(kind: str, name: str) -> None:
    plugin: Any = registry.plugins(kind)[name]
    assert re.fullmatch(r"[a-z][a-z0-9-]*", name)
    assert plugin.__dataclass_params__.frozen
    assert (plugin.__doc__ or "").strip()
    assert not plugin.__doc__.startswith(f"{plugin.__name__}("), "dataclass' own, not ours"


@pytest.mark.parametrize(("kind", "name"), ALL, ids=lambda part: part)
def test_its_options_have_defaults_a_schema_and_units(kind: str, name: str) -> None:
    plugin: Any = registry.plugins(kind)[name]
    made = registry.make(kind, name, {}, key="name")
    assert made == plugin()
    schema = registry.adapter(plugin).json_schema()
    assert set(schema.get("properties", {})) == {f.name for f in dataclasses.fields(plugin)}
    for field in dataclasses.fields(plugin):
        if field.type in ("int", "float", int, float):
            assert field.name.endswith(UNITS), f"{field.name}: its unit comes last in its name"


@pytest.mark.parametrize(("kind", "name"), ALL, ids=lambda part: part)
def test_it_refuses_options_that_it_does_not_have(kind: str, name: str) -> None:
    with pytest.raises(PlanError, match="has no option") as refused:
        registry.make(kind, name, {"no_such_option": 1}, key="place.name")
    assert refused.value.key == "place.no_such_option"


def test_every_kind_has_some() -> None:
    assert all(registry.plugins(kind) for kind in registry.KINDS)


@pytest.mark.parametrize("name", registry.plugins("workloads"))
@pytest.mark.parametrize(("processes", "partitions"), [(1, 1), (3, 2), (7, 5)])
def test_a_workload_writes_unique_values_in_the_words_of_its_model(
    name: str, processes: int, partitions: int
) -> None:
    workload: Any = registry.make("workloads", name, {}, key="workload.name")
    assert isinstance(workload, Workload)
    model = MODELS[workload.model]
    done = []
    for process in range(processes):
        script = workload.script(process, processes, partitions, 1)
        done.append(next(script))
        done += [script.send(completion(OK)) for _ in itertools.repeat(None, 40)]
    keyed = "read" in model.functions and "add" not in model.functions
    written = [(key if keyed else None, v) for f, v, _, key, _ in done if f in model.writes]
    assert written
    assert len(set(written)) == len(written)
    assert {f for f, *_ in done} <= model.functions
    if model.final_read:
        assert {partition for _, _, partition, *_ in done} == set(range(partitions))


@pytest.mark.parametrize("name", registry.plugins("workloads"))
def test_a_final_script_does_something_and_ends_whatever_is_answered(name: str) -> None:
    workload: Any = registry.make("workloads", name, {}, key="workload.name")
    if not workload.has_final():
        pytest.skip("it has none")
    for type_ in (OK, FAIL, INFO):
        script, done = workload.final(0, 3, 1, 1), 1
        assert next(script)[0] in MODELS[workload.model].functions
        with contextlib.suppress(StopIteration):
            while done < 1_000:
                script.send(completion(type_))
                done += 1
        assert done < 1_000


TARGETS = registry.usable("targets")
WRITES_BY_MODEL = {
    registry.plugins("workloads")[name].model: name for name in registry.usable("workloads")
}


def plans(name: str) -> Iterator[tuple[Any, Plan]]:
    """The target, with the plan of each of its starters, or else with one of defaults alone."""
    target = registry.target_named(name)
    for starter in target.starters.values() or [""]:
        head = f'schema = 1\nname = "x"\n[target]\nsystem = "{name}"\n'
        document = tomllib.loads(head + starter)
        if target.default_version:
            document["target"].setdefault("version", target.default_version)
        workload = document.setdefault("workload", {})
        workload.setdefault("name", WRITES_BY_MODEL[sorted(target.models)[0]])
        yield target, parse_plan(document)


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_serves_known_models_and_takes_its_own_plans(name: str) -> None:
    for target, plan in plans(name):
        assert target.models
        assert target.models <= MODELS.keys()
        target.check(plan)
        assert isinstance(plan, target.plan)
        assert plan.replicas >= 1
        assert plan.partitions >= 1
        assert all(isinstance(sentence, str) for sentence in target.warnings(plan))


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_describes_stored_runs(name: str) -> None:
    for target, plan in plans(name):
        document = json.loads(json.dumps(plan.document()))
        assert target.size({}) == []
        assert target.size(document)
        settings = target.requested(plan)["settings"]
        json.dumps(settings)
        assert set(target.stored_request(document)) >= {group for group, _ in target.decisive()}
        promises = target.promises(document, {"settings": settings})
        assert promises.model in target.models


@pytest.mark.parametrize("name", TARGETS)
def test_a_targets_nodes_are_those_that_it_names(name: str) -> None:
    for target, plan in plans(name):
        if not target.does("nodes"):
            pytest.skip("its nodes are simulated")
        names = target.names(plan)
        addresses = {each: f"198.18.0.{11 + n}" for n, each in enumerate(names)}
        made = Ingredients(image=ImageRef(reference="x", id="", version=plan.target.version))
        specs = target.nodes(plan, made, addresses)
        assert [spec.name for spec in specs] == names
        assert all(spec.argv and spec.roles and spec.ports for spec in specs)


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_refuses_settings_that_load_code(name: str) -> None:
    for target, plan in plans(name):
        evil = {"log.dir": "/etc", "plugin.class.path": "/tmp"}  # noqa: S108
        target_plan = plan.target.model_copy(update={"settings": evil})
        with pytest.raises(PlanError) as refused:
            target.check(plan.model_copy(update={"target": target_plan}))
        assert (refused.value.key or "").startswith("target")
