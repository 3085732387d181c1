"""Real brokers get another version under load: what was acknowledged stays, and each node reports
itself what it runs."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.test_loss_on_real_kafka import leftovers
from tests.fixtures.machine import clean, result_of

pytestmark = [pytest.mark.e2e, pytest.mark.docker]

ROLL = "plans/upgrades/kraft-rolling.toml"


def test_a_node_is_upgraded_and_nothing_is_lost(tmp_path: Path) -> None:
    """The only node, which is broker and controller, from 3.9 to the newest. Its turn comes once it
    answers: after 7 s and more beside other tests, on a machine whose disk is busy."""
    one = ["target.brokers=1", "target.controllers=1", "topic.replication_factor=1"]
    result = result_of(ROLL, tmp_path, "workload.duration_s=25", "topic.settings={}", *one)
    (fault,) = result["faults"]
    assert (result["verdict"], result["counts"]["lost"]) == ("valid", 0), fault["evidence"]
    report = "b1: reports Kafka 4.4.0, metadata.version 21 (before: reports Kafka 3.9.2"
    assert fault["proven"], fault["evidence"]
    assert fault["evidence"][0].startswith(report)


@pytest.mark.full
@pytest.mark.parametrize(
    "plan",
    [f"kraft-{name}" for name in ("rolling", "back", "path", "groups", "transactions")]
    + ["zookeeper-rolling", "migration", "migration-back"],
)
def test_a_roll_loses_nothing(plan: str, tmp_path: Path) -> None:
    """Writes, what a group consumes, and transactions; the path leads through four versions, with
    faults in its midst."""
    result = result_of(f"plans/upgrades/{plan}.toml", tmp_path)
    assert result["verdict"] == "valid", result["reason"]
    assert not any(
        result["counts"].get(name) for name in ("lost", "skipped", "lost_commits", "lost-write")
    )
    assert all(fault["proven"] for fault in result["faults"])


@pytest.mark.full
def test_there_is_no_way_back_once_levels_are_raised(tmp_path: Path) -> None:
    """The first node that goes back does not start, and the step says so."""
    result = result_of("plans/upgrades/kraft-no-way-back.toml", tmp_path)
    back = result["faults"][-1]
    assert result["verdict"] == "unknown"
    assert not back["proven"]
    assert any("its process ended with exit code" in each for each in back["evidence"])


@pytest.mark.full
@pytest.mark.parametrize("plan", [ROLL, "plans/upgrades/migration.toml"])
def test_a_run_that_is_killed_in_the_middle_of_an_upgrade_is_cleaned_up(
    plan: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "ackloss", "run", plan, "--out", str(tmp_path), "-q"]
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
    clean()
    assert not leftovers(run_id)
