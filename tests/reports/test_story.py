"""What the page says that a plan asked of a fault."""

from __future__ import annotations

from pathlib import Path

from harness.rundir import RunDir
from reports.story import Story


def test_nodes_stand_there_only_for_faults_that_meet_nodes(tmp_path: Path) -> None:
    steps = [
        {"id": "die", "at_s": 4, "nemesis": "client", "nodes": "leader", "clients": "all"},
        {"id": "cut", "at_s": 6, "nemesis": "partition", "nodes": "leader"},
    ]
    story = Story(RunDir(tmp_path), {"faults": steps}, {}, None, None)  # type: ignore[arg-type]
    assert story.how("die") == {"at_s": "4", "clients": "all"}
    assert story.how("cut") == {"at_s": "6", "nodes": "leader"}
