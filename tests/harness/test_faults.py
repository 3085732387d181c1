"""Faults as a whole: what cannot be looked at is not proven, and does not stop the run."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from harness.errors import HarnessFailure
from harness.faults import Faults
from harness.journal import Journal, windows
from harness.levers.pause import PauseLever
from harness.protocols import Act, Completed
from harness.recording import RecordingNode


class Unseen(RecordingNode):
    """A node on which nobody can look at processes."""

    def admin(self, argv: list[str], *, timeout_s: float = 10) -> Completed:  # type: ignore[override]
        return Completed(124, "no answer") if argv[0] == "ps" else super().admin(argv)


def test_a_probe_that_cannot_look_leaves_the_fault_unproven(tmp_path: Path) -> None:
    node, ticks = Unseen("b1", frozenset({"broker"}), "198.18.0.11"), count()
    journal = Journal(tmp_path / "faults.jsonl", lambda: next(ticks))
    faults = Faults({"pause": PauseLever({"b1": node})}, journal)
    token = {"node": "b1", "pid": 7}
    with pytest.raises(HarnessFailure):
        faults.levers["pause"].probe({**token, "fault": "still"}, applied=True)
    journal.write("step", fault="still", nemesis="pause", nodes=["b1"], met=None, why="")
    faults.inject("still", "pause", [Act("pause", token)])
    faults.heal("still")
    (window,) = windows(tmp_path / "faults.jsonl")
    assert not window.proven
    assert "no answer" in window.evidence[0]
    assert window.to_s is not None
