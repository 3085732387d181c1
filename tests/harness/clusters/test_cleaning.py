"""What `ackloss clean` says of runs that it leaves alone."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.clusters.cleaning import clean_all
from harness.machine import state


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path / "state"))


def _register(folder: Path, *, pid: int) -> None:
    with state.registered("run", folder):
        (entry,) = state.registrations()
        replace(entry, pid=pid).write()


def _left_of_run() -> list[str]:
    """What a cleanup says of the run of this test; other runs may live beside it."""
    left = clean_all(dry_run=True, kept=False).left
    return [line for line in left if line.startswith("run run ")]


def test_a_run_of_a_living_process_is_left_alone(tmp_path: Path) -> None:
    _register(tmp_path, pid=os.getpid())
    with state.claimed("run"):  # as the run itself holds its lock
        left = _left_of_run()
    assert left == [f"run run is alive (process {os.getpid()}): left alone"]


def test_a_dead_run_that_another_process_cleans_up_is_not_called_alive(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    _register(tmp_path, pid=ended.pid)
    with state.claimed("run"):
        left = _left_of_run()
    assert left == ["run run is cleaned up by another process: left alone"]
