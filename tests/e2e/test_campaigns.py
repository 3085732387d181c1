"""Campaigns on real Kafka: clusters that are kept for several runs, and what a dead worker and a
dead Docker leave. What needs no containers is in `test_campaign_troubles.py`."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest

from tests.fixtures.campaign_process import (
    TWO,
    begun,
    campaign_file,
    ended,
    named,
    progress,
    wait_for,
    workers_of,
)
from tests.fixtures.command_line import ackloss_json
from tests.fixtures.machine import ROOT, clean, containers_of_runs

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.alone]

PLAN = """
schema = 1
name = "one-node"
[target]
version = "4.3.1"
brokers = 1
controllers = 1
combined = true
settings = { "offsets.topic.replication.factor" = 1 }
[topic]
replication_factor = 1
[workload]
duration_s = 2
rate_per_s = 50
producer = { acks = "all", "enable.idempotence" = false }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The campaign's folder; afterwards no container of it is left."""
    before = containers_of_runs(outside=tmp_path)
    yield tmp_path / "campaign"
    assert containers_of_runs(outside=tmp_path) <= before


def test_every_run_is_executed_and_judged_once_on_kept_clusters(
    folder: Path, tmp_path: Path
) -> None:
    file = campaign_file(tmp_path, PLAN, TWO, workers=2, repetitions=2)
    run = begun("run", file, "--out", folder)
    output = ended(run)
    assert run.returncode == 0, output
    runs = list(progress(folder).runs.values())
    assert sorted(named(run) for run in runs) == [
        (f"rate={r}", n) for r in (40, 50) for n in (0, 1)
    ]
    assert {run.verdict for run in runs} == {"valid"}
    suite = ElementTree.parse(folder / "junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "0", "0")
    assert "4 of 4 runs" in (folder / "summary.md").read_text()
    clusters = []
    for each in runs:
        document = json.loads((folder / "runs" / each.run_id / "run.json").read_text())
        clusters.append((document["cluster"]["id"], document["cluster"]["runs_before"]))
    assert len({cluster for cluster, _ in clusters}) == 2
    assert sorted(before for _, before in clusters) == [1, 1, 2, 2]  # 0 was the warm-up
    again = ackloss_json("check", folder)["results"]
    assert {each["run_id"]: each["verdict"] for each in again} == dict.fromkeys(
        (run.run_id for run in runs), "valid"
    )


@pytest.mark.full
def test_a_worker_that_dies_is_replaced_and_its_run_has_failed(
    folder: Path, tmp_path: Path
) -> None:
    run = begun("run", campaign_file(tmp_path, PLAN, TWO), "--out", folder)
    wait_for(lambda: len(progress(folder).finished()) >= 1)
    wait_for(lambda: progress(folder).in_state("begun"))
    (worker,) = workers_of(run)
    worker.send_signal(signal.SIGKILL)
    output = ended(run)
    assert run.returncode == 0, output
    after = progress(folder)
    (failed,) = after.in_state("failed")
    assert failed.error == "its worker died (exit code -9)"
    assert len(after.in_state("done")) == 5
    assert not [line for line in clean()["removed"] if "container" in line]


@pytest.mark.full  # it restarts this machine's Docker
def test_a_restart_of_docker_costs_the_run_that_was_under_way(folder: Path, tmp_path: Path) -> None:
    run = begun("run", campaign_file(tmp_path, PLAN, TWO), "--out", folder)
    wait_for(lambda: len(progress(folder).finished()) >= 1)
    wait_for(lambda: progress(folder).in_state("begun"))
    (daemon,) = [p for p in psutil.process_iter() if p.name() == "dockerd"]
    daemon.terminate()
    daemon.wait(timeout=60)
    time.sleep(5)
    subprocess.run([ROOT / "scripts" / "setup"], check=True, timeout=300, capture_output=True)
    output = ended(run, within_s=400)
    assert run.returncode == 0, output
    after = progress(folder)
    assert len(after.finished()) == 6
    lost = [run for run in after.runs.values() if run.verdict != "valid"]
    assert 1 <= len(lost) <= 2, output
    assert {run.verdict for run in lost} <= {None, "unknown"}, lost  # None: it failed
