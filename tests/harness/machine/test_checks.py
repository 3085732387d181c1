"""The checks examine the real machine; an empty PATH takes its programs away."""

from __future__ import annotations

import os
import shutil
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.clusters.docker import Docker
from harness.clusters.docker import checkup as doctor
from harness.clusters.memory import Memory
from harness.clusters.ssh import Ssh
from harness.errors import EnvironmentFailure
from harness.machine import checks as common
from harness.machine import loop_disks
from harness.machine.checks import disk, maven
from harness.machine.state import user_config
from harness.plan import parse_plan
from harness.protocols import Finding, Status
from harness.run.resolving import resolve
from harness.run.runner import require

PLAN = resolve(parse_plan({"schema": 1, "name": "p", "target": {"version": "4.3.1"}}))
DOCKER, MEMORY = Docker(), Memory()
_Usage = namedtuple("_Usage", "total used free")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without programs: the only folder in its PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    return tmp_path


def program(folder: Path, name: str, prints: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{prints}'\n")
    path.chmod(0o755)


def test_what_is_not_installed_has_a_fix(bare: Path) -> None:
    docker, info = doctor.docker_daemon()
    assert info is None
    assert docker == Finding("docker", Status.MISSING, "not installed", "make setup")
    assert common.java().status is Status.MISSING
    assert common.java().fix == "apt-get install openjdk-17-jdk-headless"
    assert maven().fix == "apt-get install maven"


@pytest.mark.parametrize(
    ("printed", "status"),
    [
        ('openjdk version "1.8.0_402"', Status.OLD),
        ('openjdk version "11.0.22" 2024-01-16', Status.OLD),
        ('openjdk version "17.0.15" 2025-04-15', Status.OK),
        ('openjdk version "21" 2023-09-19', Status.OK),
    ],
)
def test_java_is_17_or_newer(bare: Path, printed: str, status: Status) -> None:
    program(bare, "java", printed)
    found = common.java()
    assert (found.status, printed in found.detail) == (status, True)


def test_java_home_comes_before_the_path(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare, "java", 'openjdk version "17.0.15"')
    (bare / "old" / "bin").mkdir(parents=True)
    program(bare / "old" / "bin", "java", 'openjdk version "11.0.22"')
    monkeypatch.setenv("JAVA_HOME", str(bare / "old"))
    assert common.java().status is Status.OLD


def test_mavens_version_is_read_from_coloured_output(bare: Path) -> None:
    program(bare, "mvn", "\x1b[1mApache Maven 3.3.9\x1b[m")
    assert maven().status is Status.OLD
    program(bare, "mvn", "\x1b[1mApache Maven 3.8.7\x1b[m")
    assert maven() == Finding("maven", Status.OK, "Apache Maven 3.8.7")


def test_a_daemon_that_does_not_answer(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{bare}/none.sock")
    found, info = doctor.docker_daemon()
    assert (found.status, found.detail, info) == (Status.MISSING, "Docker does not answer", None)
    with pytest.raises(EnvironmentFailure, match="Docker does not answer"):
        require(PLAN.provider, PLAN.order, runs=bare)


def test_mmdebstrap_is_not_needed_with_an_own_base(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACKLOSS_BASE_IMAGE", "debian:12")
    user_config.cache_clear()
    try:
        assert doctor.base_maker(has_docker=False).detail.startswith("not needed")
    finally:
        user_config.cache_clear()


@pytest.mark.parametrize(
    ("free", "status"), [(1 << 30, Status.MISSING), (4 << 30, Status.WARN), (9 << 30, Status.OK)]
)
def test_the_disk_is_that_of_the_nearest_existing_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, status: Status
) -> None:
    checked: list[Path] = []

    def usage(place: Path) -> _Usage:
        checked.append(place)
        return _Usage(1 << 40, (1 << 40) - free, free)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    assert disk("disk of runs", tmp_path / "not" / "there").status is status
    assert checked == [tmp_path]
    assert list(tmp_path.iterdir()) == []


def test_a_run_needs_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: _Usage(1, 1, 1 << 30))
    with pytest.raises(EnvironmentFailure, match=r"1\.0 GiB are free .*but a run needs 2\.0 GiB"):
        require(PLAN.provider, PLAN.order, runs=tmp_path)


def test_a_run_needs_memory_for_its_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.images.daemon.docker_info", lambda: SimpleNamespace(root=tmp_path))
    nodes, available = len(PLAN.provider.outline(PLAN.order)), "harness.clusters.docker"
    monkeypatch.setattr(f"{available}.memory_available", lambda: nodes * 512 << 20)
    PLAN.provider.require(PLAN.order)
    monkeypatch.setattr(f"{available}.memory_available", lambda: (nodes * 512 << 20) - 1)
    with pytest.raises(EnvironmentFailure, match="6 nodes of 512 MiB may use") as raised:
        PLAN.provider.require(PLAN.order)
    assert raised.value.key == "target.memory_mb"


def test_a_machine_without_programs_can_run_simulated_clusters_alone(bare: Path) -> None:
    found = common.examine((DOCKER, MEMORY), bare / "runs")
    docker, memory = found.kinds
    assert (docker.ok, memory.ok, found.ok) == (False, True, False)
    assert {"docker", "maven"} <= set(docker.lacks)
    assert list(memory.findings) == []
    assert common.examine((MEMORY,), bare / "runs").ok


def test_hosts_that_nobody_named_are_not_said_to_be_fit(tmp_path: Path) -> None:
    (ssh,) = common.examine((Ssh(),), tmp_path / "runs").kinds
    hosts = {each.name: each for each in ssh.findings}["hosts"]
    assert (hosts.status, hosts.fix) == (Status.WARN, "ackloss doctor --inventory FILE")
    assert ssh.possible == "possible, but see hosts"


def test_what_all_runs_need_is_needed_by_simulated_ones_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: _Usage(1, 1, 1 << 30))
    (memory,) = common.examine((MEMORY,), tmp_path / "runs").kinds
    assert "disk of runs" in memory.lacks


@pytest.mark.docker
def test_this_machine_can_run_and_nothing_is_changed(tmp_path: Path) -> None:
    examined = common.examine((DOCKER, MEMORY), tmp_path / "runs")
    found = {each.name: each for findings in examined.by_need.values() for each in findings}
    assert {"docker", "java", "maven", "iptables", "memory", "netem", "disk of Docker"} < set(found)
    assert examined.ok
    assert found["docker"].status == "ok"
    assert list(tmp_path.iterdir()) == []


def test_a_user_of_docker_lacks_only_what_root_mounts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The folder of the daemon is not the user's: its space counts, not who may write to it."""
    assert doctor.rights().detail == "root"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = doctor.rights()
    assert found.status is Status.OK
    assert "only power loss needs root" in found.detail
    assert loop_disks.why_none() == "only root may mount disks"
    assert disk("disk of Docker", tmp_path, by_us=False).status is not Status.MISSING
    assert disk("disk of runs", tmp_path).status is Status.MISSING


@pytest.mark.parametrize(("name", "session"), [*doctor._WEIGHTS.items()])
def test_containers_that_weigh_together_what_one_session_does_are_a_warning(
    name: str, session: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_CGROUPS", tmp_path)
    assert doctor.weight() == [], "systemd has a group for each container"
    file = tmp_path / name
    file.parent.mkdir(parents=True)
    file.write_text(f"{session}\n")
    (found,) = doctor.weight()
    assert (found.status, found.fix) == (Status.WARN, f"echo {4 * session} > {file}")
    file.write_text(f"{4 * session}\n")
    assert [each.status for each in doctor.weight()] == [Status.OK]
