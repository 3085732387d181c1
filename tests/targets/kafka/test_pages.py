"""How pages describe runs of Kafka, also of plans that an earlier version stored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from harness.history.rows import target_of
from reports.run_view import DIFFERS, RunView


def test_a_stored_plan_is_described_by_its_system() -> None:
    plan = {
        "target": {"system": "kafka", "brokers": 3, "settings": {"a": 1}},
        "topic": {"replication_factor": 2, "settings": {"b": 2}},
    }
    kafka = target_of(plan)
    assert kafka is not None
    assert kafka.size(plan) == ["3 brokers", "replication factor 2"]
    assert kafka.stored_request(plan) == {"producer": {}, "topic": {"b": 2}, "broker": {"a": 1}}
    assert kafka.size({"target": {"brokers": 1}}) == ["1 broker"]
    theirs = {**plan, "cluster": {"kind": "external"}}  # the plan's brokers are not the cluster's
    assert kafka.size(theirs) == ["a cluster of the user's", "replication factor 2"]
    assert (kafka.size({}), list(kafka.stored_request({}))) == ([], ["producer", "topic", "broker"])


def test_plans_that_name_no_system_are_of_the_default_one() -> None:
    assert (target := target_of({})) is not None
    assert target.log_lines() is not None
    assert target_of({"target": {"system": "of-another-ackloss"}}) is None


def test_settings_of_any_group_are_shown_and_what_differs_comes_last() -> None:
    effective = {DIFFERS: {"id": {"n1": "1"}}, "system": {"replicas": 3, "commit": "isr"}}
    settings = SimpleNamespace(asked={}, effective=effective, origins={}, shortened={})
    metadata = SimpleNamespace(settings=settings, features=SimpleNamespace(asked={}, effective={}))
    plan = {"target": {"system": "memory", "replicas": 3}}
    view: Any = SimpleNamespace(metadata=metadata, plan=plan)
    rows = RunView.settings.func(view)
    assert [(row.group, row.key) for row in rows] == [
        ("system", "replicas"),
        ("system", "commit"),
        (DIFFERS, "id.n1"),
    ]
    assert [row.shown for row in rows] == [True, True, False]  # at its default, but decisive
