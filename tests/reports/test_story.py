"""What the page says that a plan asked of a fault."""

from __future__ import annotations

from pathlib import Path

from harness.history.run_folder import RunDir
from reports.story import Story


def test_nodes_stand_there_only_for_faults_that_meet_nodes(tmp_path: Path) -> None:
    steps = [
        {"id": "die", "at_s": 4, "nemesis": "client", "nodes": "leader", "clients": "all"},
        {"id": "cut", "at_s": 6, "nemesis": "partition", "nodes": "leader"},
    ]
    story = Story(RunDir(tmp_path), {"faults": steps}, {}, None, None)  # type: ignore[arg-type]
    assert story.how("die") == {"at_s": "4", "clients": "all"}
    assert story.how("cut") == {"at_s": "6", "nodes": "leader"}


def test_what_was_forced_stands_above_all_else(tmp_path: Path) -> None:
    key, what = 'topic.settings."min.insync.replicas"', "2 is asked, and Kafka 0.8.1.1 has it not"
    facts = {"state": "done", "forced": [{"key": key, "what": what, "source": "KAFKA-1555"}]}
    story = Story(RunDir(tmp_path), {}, facts, {"complete": True}, None)  # type: ignore[arg-type]
    assert story.warnings == [
        ("Forced: this version does not honour what was asked", f"{key}: {what} (KAFKA-1555).")
    ]
