"""The power lever on a real node: a loop device under what it stores, and what SIGKILL leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.clusters.docker.cluster import DockerCluster, DockerNode
from harness.faults.records import PowerRecord
from harness.levers.disk import unbounded
from harness.levers.process import PowerLever
from harness.machine.loop_disks import disks_of
from nemeses.disk import PowerLoss
from tests.conformance.conftest import pods_in

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
DATA = "/var/lib/ackloss/data"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCluster]:
    with pods_in(tmp_path_factory.mktemp("pods"), own_disks=True) as made:
        yield made


@pytest.fixture
def node(cluster: DockerCluster) -> Iterator[DockerNode]:
    node = cluster.nodes["b1"]
    yield node
    node.start()


def record(node: DockerNode) -> PowerRecord:
    (act,) = PowerLoss().acts([node], lambda _: [])
    assert isinstance(act.record, PowerRecord)
    return replace(act.record, fault="x")


def test_the_process_writes_twice_and_only_what_it_fsynced_is_left(node: DockerNode) -> None:
    lever = PowerLever({node.name: node})
    assert lever.unavailable(node, record(node)) is None
    synced, unsynced = f"dd if=/dev/zero of={DATA}", "bs=4096 count=4 status=none"
    wrote = f"{synced}/a {unsynced} conv=fsync; {synced}/b {unsynced}; ls {DATA}"
    assert {"a", "b"} <= set(node.run(["sh", "-c", wrote]).output.split())
    asked = record(node)
    lever.apply(asked)
    proof = lever.probe(asked, applied=True)
    assert proof.proven, proof.evidence
    assert set(node.get("data")) >= {"a"}, "the node sees the disk that was mounted again"
    assert "b" not in node.get("data")
    assert any("b is gone" in line for line in proof.evidence)
    assert lever.leftover_state(node)
    lever.undo(asked)
    assert lever.probe(asked, applied=False).proven
    assert lever.leftover_state(node) == []
    assert "b" not in node.run(["ls", DATA]).output.split(), "its process sees it too"
    assert node.run(["sh", "-c", f"echo x > {DATA}/c && cat {DATA}/c"]).output == "x\n"


def test_another_node_keeps_what_it_wrote(cluster: DockerCluster, node: DockerNode) -> None:
    other = cluster.nodes["b2"]
    assert other.run(["sh", "-c", f"echo x > {DATA}/unsynced"]).exit_code == 0
    asked, lever = record(node), PowerLever(cluster.nodes)
    lever.apply(asked)
    lever.undo(asked)
    assert other.get("data/unsynced") == {"unsynced": b"x\n"}


def test_such_a_disk_may_also_be_filled(node: DockerNode) -> None:
    assert unbounded(node) is None


def test_a_node_of_another_plan_has_none(pods: DockerCluster) -> None:
    node = pods.nodes["b1"]
    why = PowerLever(pods.nodes).unavailable(node, record(node))
    assert "does not store on its own disk" in (why or "")


DIES = """
import os, sys, signal
from pathlib import Path
from dataclasses import replace
from tests.conformance.conftest import pods_in
from tests.conformance.test_power_on_pods import record
from harness.levers.process import PowerLever
with pods_in(Path(sys.argv[1]), own_disks=True) as pods:
    node = pods.nodes["b1"]
    PowerLever(pods.nodes).apply(record(node))
    print(pods.run_id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_clean_removes_what_a_killed_run_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path / "state"))  # no other cleans up after it
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    dying = [sys.executable, "-c", DIES, str(tmp_path)]
    died = subprocess.run(
        dying, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    run_id = died.stdout.strip()
    assert run_id, died.stderr
    folder = disks_of(run_id)
    assert str(folder) in Path("/proc/self/mountinfo").read_text()
    clean = subprocess.run(
        [sys.executable, "-m", "ackloss", "clean"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert clean.returncode == 0, clean.stderr
    assert f"disk {run_id}/b1" in clean.stdout + clean.stderr
    assert not folder.exists()
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
    attached = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True)
    assert run_id not in attached.stdout
