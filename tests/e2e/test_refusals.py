"""What only a real cluster can reject, and a disk that becomes full during a run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fixtures.command_line import ackloss
from tests.fixtures.small_disk import mounted, table

ROOT = Path(__file__).parents[2]
SMALL = ["--set", "target.controllers=1", "--set", "target.brokers=3"]

pytestmark = [pytest.mark.e2e, pytest.mark.docker]


def words_of(out: Path, *changes: str) -> list[str]:
    sets = [part for change in changes for part in ("--set", change)]
    return ["run", str(ROOT / "plans/kafka-safe.toml"), "-q", "--out", str(out), *SMALL, *sets]


def started(out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "harness", *words_of(out)],
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
def test_a_setting_that_the_cluster_rejects_ends_the_run(
    tmp_path: Path, change: str, exit_code: int, words: str
) -> None:
    done = ackloss(*words_of(tmp_path, change))
    assert done.exit_code == exit_code, done.output
    assert words in done.stderr
    for folder in tmp_path.iterdir():  # none if it was refused before the run began
        assert left_of(folder.name) == ""


def left_of(run_id: str) -> str:
    """Containers of a run that Docker still has."""
    label = f"label=ackloss.run={run_id}"
    done = subprocess.run(
        ["docker", "ps", "-aq", "--filter", label], capture_output=True, text=True, check=True
    )
    return done.stdout


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
        _, errors = run.communicate(timeout=120)
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
