"""How a project is left as it was found: what the target's own levers did is undone by them, and is
tried again if it cannot be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError

from harness.clusters.compose import cluster as undoing
from harness.clusters.compose.cluster import leave_as_found, with_roles
from harness.clusters.compose.file import KIND
from harness.clusters.compose.node import ComposeNode
from harness.clusters.external import ExternalNode
from harness.errors import HarnessFailure
from harness.faults.journal import OpenAct
from harness.machine import state
from harness.protocols import Completed, Node, ProcessState, UndoRecord

CLIENT: Any = SimpleNamespace(api=SimpleNamespace(containers=lambda **_: []))
"""A daemon on which nothing of ours is any more."""


@pytest.fixture
def removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs whose containers are removed; one is noted, with a topic."""
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path))
    state.remember_cluster(KIND, "run", {"project": "p", "objects": ["topic t"]})
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
    assert (removed, state.remembered_cluster(KIND, "run")) == (["run"], None)


def test_what_cannot_be_undone_keeps_what_is_needed_to_try_again(removed: list[str]) -> None:
    def refuse(_: object) -> None:
        raise HarnessFailure("is still in force")

    with pytest.raises(HarnessFailure, match="is still in force"):
        leave_as_found(CLIENT, "run", lambda: ["topic t"], refuse)
    assert removed == []
    assert state.remembered_cluster(KIND, "run") is not None


def test_a_dry_run_requests_nothing(removed: list[str]) -> None:
    def undo_own(_: object) -> None:
        raise AssertionError

    assert leave_as_found(CLIENT, "run", lambda: ["topic t"], undo_own, dry_run=True) == ["topic t"]
    assert state.remembered_cluster(KIND, "run") is not None


@dataclass
class Paused(Node):
    """A node of a container of the user's, as its infrastructure container shows it."""

    name: str = "b1"
    running: bool = True
    marks: list[str] = field(default_factory=lambda: ["ackloss.paused.7.boot-41.still"])
    sent: list[str] = field(default_factory=list)

    def process(self) -> ProcessState:
        return ProcessState(running=self.running, exit_code=None if self.running else 0)

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        if not self.running:
            raise HarnessFailure("b1: its container does not run")
        if argv[0] == "ls":
            return Completed(0, "\n".join(self.marks))
        if argv[0] == "cat":
            return Completed(0, f"boot\n7 (java) T {'0 ' * 18}41 0\n")
        if argv[0] == "rm":
            self.marks.remove(Path(argv[-1]).name)
        self.sent += [" ".join(argv)] if argv[0] == "kill" else []
        return Completed(0, "")


Paused.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]


@pytest.mark.parametrize("running", [True, False])
def test_a_pause_is_undone_without_a_journal(
    removed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: bool
) -> None:
    """A process that has ended is not to be continued."""
    node: Any = Paused(running=running)
    monkeypatch.setattr(undoing, "attached", lambda *_: {"b1": node})
    with state.registered("run", tmp_path):
        assert leave_as_found(CLIENT, "run", list, lambda _: None, dry_run=True) == []
        assert node.sent == []
        assert leave_as_found(CLIENT, "run", list, lambda _: None) == []
    assert node.sent == (["kill -CONT 7"] if running else [])
    assert removed[-1] == "run"


@pytest.mark.parametrize("how", ["folder gone", "not registered"])
def test_a_container_that_is_down_is_reported_where_the_journal_is_gone(
    removed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Whether a fault killed it is not known. All else is undone, and it is reported once."""
    nodes: Any = {name: Paused(name, running=name == "b1") for name in ("b1", "b2", "b3")}
    monkeypatch.setattr(undoing, "attached", lambda *_: nodes)
    if how == "folder gone":
        state.Registered(run_id="run", folder=tmp_path / "gone", pid=1).write()
    with pytest.raises(HarnessFailure) as raised:
        leave_as_found(CLIENT, "run", list, lambda _: None)
    assert raised.value.what == (
        "containers that do not run: b2, b3; a fault of run run may have killed them (its folder, "
        "which would show that, is gone)"
    )
    assert raised.value.hint == "`docker start` those that are to run"
    assert (nodes["b1"].sent, removed) == (["kill -CONT 7"], ["run"])
    assert state.remembered_cluster(KIND, "run") is None


def test_a_project_that_the_run_has_started_has_no_container_to_be_started_again(
    removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    node: Any = Paused(running=False)
    monkeypatch.setattr(undoing, "attached", lambda *_: {"b1": node})
    monkeypatch.setattr(undoing, "state_of", lambda *_: {})
    monkeypatch.setattr(undoing, "stop_again", lambda *_, **__: [])
    state.remember_cluster(
        KIND, "run", {"project": "p", "objects": [], "before": {"containers": []}}
    )
    monkeypatch.setattr(undoing, "made_by_start", lambda *_: {})
    assert leave_as_found(CLIENT, "run", list, lambda _: None) == []


def test_an_error_of_dockers_client_does_not_end_the_undo(
    removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    undone: list[str] = []

    def undo(record: UndoRecord) -> None:
        undone.append(record.node)
        if record.node == "b2":
            raise APIError("500 Server Error")

    acts = [
        OpenAct(n=n, fault="x", lever="net", record=UndoRecord(node=f"b{n}", fault="x"))
        for n in (1, 2)
    ]
    nodes: dict[str, Any] = {act.record.node: Paused(act.record.node) for act in acts}
    monkeypatch.setattr(undoing, "attached", lambda *_: nodes)
    monkeypatch.setattr(undoing, "_open_acts", lambda *_: acts)
    monkeypatch.setattr(undoing, "levers_over", lambda _: {"net": SimpleNamespace(undo=undo)})
    with pytest.raises(HarnessFailure, match="500 Server Error"):
        leave_as_found(CLIENT, "run", list, lambda _: None)
    assert undone == ["b2", "b1"]
    assert [node.sent for node in nodes.values()] == [["kill -CONT 7"]] * 2
    assert removed == []


def test_nodes_have_the_roles_that_the_cluster_reports() -> None:
    nodes = {name: ComposeNode(name, frozenset(), "c", "i", CLIENT) for name in ("b1", "b3")}
    members = {name: ExternalNode(name, frozenset({"store"}), "h:1") for name in ("b1", "b2")}
    there = with_roles(nodes, members)
    assert {name: node.roles for name, node in there.items()} == {"b1": {"store"}, "b3": set()}
