"""Output that nobody receives: no exit code of a verdict, and the end of nothing else."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import docker
import pytest
import requests
import rich_click as click
from click.testing import CliRunner

from ackloss.cli.output import Output, with_output
from harness.images.daemon import connect
from tests.fixtures.budget import full, full_of
from tests.fixtures.campaign_process import TWO, campaign_file, progress

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PLAN = "plans/kafka-safe.toml"
LOG = (ROOT / "plans/memory/log.toml").read_text()


def to_nobody(*args: str | Path) -> tuple[int, str]:
    """The exit code and stderr of a command whose reader leaves before it has read anything."""
    with subprocess.Popen(
        [sys.executable, "-m", "ackloss", *map(str, args)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        stderr = process.stderr.read()
    return process.returncode, stderr


@pytest.mark.parametrize(
    "args",
    [
        ("plan", "validate", PLAN),
        ("--version",),
        *full(
            ("plan", "validate", PLAN, "--json"),
            ("plan", "schema"),
            ("check", "--help"),
            ("--help",),
            ("lake", "query", "-h"),
        ),
    ],
)
def test_a_result_or_a_help_in_a_closed_pipe_is_neither_valid_nor_invalid(
    args: tuple[str, ...],
) -> None:
    assert to_nobody(*args) == (5, "")


def test_a_wrong_usage_stays_one_though_stdout_is_closed() -> None:
    code, stderr = to_nobody("run", "--nonsense")
    assert (code, "No such option" in stderr) == (2, True)
    assert to_nobody() == (2, "")


def test_bad_input_stays_bad_input_though_stdout_is_closed() -> None:
    code, stderr = to_nobody("plan", "validate", PLAN, "--set", "name", "--json")
    assert (code, "KEY=VALUE" in stderr) == (4, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("version > /dev/full", "No space left on device"),
        ("version --json >&-", "Bad file descriptor"),
        *full_of(
            ("--help > /dev/full", "No space left on device"),
            ("--version > /dev/full", "No space left on device"),
            ("list -h > /dev/full", "No space left on device"),
            ("--help >&-", "Bad file descriptor"),
        ),
    ],
)
def test_an_output_that_cannot_be_written_is_reported(words: str, why: str) -> None:
    command = f"{sys.executable} -m ackloss {words}"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 5
    assert done.stderr == f"ackloss: stdout: cannot be written: {why}\n"


def test_a_full_disk_is_of_the_environment() -> None:
    @click.command()
    @with_output
    def full(_: Output) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/x")

    done = CliRunner().invoke(full)
    assert done.exit_code == 5
    assert done.stderr == "ackloss: /data/x: No space left on device\n"


def test_a_docker_that_hangs_is_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Docker 20.10 did with nine clusters: each request about networks waited for a lock."""

    def hangs(*_: object, **__: object) -> None:
        raise requests.ReadTimeout("Read timed out. (read timeout=120)")

    client = SimpleNamespace(api=SimpleNamespace(trust_env=True, send=hangs))
    monkeypatch.setattr(docker, "from_env", lambda **_: client)

    @click.command()
    @with_output
    def hung(_: Output) -> None:
        connect().api.send(requests.PreparedRequest())

    done = CliRunner().invoke(hung)
    assert done.exit_code == 5
    assert done.stderr.startswith("ackloss: Docker does not answer: ReadTimeout: Read timed out.")
    assert "restart Docker, then run `ackloss clean`" in done.stderr


def test_a_run_ends_though_its_reader_has_left(tmp_path: Path) -> None:
    """The run is worth more than its output."""
    assert to_nobody("run", "memory/log", "--out", tmp_path) == (5, "")
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "run.json").read_bytes())["state"] == "done"
    assert json.loads((folder / "result.json").read_bytes())["verdict"] == "valid"
    assert (folder / "report.html").exists()


@pytest.mark.full
def test_a_campaign_ends_though_its_reader_has_left(tmp_path: Path) -> None:
    file = campaign_file(tmp_path, LOG, TWO, repetitions=1)
    assert to_nobody("campaign", "run", file, "--out", tmp_path / "c") == (5, "")
    assert [run.verdict for run in progress(tmp_path / "c").runs.values()] == ["valid", "valid"]
    assert (tmp_path / "c" / "report.html").exists()
