"""`--set KEY=VALUE`: what is written is what is applied."""

from __future__ import annotations

from typing import Any

import pytest

from harness.plan.parsing import apply_change, change_of


@pytest.mark.parametrize(
    "value",
    [
        *(3, 2.5, True, False, "text", "3", "true", "a b", 'a "b"', "[1]", "", "é\n", "4.3.1"),
        *([], [1, 2], ["a", "b"], [{"name": "loss"}], {}, {"a.b": 1, "c": {"d": [True, "x"]}}),
    ],
    ids=repr,
)
@pytest.mark.parametrize("key", ["workload.x", 'topic.settings."min.insync.replicas"'])
def test_a_change_that_is_written_sets_the_same_value(key: str, value: object) -> None:
    document: dict[str, Any] = {}
    apply_change(document, change_of(key, value))
    inner = document["workload"]["x"] if "x" in key else document["topic"]["settings"]
    assert (inner if "x" in key else inner["min.insync.replicas"]) == value


@pytest.mark.parametrize("text", ["4.1", "true", 'a "b"', '"4.1"', '"'])
def test_a_key_that_holds_text_gets_the_text(text: str) -> None:
    document: dict[str, Any] = {}
    apply_change(document, change_of("target.version", text))
    assert document == {"target": {"version": text}}


@pytest.mark.parametrize("typed", ["4.4.0", '"4.4.0"', "'4.4.0'"])
def test_text_may_be_quoted(typed: str) -> None:
    document: dict[str, Any] = {}
    apply_change(document, f"target.version={typed}")
    assert document == {"target": {"version": "4.4.0"}}


def test_what_people_type_stays_readable() -> None:
    assert change_of("target.version", "3.9.2") == "target.version=3.9.2"
    assert change_of("workload.rate_per_s", 300) == "workload.rate_per_s=300"


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("topic.settings.min.insync.replicas", ["topic", "settings", "min.insync.replicas"]),
        ('topic.settings."min.insync.replicas"', ["topic", "settings", "min.insync.replicas"]),
        ("workload.producer.linger.ms", ["workload", "producer", "linger.ms"]),
        ("workload.consumer.max.poll.records", ["workload", "consumer", "max.poll.records"]),
        ("target.settings.log.roll.ms", ["target", "settings", "log.roll.ms"]),
        ("target.features.kraft.version", ["target", "features", "kraft.version"]),
        ("cells.0.topic.settings.a.b", ["cells", 0, "topic", "settings", "a.b"]),
        ("cells.safe.topic.settings.a.b", ["cells", 0, "topic", "settings", "a.b"]),
        ("faults.kill.at_s", ["faults", 0, "at_s"]),
        ("workload.options.a.b", ["workload", "options", "a", "b"]),
        ("cluster.some.option", ["cluster", "some", "option"]),
    ],
)
def test_the_rest_is_one_key_where_a_table_has_free_keys(key: str, parts: list[Any]) -> None:
    document: dict[str, Any] = {"cells": [{"name": "safe"}], "faults": [{"id": "kill"}]}
    apply_change(document, f"{key}=1")
    place: Any = document
    for part in parts:
        place = place[part]
    assert place == 1
