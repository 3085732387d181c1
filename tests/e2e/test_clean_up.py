"""Whatever ends a run, nothing of it stays: Ctrl-C, and SIGKILL followed by `ackloss clean`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.e2e, pytest.mark.docker]


def snapshot() -> dict[str, str]:
    """What the machine holds that a run could leave: Docker's objects, and the host's rules."""
    commands = {
        "containers": ["docker", "ps", "-a", "--format", "{{.Names}}"],
        "networks": ["docker", "network", "ls", "--format", "{{.Name}}"],
        "volumes": ["docker", "volume", "ls", "-q"],
        "rules": ["iptables-save"],
        "routes": ["ip", "route"],
    }
    told = {
        name: subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        for name, argv in commands.items()
    }
    told["rules"] = "\n".join(
        line.partition("[")[0] for line in told["rules"].splitlines() if not line.startswith("#")
    )
    return told


def started(out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "harness", "run", "plans/kafka-unclean.toml"),
            *("--out", str(out), "--set", "target.controllers=1"),
        ],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def wait_for(holds: Callable[[], bool], *, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.1)


def fault_is_on(out: Path) -> bool:
    journals = list(out.glob("*/faults.jsonl"))
    return bool(journals) and '"type":"on"' in journals[0].read_text()


def state(out: Path) -> str:
    (path,) = out.glob("*/run.json")
    return str(json.loads(path.read_text())["state"])


def test_ctrl_c_undoes_everything_and_keeps_what_was_recorded(tmp_path: Path) -> None:
    before = snapshot()
    run = started(tmp_path)
    wait_for(lambda: fault_is_on(tmp_path), within_s=120)
    run.send_signal(signal.SIGINT)
    time.sleep(0.5)
    run.send_signal(signal.SIGINT)  # the second one must not skip the undoing
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 130, output
    assert "Traceback" not in output
    assert snapshot() == before
    assert state(tmp_path) == "interrupted"
    assert list(tmp_path.glob("*/history/part-*.parquet"))


def test_ctrl_c_while_the_cluster_starts_undoes_everything(tmp_path: Path) -> None:
    before = snapshot()
    run = started(tmp_path)
    wait_for(lambda: snapshot()["containers"] != before["containers"], within_s=120)
    run.send_signal(signal.SIGINT)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 130, output
    assert snapshot() == before


def test_clean_removes_what_a_killed_run_left_and_leaves_a_live_one_alone(tmp_path: Path) -> None:
    before = snapshot()
    run = started(tmp_path)
    wait_for(lambda: fault_is_on(tmp_path), within_s=120)
    alive = clean()
    assert alive["removed"] == []
    assert "is alive" in " ".join(alive["left"])
    os.kill(run.pid, signal.SIGKILL)
    run.communicate(timeout=30)
    assert snapshot() != before
    would = clean("--dry-run")
    assert snapshot() != before
    done = clean()
    assert done["removed"] == would["removed"] != []
    assert snapshot() == before
    assert clean()["removed"] == []


def clean(*args: str) -> dict[str, list[str]]:
    done = subprocess.run(
        [sys.executable, "-m", "harness", "clean", "--json", *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))
