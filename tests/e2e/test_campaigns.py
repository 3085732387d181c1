"""Campaigns on real Kafka, and what may happen to one: killed, a worker dead, a run that hangs, a
full disk, Ctrl-C. A campaign loses no finished run, continues, reports what happened, and leaves
nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
import pytest

from harness.campaigns.progress import Progress, read_progress
from tests.fixtures.machine import ROOT, clean, containers_of_runs
from tests.fixtures.small_disk import mounted

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.spark]

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
TWO = """
[axes.rate]
key = "workload.rate_per_s"
values = [40, 50]
"""
ONE_HANGS = """
[axes.length.choices.short]
[axes.length.choices.long]
repetitions = 1
set = { "workload.duration_s" = 300 }
"""


def campaign_file(folder: Path, text: str, *, workers: int = 1, repetitions: int = 3) -> Path:
    (folder / "plan.toml").write_text(PLAN)
    file = folder / "campaign.toml"
    head = f'schema = 1\nname = "c"\nplan = "plan.toml"\nworkers = {workers}\n'
    file.write_text(f"{head}repetitions = {repetitions}\n{text}")
    return file


def begun(*words: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "harness", "campaign", *map(str, words)],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def ended(process: subprocess.Popen[str], *, within_s: float = 240) -> str:
    output, _ = process.communicate(timeout=within_s)
    assert "Traceback" not in output
    return output


def wait_for(holds: Callable[[], Any], *, within_s: float = 120) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.1)


def progress(folder: Path) -> Progress:
    return read_progress(folder / "journal.jsonl")


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process(process.pid).children()
        if "spawn_main" in " ".join(child.cmdline())
    ]


def named(run: Any) -> tuple[str, int]:
    return run.cell, run.repetition


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The campaign's folder; afterwards no container of it is left."""
    before = containers_of_runs(outside=tmp_path)
    yield tmp_path / "campaign"
    assert containers_of_runs(outside=tmp_path) <= before


def test_every_run_is_executed_and_judged_once_on_kept_clusters(
    folder: Path, tmp_path: Path
) -> None:
    file = campaign_file(tmp_path, TWO, workers=2, repetitions=2)
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
    checked = subprocess.run(
        [sys.executable, "-m", "harness", "check", folder, "--conf", "spark.app.name=x", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    again = json.loads(checked.stdout)["results"]
    assert {each["run_id"]: each["verdict"] for each in again} == dict.fromkeys(
        (run.run_id for run in runs), "valid"
    )


def test_a_killed_campaign_loses_no_finished_run_and_continues(
    folder: Path, tmp_path: Path
) -> None:
    file = campaign_file(tmp_path, TWO)
    run = begun("run", file, "--out", folder)
    wait_for(lambda: len(progress(folder).finished()) >= 2)
    wait_for(lambda: progress(folder).in_state("begun"))
    workers = workers_of(run)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    finished = {r.run_id for r in progress(folder).in_state("done")}
    psutil.wait_procs(workers, timeout=60)
    assert not [worker for worker in workers if worker.is_running()], (
        "a worker outlived its campaign"
    )
    again = begun("resume", folder)
    output = ended(again)
    assert again.returncode == 0, output
    after = progress(folder)
    assert finished <= {r.run_id for r in after.in_state("done")}
    assert sorted(named(r) for r in after.in_state("done")) == [
        (f"rate={rate}", n) for rate in (40, 50) for n in range(3)
    ]
    assert len(after.in_state("broken")) == 1
    assert after.ended == "finished"


def test_two_processes_cannot_run_the_same_campaign_and_status_works_meanwhile(
    folder: Path, tmp_path: Path
) -> None:
    run = begun("run", campaign_file(tmp_path, TWO), "--out", folder)
    wait_for(lambda: progress(folder).in_state("begun"))
    second = begun("resume", folder)
    assert "another process is running this campaign" in ended(second)
    assert second.returncode == 5
    shown = begun("status", folder, "--json")
    document = json.loads(ended(shown))
    assert document["alive"]
    assert sum(cell["left"] for cell in document["cells"]) == 6
    run.send_signal(signal.SIGINT)
    output = ended(run)
    assert run.returncode == 130, output
    assert not progress(folder).in_state("begun")
    assert progress(folder).ended == "interrupted"


def test_a_worker_that_dies_is_replaced_and_its_run_has_failed(
    folder: Path, tmp_path: Path
) -> None:
    run = begun("run", campaign_file(tmp_path, TWO), "--out", folder)
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


def test_a_run_that_hangs_is_ended_and_the_others_are_executed(
    folder: Path, tmp_path: Path
) -> None:
    text = ONE_HANGS.replace("[axes", "limit_s = 25\n[axes", 1)
    run = begun("run", campaign_file(tmp_path, text, repetitions=2), "--out", folder)
    output = ended(run)
    assert run.returncode == 3, output
    assert "1 cell has no conclusive run, so nothing is known of length=long" in output
    after = progress(folder)
    (failed,) = after.in_state("failed")
    assert failed.cell == "length=long"
    assert "longer than its limit of 25 s" in (failed.error or "")
    assert [r.cell for r in after.in_state("done")] == ["length=short"] * 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2400 MiB."""
    with mounted(tmp_path / "disk", "2400m") as place:
        yield place


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_campaign_waits_while_the_disk_is_full(
    folder: Path, tmp_path: Path, small_disk: Path
) -> None:
    filler, where = small_disk / "filler", small_disk / "campaign"
    run = begun("run", campaign_file(tmp_path, "", repetitions=2), "--out", where)
    wait_for(lambda: progress(where).in_state("begun"))
    with filler.open("wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, 1600 * 2**20)
    wait_for(lambda: progress(where).in_state("done"))
    time.sleep(3)
    assert run.poll() is None
    assert len(progress(where).runs) == 1
    filler.unlink()
    output = ended(run)
    assert run.returncode == 0, output
    assert "waiting for 1024 MiB" in output
    assert len(progress(where).in_state("done")) == 2


@pytest.mark.skipif(
    os.environ.get("ACKLOSS_E2E") != "all", reason="restarts this machine's Docker: `make e2e`"
)
def test_a_restart_of_docker_costs_the_run_that_was_under_way(folder: Path, tmp_path: Path) -> None:
    run = begun("run", campaign_file(tmp_path, TWO), "--out", folder)
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
