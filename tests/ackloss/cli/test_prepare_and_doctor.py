"""The two verbs about the machine, as the command line calls them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.fixtures.command_line import ackloss


def images() -> set[str]:
    """The ids of the images of nodes."""
    listed = ["docker", "image", "ls", "--no-trunc", "--format", "{{.ID}}", "ackloss/*"]
    return set(subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.docker
def test_prepare_keeps_what_exists_and_doctor_finds_it() -> None:
    for system in ("kafka", "zookeeper"):
        assert ackloss("prepare", system).exit_code == 0
    made = images()
    again = ackloss("prepare", "--json")
    assert again.exit_code == 0, again.stderr
    assert json.loads(again.stdout)["took_s"] >= 0
    assert again.stderr == ""
    assert made
    assert images() == made
    done = ackloss("doctor", "--json")
    assert done.exit_code == 0, done.stdout
    document = json.loads(done.stdout)
    assert document["ok"]
    absent = [f["name"] for f in document["findings"] if f["detail"] == "not made yet"]
    assert absent == []


@pytest.mark.docker
def test_prepare_states_the_version_that_servers_will_have() -> None:
    """Also where a plan names none, and where it names that of a package around the server."""
    for system, stated in (("redis", "7.0."), ("valkey", "8.1.")):
        assert f"node images ({system} {stated}" in ackloss("prepare", system).stdout


def test_doctor_without_docker_reports_it_with_the_fix(tmp_path: Path) -> None:
    done = ackloss("doctor", "--json", DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert done.exit_code == 5
    document = json.loads(done.stdout)
    assert not document["ok"]
    docker = next(each for each in document["findings"] if each["needed_for"] == "docker")
    assert (docker["name"], docker["status"], docker["fix"]) == ("docker", "missing", "make setup")
    assert docker["cure"] == docker["fix"]  # the former name
    kinds = {kind["kind"]: kind for kind in document["clusters"]}
    assert kinds["docker"]["lacks"][0] == "docker"
    assert (kinds["memory"]["ok"], kinds["memory"]["lacks"]) == (True, [])


def test_doctor_of_simulated_clusters_needs_no_docker(tmp_path: Path) -> None:
    done = ackloss("doctor", "memory", DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert done.exit_code == 0, done.stderr
    assert "memory: runs are possible" in done.stdout + done.stderr


def test_doctor_of_ssh_says_that_no_host_was_examined() -> None:
    done = ackloss("doctor", "ssh")
    assert "ssh: runs are possible, but see hosts" in done.stdout + done.stderr


def test_doctor_of_a_kind_that_there_is_not_names_the_nearest() -> None:
    done = ackloss("doctor", "memry")
    assert done.exit_code == 4
    assert "there is no 'memry' in clusters; did you mean 'memory'?" in done.stderr


def test_prepare_without_docker_is_one_sentence(tmp_path: Path) -> None:
    done = ackloss("prepare", DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert done.exit_code == 5
    assert done.stderr.splitlines()[-1].startswith("ackloss: Docker does not answer; ")
    assert "Traceback" not in done.stderr


def test_prepare_refuses_an_unsupported_version() -> None:
    for words in (
        ("kafka", "0.7.2"),
        ("--system", "kafka", "--version", "0.7.2"),
        ("--version", "0.7.2"),
    ):
        done = ackloss("prepare", *words)
        assert done.exit_code == 4
        assert done.stderr.startswith("ackloss: VERSION: Kafka 0.7.2 is an unsupported version")


def test_prepare_refuses_two_systems() -> None:
    done = ackloss("prepare", "kafka", "--system", "etcd")
    assert done.exit_code == 4
    assert "etcd-server has no version kafka here" in done.stderr
