"""A clock fault moves the clock of one broker only, as the brokers' logs and retention show."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.e2e, pytest.mark.docker]


def furthest_ahead_s(log: Path, *, ended: datetime) -> float:
    """How far the latest timestamp of a broker's log is after the end of the run."""
    stamps = re.findall(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", log.read_text(), re.MULTILINE)
    latest = max(datetime.fromisoformat(stamp).replace(tzinfo=UTC) for stamp in stamps)
    return (latest - ended).total_seconds()


def log_of_partition(folder: Path) -> str:
    """What the brokers wrote of the partition, to be shown when nothing was deleted."""
    lines = (
        f"{log.parent.name} {line[:240]}"
        for log in sorted(folder.glob("nodes/b*/server.log"))
        for line in log.read_text().splitlines()
        if "ackloss-0" in line
    )
    return "\n".join(lines)


@pytest.mark.full
def test_a_jump_beyond_the_retention_time_deletes_what_was_acknowledged(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ackloss", "run", "plans/faults/clock-retention.toml"]
    done = subprocess.run(
        [*command, "--json", "--out", str(tmp_path)],
        cwd=ROOT,
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    result = json.loads(done.stdout)
    (folder,) = tmp_path.iterdir()
    seen = f"{result['reason']}: {result['faults']}\n{log_of_partition(folder)}"
    assert result["verdict"] == "invalid", seen
    # As many as were acknowledged before the jump: hundreds, or few on a busy machine.
    assert result["counts"]["lost"] == result["counts"]["deleted"] > 0, seen
    (window,) = result["faults"]
    assert window["proven"], window["evidence"]
    (met,) = window["nodes"]
    ended = datetime.now(UTC)
    for node in ("b1", "b2", "b3", "c1"):
        ahead_s = furthest_ahead_s(folder / "nodes" / node / "server.log", ended=ended)
        assert 6900 < ahead_s < 7200 if node == met else ahead_s <= 0, (node, ahead_s)
