"""How a project is left as it was found: what the target's own levers did is undone by them, and is
tried again if it cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clusters.compose import undoing
from harness.clusters.compose.file import KIND
from harness.clusters.compose.node import ComposeNode
from harness.clusters.compose.undoing import leave_as_found, with_roles
from harness.clusters.external.cluster import ExternalNode
from harness.errors import HarnessFailure
from harness.machine import reach

CLIENT: Any = SimpleNamespace(api=SimpleNamespace(containers=lambda **_: []))
"""A daemon on which nothing of ours is any more."""


@pytest.fixture
def removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs whose containers are removed; one is noted, with a topic."""
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path))
    reach.remember(KIND, "run", {"project": "p", "objects": ["topic t"]})
    runs: list[str] = []

    def remove_run(_: object, run_id: str, *, dry_run: bool) -> list[str]:
        runs.append(run_id)
        return []

    monkeypatch.setattr(undoing, "remove_run", remove_run)
    return runs


def test_own_levers_are_undone_before_objects_are_removed(removed: list[str]) -> None:
    steps: list[str] = []

    def undo_own(nodes: Mapping[str, ComposeNode]) -> None:
        steps.append(f"undo on {[*nodes]}")

    def remove_objects() -> list[str]:
        steps.append("remove")
        return ["topic t"]

    assert leave_as_found(CLIENT, "run", remove_objects, undo_own) == ["topic t"]
    assert steps == ["undo on []", "remove"]
    assert (removed, reach.remembered(KIND, "run")) == (["run"], None)


def test_what_cannot_be_undone_keeps_what_is_needed_to_try_again(removed: list[str]) -> None:
    def refuse(_: object) -> None:
        raise HarnessFailure("is still in force")

    with pytest.raises(HarnessFailure, match="is still in force"):
        leave_as_found(CLIENT, "run", lambda: ["topic t"], refuse)
    assert removed == []
    assert reach.remembered(KIND, "run") is not None


def test_a_dry_run_requests_nothing(removed: list[str]) -> None:
    def undo_own(_: object) -> None:
        raise AssertionError

    assert leave_as_found(CLIENT, "run", lambda: ["topic t"], undo_own, dry_run=True) == ["topic t"]
    assert reach.remembered(KIND, "run") is not None


def test_nodes_have_the_roles_that_the_cluster_reports() -> None:
    nodes = {name: ComposeNode(name, frozenset(), "c", "i", CLIENT) for name in ("b1", "b3")}
    members = {name: ExternalNode(name, frozenset({"store"}), "h:1") for name in ("b1", "b2")}
    there = with_roles(nodes, members)
    assert {name: node.roles for name, node in there.items()} == {"b1": {"store"}, "b3": set()}
