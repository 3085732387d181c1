"""How pages describe runs of the reference system."""

from __future__ import annotations

from harness.history.rows import target_of
from targets.memory.plan import Settings

PLAN = {"target": {"system": "memory", "replicas": 3, "defects": ["stale-read"], "memory_mb": 512}}


def test_its_replicas_and_defects_are_named_and_its_settings_shown() -> None:
    memory = target_of(PLAN)
    assert memory is not None
    assert memory.size(PLAN) == ["3 replicas", "defects: stale-read"]
    assert memory.stored_request(PLAN) == {"system": {"replicas": 3, "defects": ["stale-read"]}}
    assert memory.size({}) == []


def test_when_writes_are_committed_is_decisive() -> None:
    memory = target_of(PLAN)
    assert memory is not None
    assert {group for group, _ in memory.decisive()} == {"system"}
    assert {key for _, key in memory.decisive()} <= set(Settings.__dataclass_fields__)
