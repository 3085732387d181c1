"""A disk that becomes full during a run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fixtures.small_disk import mounted, table

ROOT = Path(__file__).parents[3]
PLAN = ROOT / "plans/memory/log.toml"

pytestmark = pytest.mark.real_time


def started(out: Path) -> subprocess.Popen[str]:
    words = ["run", PLAN, "--set", "cluster.real_time=true", "-q", "--out", out]
    return subprocess.Popen(
        [sys.executable, "-m", "ackloss", *words],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk, just big enough for a run to begin."""
    with mounted(tmp_path / "disk", "2400m") as folder:
        yield folder


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_ends_the_run_and_keeps_what_is_recorded(small_disk: Path) -> None:
    run = started(small_disk / "runs")
    try:
        deadline = time.monotonic() + 120
        while not list(small_disk.glob("runs/*/history/part-*.parquet")):
            assert time.monotonic() < deadline
            assert run.poll() is None, run.communicate()
            time.sleep(0.2)
        fill(small_disk)
        _, errors = run.communicate(timeout=300)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 5, errors
    assert "No space left" in errors
    assert "Traceback" not in errors
    parts = list(small_disk.glob("runs/*/history/part-*.parquet"))
    assert parts
    assert all(table(part).num_rows > 0 for part in parts)


def fill(folder: Path) -> None:
    """Fill a disk, also while others write to it."""
    with (folder / "filler").open("wb") as filler, suppress(OSError):
        while True:
            filler.write(bytes(1 << 20))
            filler.flush()
