"""docs/reference/plan.md has every key and every option, each with what it means."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from harness import registry
from targets.memory.plan import ABSENT, MemoryTargetPlan
from tests.fixtures.scripts import script

reference = script("plan_reference")
PAGE: str = reference.plan_page()


def section(title: str) -> str:
    """The text below a heading, up to the next one."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def meanings(title: str) -> dict[str, str]:
    """What the list below a heading says of each key."""
    text = section(title)
    if earlier := re.search(r"Options as of `([\w-]+)`: (.*)\.$", text, re.MULTILINE):
        explained = meanings(f"{title.split()[0]} {earlier[1]}")
        return {key: explained[key] for key in re.findall(r"`(\w+)`", earlier[2])}
    rows = re.findall(r"^- `(\w+)` \(.*?\): (.*)$", text, re.MULTILINE)
    return {key: meaning.strip() for key, meaning in rows}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind in ("workloads", "checkers", "nemeses")
        for name in registry.plugins(kind)
    ],
)
def test_every_option_of_every_plug_in_is_explained(kind: str, name: str) -> None:
    title = {"workloads": "Workload ", "checkers": "Checker "}.get(kind, "") + name
    explained = meanings(title)
    assert list(explained) == [field.name for field in fields(registry.plugins(kind)[name])]
    assert not [key for key, meaning in explained.items() if meaning == f"see [{key}]"]


def test_the_page_names_systems_and_checkers_of_a_workload() -> None:
    text = section("Workload consume")
    assert "Systems: `kafka`, `memory`. Checker by default: `delivery`." in text
    assert "Workloads: `set`." in section("Checker replicas")


def test_options_that_an_earlier_plug_in_has_too_are_only_named() -> None:
    assert "Options as of `list-append`: `keys_count`, " in section("Workload rw-register")
    assert "- `" not in section("Workload rw-register")
    assert "- `keys_count` " in section("Workload list-append")


def test_each_key_of_all_servers_is_explained_once() -> None:
    assert {"nodes", "object"} <= meanings("[target] of systems of servers").keys()
    assert "## [workload] of RabbitMQ" not in PAGE
    assert list(meanings("[workload] of etcd")) == ["read"]


def test_every_key_of_the_reference_system_is_explained() -> None:
    explained = meanings("[target] of memory")
    assert list(explained) == [
        key for key in MemoryTargetPlan.model_fields if key not in {*ABSENT, "system"}
    ]
    refused = "Refused, because only real nodes have them: `version`, `image`, `settings`, `memory"
    assert refused in section("[target] of memory")


def test_the_page_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert reference.PLAN.read_text(encoding="utf-8") == PAGE


def test_every_word_of_systems_of_servers_is_explained() -> None:
    text = section("Selectors and conditions of systems of servers")
    systems = [name for name in registry.usable("targets") if name not in ("kafka", "memory")]
    assert len(systems) >= 7
    for name in systems:
        vocabulary = registry.target_named(name).vocabulary()
        assert re.search(rf"\b{name}\b", text)
        words = [*vocabulary.words, *(f"{each}(N)" for each in vocabulary.numbered)]
        for word in [*words, *(each.form for each in vocabulary.conditions)]:
            assert f"\n    {word} " in text, (name, word)
