"""The view of a run: the options of its faults, and its callouts."""

from __future__ import annotations

from pathlib import Path

from harness.history.documents import Counts, ForcedSetting, RunResult, StoredRun
from harness.history.run_folder import RunDir
from reports.run_view import Callout, RunView


def test_nodes_are_shown_only_for_faults_that_act_on_nodes(tmp_path: Path) -> None:
    steps = [
        {"id": "die", "at_s": 4, "nemesis": "client", "nodes": "leader", "clients": "all"},
        {"id": "cut", "at_s": 6, "nemesis": "partition", "nodes": "leader"},
    ]
    plan = {"faults": steps}
    view = RunView(RunDir(tmp_path), plan, StoredRun(), None, None)  # type: ignore[arg-type]
    assert view.options("die") == {"at_s": "4", "clients": "all"}
    assert view.options("cut") == {"at_s": "6", "nodes": "leader"}


def test_a_forced_setting_is_the_first_callout(tmp_path: Path) -> None:
    key, what = 'topic.settings."min.insync.replicas"', "2 is asked, and Kafka 0.8.1.1 has it not"
    forced = ForcedSetting(key=key, what=what, source="KAFKA-1555")
    metadata = StoredRun(state="done", forced=(forced,))
    result = RunResult(verdict="valid", counts=Counts(acknowledged=1, lost=0), complete=True)
    view = RunView(RunDir(tmp_path), {}, metadata, result, None)  # type: ignore[arg-type]
    assert view.callouts == [
        Callout(
            "Forced: this version does not honour a requested setting",
            f"{key}: {what} (KAFKA-1555).",
        )
    ]
