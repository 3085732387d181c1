"""What only a real cluster can reject."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.fixtures.command_line import ackloss

ROOT = Path(__file__).parents[2]
SMALL = ("target.controllers=1", "target.brokers=1", "target.combined=true")
ALONE = ("topic.replication_factor=1", "topic.settings={}", "faults=[]")

FULL = pytest.mark.full
pytestmark = [pytest.mark.e2e, pytest.mark.docker]


def words_of(out: Path, *changes: str) -> list[str]:
    sets = [part for change in (*SMALL, *ALONE, *changes) for part in ("--set", change)]
    return ["run", str(ROOT / "plans/kafka-safe.toml"), "-q", "--out", str(out), *sets]


@pytest.mark.parametrize(
    ("change", "exit_code", "words"),
    [
        ('topic.settings."min.insync.replicas"=0', 4, "refuses a setting of the topic"),
        pytest.param('target.settings."num.io.threads"=0', 6, "num.io.threads", marks=FULL),
        pytest.param('target.features."no.such.feature"=1', 4, "no.such.feature", marks=FULL),
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
