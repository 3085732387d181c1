"""What may happen to a campaign: killed, a run that hangs, a full disk, Ctrl-C, two processes. It
loses no finished run, continues, and reports what happened.

None of it depends on the system under test, so the runs are simulated. What concerns containers
is in `test_campaigns.py`."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

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
from tests.fixtures.machine import ROOT
from tests.fixtures.small_disk import mounted

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PLAN = """
schema = 1
name = "simulated"
[cluster]
kind = "memory"
[target]
system = "memory"
[workload]
name = "append"
duration_s = 30
rate_per_s = 50
"""
ONE_HANGS = """
limit_s = 75
[axes.length.choices.short]
[axes.length.choices.long]
repetitions = 1
set = { "workload.name" = "hangs" }
"""
SLOW = """
import time
from dataclasses import dataclass
from workloads.append import Append


@dataclass(frozen=True)
class Slow(Append):
    plugin = "slow"

    def script(self, *of_process):
        for op in super().script(*of_process):
            yield op
            time.sleep(0.2)


class Hangs(Slow):
    plugin = "hangs"

    def script(self, *of_process):
        time.sleep(600)
        yield from super().script(*of_process)
"""

PLUGINS = "workloads.slow = slow:Slow\nworkloads.hangs = slow:Hangs\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "campaign"


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two installed workloads, which take no CPU: one that takes ten minutes for the plan, and one
    that stops for no signal."""
    info = tmp_path / "slow-1.0.dist-info"
    info.mkdir()
    (tmp_path / "slow.py").write_text(SLOW)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slow\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ackloss.plugins]\n" + PLUGINS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))


def test_a_killed_campaign_loses_no_finished_run_and_continues(
    folder: Path, tmp_path: Path
) -> None:
    file = campaign_file(tmp_path, PLAN, TWO, repetitions=2)
    run = begun("run", file, "--out", folder)
    wait_for(lambda: progress(folder).finished())
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
        (f"rate={rate}", n) for rate in (40, 50) for n in range(2)
    ]
    assert len(after.in_state("broken")) == 1
    assert after.ended == "finished"


@pytest.mark.usefixtures("slow")
@pytest.mark.full
def test_two_processes_cannot_run_the_same_campaign_and_status_works_meanwhile(
    folder: Path, tmp_path: Path
) -> None:
    endless = PLAN.replace('name = "append"', 'name = "slow"')
    run = begun("run", campaign_file(tmp_path, endless, TWO), "--out", folder)
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


@pytest.mark.full
@pytest.mark.usefixtures("slow")
def test_a_run_that_hangs_is_ended_and_the_others_are_executed(
    folder: Path, tmp_path: Path
) -> None:
    run = begun("run", campaign_file(tmp_path, PLAN, ONE_HANGS, repetitions=2), "--out", folder)
    output = ended(run, within_s=480)
    assert run.returncode == 3, output
    assert "1 cell has no conclusive run, so no share is known of length=long" in output
    after = progress(folder)
    (failed,) = after.in_state("failed")  # 75 s: the others take 4 s, and 20 times that if starved
    assert failed.cell == "length=long"
    assert "longer than its limit of 75 s" in (failed.error or "")
    assert [r.cell for r in after.in_state("done")] == ["length=short"] * 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2400 MiB."""
    with mounted(tmp_path / "disk", "2400m") as place:
        yield place


@pytest.mark.full
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_campaign_waits_while_the_disk_is_full(
    folder: Path, tmp_path: Path, small_disk: Path
) -> None:
    filler, where = small_disk / "filler", small_disk / "campaign"
    run = begun("run", campaign_file(tmp_path, PLAN, "", repetitions=2), "--out", where)
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
