"""What only a real cluster can refuse, and a disk that runs full half-way."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[2]
SMALL = ["--set", "target.controllers=1", "--set", "target.brokers=3"]

pytestmark = [pytest.mark.e2e, pytest.mark.docker]


def started(out: Path, *changes: str) -> subprocess.Popen[str]:
    sets = [part for change in changes for part in ("--set", change)]
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "harness", "run", "plans/kafka-safe.toml", "-q"),
            *("--out", str(out), *SMALL, *sets),
        ],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize(
    ("change", "exit_code", "words"),
    [
        ('target.settings."no.such.setting"=1', 4, "does not know this setting"),
        ('topic.settings."no.such.setting"=1', 4, "refuses a setting of the topic"),
        ('target.settings."num.io.threads"=0', 6, "num.io.threads"),
        ('target.features."no.such.feature"=1', 4, "no.such.feature"),
    ],
)
def test_a_setting_that_the_cluster_does_not_take_ends_the_run(
    tmp_path: Path, change: str, exit_code: int, words: str
) -> None:
    run = started(tmp_path, change)
    _, told = run.communicate(timeout=180)
    assert run.returncode == exit_code, told
    assert words in told
    assert "Traceback" not in told
    assert not subprocess.run(
        ["docker", "ps", "-aq", "--filter", "label=ackloss.run"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, just big enough for a run to begin."""
    folder = tmp_path / "disk"
    folder.mkdir()
    size = "size=2400m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_disk_that_runs_full_ends_the_run_and_keeps_what_is_recorded(small_disk: Path) -> None:
    run = started(small_disk / "runs")
    deadline = time.monotonic() + 120
    while not list(small_disk.glob("runs/*/history/part-*.parquet")):
        assert time.monotonic() < deadline
        assert run.poll() is None, run.communicate()
        time.sleep(0.2)
    free = os.statvfs(small_disk)
    with (small_disk / "filler").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, free.f_bavail * free.f_frsize)
    _, told = run.communicate(timeout=120)
    assert run.returncode == 5, told
    assert "No space left" in told
    assert "Traceback" not in told
    parts = list(small_disk.glob("runs/*/history/part-*.parquet"))
    assert parts
    assert all(pq.read_table(part).num_rows > 0 for part in parts)
