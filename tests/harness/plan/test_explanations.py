"""Values where tables belong, and unknown keys: what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from harness.campaigns.plan import parse_campaign
from harness.errors import PlanError
from harness.plan import parse_plan

KAFKA = {"system": "kafka"}


def refused(target: object, changes: dict[str, Any]) -> PlanError:
    document = {"schema": 1, "name": "a plan", "target": target, **changes}
    with pytest.raises(PlanError) as error:
        parse_plan(document, file="plan.toml")
    assert (error.value.file, error.value.exit_code) == ("plan.toml", 4)
    return error.value


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"workload": "append"},
            "workload: 'append' is not a table; write [workload] with the key name = 'append'",
        ),
        (
            {"cluster": "memory"},
            "cluster: 'memory' is not a table; write [cluster] with the key kind = 'memory'",
        ),
        (
            {"target": "kafka"},
            "target: 'kafka' is not a table; write [target] with the key system = 'kafka'",
        ),
        ({"final": "soon"}, "final: 'soon' is not a table; write [final]"),
        ({"workload": 3}, "workload: 3 is not a table; write [workload]"),
        ({"topic": [{}]}, "topic: [{}] is not a table; write [topic]"),
        ({"topic": {"settings": 3}}, "topic.settings: 3 is not a table; write [topic.settings]"),
        ({"faults": "kill"}, "faults: 'kill' is not a list of tables; write [[faults]]"),
        ({"faults": {}}, "faults: {} is not a list of tables; write [[faults]]"),
        ({"faults": ["kill"]}, "faults.0: 'kill' is not a table; write [[faults]]"),
        (
            {"mix": {"families": {}}},
            "mix.families: {} is not a list of tables; write [[mix.families]]",
        ),
        ({"checks": "loss"}, "checks: 'loss' is not allowed here; use a list: ['loss']"),
        ({"checks": [3]}, "checks.0: 3 is not allowed here; use text, or a table"),
        (
            {"faults": [{"id": "x", "heal": "al"}]},
            "faults.x.heal: 'al' is not allowed here; use 'all', or a list: ['al']",
        ),
    ],
)
def test_a_value_where_a_table_belongs(changes: dict[str, Any], sentence: str) -> None:
    assert str(refused(KAFKA, changes)) == f"plan.toml: {sentence}"


@pytest.mark.parametrize(
    ("changes", "key", "hint"),
    [
        ({"topik": {}}, "topik", "did you mean 'topic'?"),
        ({"final": {"hot": 1}}, "final.hot", "remove it"),
        (
            {"ensemble": {}},
            "ensemble",
            "remove it, or use target.system = 'zookeeper', which has it",
        ),
    ],
)
def test_an_unknown_key(changes: dict[str, Any], key: str, hint: str) -> None:
    error = refused(KAFKA, changes)
    assert (error.key, error.what, error.hint) == (key, "unknown key", hint)


def test_every_wrong_value_is_reported_once() -> None:
    error = refused(KAFKA, {"final": 3, "topic": {"settings": {"a": [], "b": []}}})
    assert str(error).endswith(" (and 2 more)")
    keys = ["final", "topic.settings.a", "topic.settings.b"]
    assert sorted(str(each.key) for each in error.every()) == keys


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('policy = "any"', "policy: 'any' is not a table; write [policy]"),
        ("[axes]\nx = 3", "axes.x: 3 is not a table; write [axes.x]"),
        ("[axes.x]\nky = 3", "axes.x.ky: unknown key; did you mean 'key'?"),
    ],
)
def test_campaign_files_are_refused_in_the_same_words(text: str, sentence: str) -> None:
    with pytest.raises(PlanError) as error:
        parse_campaign(f'schema = 1\nname = "c"\nplan = "p"\n{text}', file="c.toml")
    assert str(error.value).startswith(f"c.toml: {sentence}")
