"""Nothing of a run stays, however it ends: by Ctrl-C, or by SIGKILL followed by `ackloss clean`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fixtures import machine
from tests.fixtures.campaign_process import wait_for
from tests.fixtures.machine import clean, fault_is_on, snapshot

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.docker,
    pytest.mark.alone,
    pytest.mark.usefixtures("own_state"),
]


ONE = (
    *("target.brokers=1", "topic.replication_factor=1", "topic.settings={}"),
    'faults=[{id="cut", at_s=1, nemesis="partition", nodes="node:b1", peers="clients", for_s=60}]',
)
ALONE = ("plans/kafka-unclean.toml", "target.controllers=1", "target.combined=true", *ONE)
KRAFT = ("plans/kafka-unclean.toml", "target.controllers=1", "faults.0.at_s=1")
# Sessions as long as Kafka's default: a broker whose session expires while it starts gives up, and
# seven processes start at once.
ZOOKEEPER_AND_JAVA = (
    "plans/short-unclean-zookeeper.toml",
    "workload.client=java",
    'target.settings."zookeeper.session.timeout.ms"=6000',
)
ONE_AND_ZOOKEEPER = (*ZOOKEEPER_AND_JAVA, *ONE)
PROXIED = ("plans/faults/unacknowledged-reset.toml",)


def started(out: Path, plan: Sequence[str] = KRAFT) -> subprocess.Popen[str]:
    return machine.started(out, *plan)


def has_containers(out: Path) -> bool:
    names = snapshot(out)["containers"]
    return any(path.name in name for path in out.iterdir() for name in names)


def state(out: Path) -> str:
    (path,) = out.glob("*/run.json")
    return str(json.loads(path.read_text())["state"])


def test_ctrl_c_undoes_everything_and_keeps_what_was_recorded(tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    run = started(tmp_path, ALONE)
    wait_for(lambda: fault_is_on(tmp_path), within_s=120)
    run.send_signal(signal.SIGINT)
    time.sleep(0.5)
    run.send_signal(signal.SIGINT)  # the second one must not interrupt the cleanup
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 130, output
    assert "Traceback" not in output
    assert snapshot(tmp_path) == before
    assert state(tmp_path) == "interrupted"
    assert list(tmp_path.glob("*/history/part-*.parquet"))


@pytest.mark.full
def test_ctrl_c_while_the_cluster_starts_undoes_everything(tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    run = started(tmp_path)
    wait_for(lambda: has_containers(tmp_path), within_s=120)
    run.send_signal(signal.SIGINT)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 130, output
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(KRAFT, id="kraft", marks=pytest.mark.full),
        pytest.param(ONE_AND_ZOOKEEPER, id="one"),
        pytest.param(ZOOKEEPER_AND_JAVA, id="zookeeper", marks=pytest.mark.full),
        pytest.param(PROXIED, id="proxied", marks=pytest.mark.full),
    ],
)
def test_clean_removes_what_a_killed_run_left_and_leaves_a_live_one_alone(
    tmp_path: Path, plan: Sequence[str]
) -> None:
    before = snapshot(tmp_path)
    run = started(tmp_path, plan)
    wait_for(lambda: fault_is_on(tmp_path), within_s=120)
    run_id = next(tmp_path.iterdir()).name
    alive = clean()
    assert not mentioned(run_id, alive["removed"])
    assert any(run_id in line and "is alive" in line for line in alive["left"])
    os.kill(run.pid, signal.SIGKILL)
    run.communicate(timeout=30)
    assert snapshot(tmp_path) != before
    would = clean("--dry-run")
    assert snapshot(tmp_path) != before
    done = clean()
    assert mentioned(run_id, done["removed"]) == mentioned(run_id, would["removed"]) != []
    assert snapshot(tmp_path) == before
    assert not mentioned(run_id, clean()["removed"])


@pytest.mark.full
def test_the_next_run_removes_what_a_killed_run_left_and_reports_it(tmp_path: Path) -> None:
    dead_out, next_out = tmp_path / "dead", tmp_path / "next"
    dead_out.mkdir()
    next_out.mkdir()
    before = snapshot(dead_out)
    dead = started(dead_out)
    wait_for(lambda: fault_is_on(dead_out), within_s=120)
    os.kill(dead.pid, signal.SIGKILL)
    dead.communicate(timeout=30)
    (run_id,) = (path.name for path in dead_out.iterdir())
    run = started(next_out)
    wait_for(lambda: has_containers(next_out), within_s=120)
    run.send_signal(signal.SIGINT)
    output, _ = run.communicate(timeout=60)
    assert f"left by a dead run, removed: container ackloss-{run_id}-b1" in output
    assert f"in force until then: fault 'cut' of run {run_id}: net on b" in output
    assert snapshot(dead_out) == before


def mentioned(run_id: str, removed: list[str]) -> list[str]:
    return [name for name in removed if run_id in name]
