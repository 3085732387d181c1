"""`ackloss new`: what it writes is a plan, with what was answered and with comments."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from harness.plan.steps import named_schedules
from tests.fixtures.command_line import ackloss


def test_without_a_terminal_it_takes_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    assert ackloss("new", str(file)).exit_code == 0
    written = tomllib.loads(file.read_text())
    assert written["name"] == "a"
    assert [fault.get("nemesis") for fault in written["faults"]] == ["kill", None]
    assert written["topic"]["settings"]["min.insync.replicas"] == 2
    assert written["workload"]["producer"]["acks"] == "all"
    assert file.read_text().count("#") > 8


def test_a_system_without_versions_gets_a_plan_without_one(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    assert ackloss("new", str(file), "--system", "etcd").exit_code == 0
    assert "version" not in tomllib.loads(file.read_text())["target"]


@pytest.mark.parametrize("schedule", named_schedules())
def test_every_stock_schedule_makes_a_valid_plan(schedule: str, tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    made = ackloss("new", str(file), "--schedule", schedule, "--settings", "fast", "--rate", "50")
    assert made.exit_code == 0, made.stderr
    assert ackloss("plan", "validate", str(file)).exit_code == 0
    written = tomllib.loads(file.read_text())
    assert (written["workload"]["rate_per_s"], written["workload"]["producer"]["acks"]) == (50, "1")


def test_it_overwrites_nothing_and_writes_no_plan_that_cannot_run(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("mine")
    assert ackloss("new", str(file)).exit_code == 5
    assert file.read_text() == "mine"
    other = tmp_path / "b.toml"
    refused = ackloss("new", str(other), "--release", "2.8.9")
    assert (refused.exit_code, other.exists()) == (4, False)
    assert "2.8.9 does not exist" in refused.stderr


def test_at_a_terminal_it_asks_five_questions(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    ours, theirs = pty.openpty()
    answers = b"zookeeper\n3.8\nfast\nkill-leader\n70\n"
    process = subprocess.Popen(
        [sys.executable, "-m", "ackloss", "new", str(file)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, answers)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 4096)
        except OSError:
            break
    assert process.wait(timeout=60) == 0, shown
    os.close(ours)
    assert shown.count(b"?") == 5, shown
    written = tomllib.loads(file.read_text())
    assert written["target"] == {"system": "zookeeper", "version": "3.8.7"}
    assert (written["ensemble"]["forceSync"], written["workload"]["rate_per_s"]) == (False, 70)
