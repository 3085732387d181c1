"""Temporary folders of dead processes are removed; those of live processes and strangers stay."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from harness.machine.files import remove_abandoned, scratch

KILLED = """
import os, signal
from harness.machine.files import scratch
held = scratch()
print(held.name, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_only_what_dead_processes_left_is_removed(temporary: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED], capture_output=True, text=True, check=False
    )
    left = Path(killed.stdout.strip())
    assert left.parent == temporary
    (left / "content").write_text("x")
    for name in ("ackloss-notes", f"ackloss-{os.getpid()}", "other-1-abc"):
        (temporary / name).mkdir()
    with scratch() as alive:
        assert remove_abandoned(dry_run=True) == [f"temporary folder {left}"]
        assert left.exists()
        assert remove_abandoned(dry_run=False) == [f"temporary folder {left}"]
        assert not left.exists()
        assert Path(alive).is_dir()
    assert len(list(temporary.iterdir())) == 3
    assert remove_abandoned(dry_run=False) == []


def test_a_folder_that_its_process_removes_meanwhile_is_passed_over(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = temporary / "ackloss-1-gone"
    monkeypatch.setattr(Path, "glob", lambda *_: iter([gone]))
    assert remove_abandoned(dry_run=False) == []
