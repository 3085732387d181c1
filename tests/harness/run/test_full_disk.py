"""A disk that becomes full during a run."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

import ackloss
from harness.errors import EnvironmentFailure
from harness.run import runner
from tests.fixtures.small_disk import mounted, table

pytestmark = pytest.mark.real_time


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_ends_the_run_and_keeps_what_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "DISK_MIN_BYTES", 0)
    with mounted(tmp_path / "disk", "16m") as disk:
        filling = threading.Thread(target=fill_once_begun, args=(disk,))
        filling.start()
        with pytest.raises(EnvironmentFailure, match="No space left") as failed:
            ackloss.run("memory/log", set={"cluster.real_time": True}, out=disk / "runs")
        filling.join()
        assert failed.value.exit_code == 5
        parts = list(disk.glob("runs/*/history/part-*.parquet"))
        assert parts
        assert all(table(part).num_rows > 0 for part in parts)


def fill_once_begun(folder: Path) -> None:
    """Fill a disk once a run has recorded something there, also while others write to it."""
    deadline = time.monotonic() + 60
    while not list(folder.glob("runs/*/history/part-*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.1)
    with (folder / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(bytes(1 << 16))
