"""The view of a run: the options of its faults."""

from __future__ import annotations

from pathlib import Path

from harness.history.documents import StoredRun
from harness.history.run_folder import RunDir
from reports.run_view import RunView


def test_nodes_are_shown_only_for_faults_that_act_on_nodes(tmp_path: Path) -> None:
    steps = [
        {"id": "die", "at_s": 4, "nemesis": "client", "nodes": "leader", "clients": "all"},
        {"id": "cut", "at_s": 6, "nemesis": "partition", "nodes": "leader"},
    ]
    plan = {"faults": steps}
    view = RunView(RunDir(tmp_path), plan, StoredRun(), None, None)  # type: ignore[arg-type]
    assert view.options("die") == {"at_s": "4", "clients": "all"}
    assert view.options("cut") == {"at_s": "6", "nodes": "leader"}
