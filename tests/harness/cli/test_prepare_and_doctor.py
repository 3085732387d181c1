"""The two verbs about the machine, as a user or a script calls them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def ackloss(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness", *args],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **env},
    )


@pytest.mark.docker
def test_prepare_keeps_what_exists_and_doctor_finds_it() -> None:
    assert ackloss("prepare").returncode == 0
    again = ackloss("prepare", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["took_s"] < 1
    assert again.stderr == ""
    done = ackloss("doctor", "--json")
    assert done.returncode == 0, done.stdout
    document = json.loads(done.stdout)
    assert document["ok"]
    absent = [f["name"] for f in document["findings"] if f["detail"] == "not made yet"]
    assert absent == []


def test_doctor_without_docker_reports_it_with_the_fix(tmp_path: Path) -> None:
    done = ackloss("doctor", "--json", DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert done.returncode == 5
    document = json.loads(done.stdout)
    assert not document["ok"]
    docker = document["findings"][0]
    assert (docker["name"], docker["status"], docker["fix"]) == ("docker", "missing", "make setup")
    assert docker["cure"] == docker["fix"]  # the former name


def test_prepare_without_docker_is_one_sentence(tmp_path: Path) -> None:
    done = ackloss("prepare", DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert done.returncode == 5
    assert done.stderr.splitlines()[-1].startswith("ackloss: Docker does not answer; ")
    assert "Traceback" not in done.stderr


def test_prepare_refuses_a_version_of_no_known_era() -> None:
    done = ackloss("prepare", "--version", "0.7.2")
    assert done.returncode == 4
    assert done.stderr.startswith("ackloss: --version: Kafka 0.7.2 is of no era")
