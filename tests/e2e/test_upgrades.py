"""Real brokers get another version under load: what was acknowledged stays, and each node reports
itself what it runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_loss_on_real_kafka import ackloss, leftovers

pytestmark = [pytest.mark.e2e, pytest.mark.docker]

ROLL = "plans/upgrades/kraft-rolling.toml"


def run(plan: str, out: Path, *sets: str) -> dict[str, Any]:
    changes = [part for change in sets for part in ("--set", change)]
    done = ackloss("run", plan, "--json", "--out", str(out), *changes, timeout_s=400)
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert "error" not in document, done.stderr
    return document


def test_a_rolling_upgrade_loses_nothing(tmp_path: Path) -> None:
    """Three combined nodes, 3.9 to the newest."""
    result = run(ROLL, tmp_path)
    (fault,) = result["faults"]
    assert (result["verdict"], result["counts"]["lost"]) == ("valid", 0), result["reason"]
    assert fault["proven"], fault["evidence"]
    for name in ("b1", "b2", "b3"):
        assert f"{name}: reports Kafka 4.4.0, metadata.version 21" in " ".join(fault["evidence"])
    assert "(before: reports Kafka 3.9.2" in " ".join(fault["evidence"])


@pytest.mark.full
def test_a_path_through_four_versions_with_faults_in_its_midst(tmp_path: Path) -> None:
    result = run("plans/upgrades/kraft-path.toml", tmp_path)
    assert (result["verdict"], result["counts"]["lost"]) == ("valid", 0), result["reason"]
    assert all(fault["proven"] for fault in result["faults"])


@pytest.mark.full
def test_a_run_that_is_killed_in_the_middle_of_an_upgrade_is_cleaned_up(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ackloss", "run", ROLL, "--out", str(tmp_path), "-q"]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            deadline = time.monotonic() + 200
            while time.monotonic() < deadline:
                journals = [*tmp_path.glob("*/faults.jsonl")]
                if journals and journals[0].read_text().count('"intent"') >= 2:
                    break
                time.sleep(0.2)
        finally:
            process.send_signal(signal.SIGKILL)
    run_id = journals[0].parent.name
    assert leftovers(run_id)
    assert ackloss("clean").returncode == 0
    assert not leftovers(run_id)
