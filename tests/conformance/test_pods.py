"""What every node promises, on real pods."""

from __future__ import annotations

import subprocess

import pytest

from harness.clusters.docker.cluster import DockerCluster, remove_run, unknown_runs
from harness.history.run_folder import new_run_id
from harness.images.building import infra_image
from harness.images.daemon import connect
from harness.machine import state
from harness.protocols import Cluster, Node
from tests.conformance.conftest import Pods

pytestmark = pytest.mark.docker


def test_it_is_a_cluster_of_nodes(pods: Pods) -> None:
    assert isinstance(pods, Cluster)
    assert all(isinstance(node, Node) for node in pods.nodes.values())


def test_files_come_and_go(pods: Pods) -> None:
    node = pods.nodes["b1"]
    assert node.get("conf") == {"x": b"b1"}
    node.put({"deep/er/file": b"\x00text\n"})
    assert node.get("deep") == {"er/file": b"\x00text\n"}
    assert node.get("absent") == {}
    assert node.run(["cat", "/var/lib/ackloss/deep/er/file"]).output == "\x00text\n"


def test_the_process_is_not_number_one_and_is_known_by_its_id(pods: Pods) -> None:
    node = pods.nodes["b1"]
    pid = node.pid()
    assert pid is not None
    assert pid > 1
    assert node.process().running
    assert node.admin(["ps", "-o", "comm=", "-p", str(pid)]).output.strip() == "nc"


def test_the_targets_process_has_no_rights(pods: Pods) -> None:
    refused = pods.nodes["b1"].run(["iptables", "-S"])
    assert refused.exit_code != 0
    reported = pods.nodes["b1"].run(["sh", "-c", "grep CapEff /proc/self/status"]).output
    assert int(reported.split()[1], 16) == 0


def test_exec_does_what_nsenter_does(
    docker_pods: DockerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, argv = docker_pods.nodes["b2"], ["iptables", "-w", "-S", "INPUT"]
    entered = node.admin(argv)
    monkeypatch.setattr("harness.clusters.docker.cluster.can_enter", lambda _: False)
    assert node.admin(argv) == entered
    assert entered.exit_code == 0


def test_two_runs_at_once_have_networks_of_their_own(docker_pods: DockerCluster) -> None:
    other = DockerCluster(new_run_id(), connect(), infra_image().id)
    try:
        other.create_network(["b1"])
        assert other.subnet is not None
        assert docker_pods.subnet is not None
        assert not other.subnet.overlaps(docker_pods.subnet)
        removed = remove_run(other.client, other.run_id)
        assert removed == [f"network ackloss-{other.run_id}"]
        assert all(node.process().running for node in docker_pods.nodes.values())
    finally:
        other.down()


def taken_by_hand(name: str) -> str:
    """The first subnet that is free, other runs may live beside this test, as another's network."""
    for third in range(256):
        subnet = f"198.18.{third}.0/24"
        argv = ["docker", "network", "create", "--subnet", subnet, name]
        if not subprocess.run(argv, capture_output=True, check=False).returncode:
            return subnet
    raise AssertionError("no subnet is free")


def test_a_subnet_that_someone_else_took_is_passed_over(docker_pods: DockerCluster) -> None:
    taken = taken_by_hand("ackloss-test-taken")
    other = DockerCluster(new_run_id(), connect(), infra_image().id)
    try:
        other.create_network(["b1"])
        assert str(other.subnet) not in (taken, str(docker_pods.subnet))
    finally:
        other.down()
        subprocess.run(
            ["docker", "network", "rm", "ackloss-test-taken"], check=True, capture_output=True
        )


def test_what_the_state_folder_does_not_know_is_named_and_left(docker_pods: DockerCluster) -> None:
    known = {run.run_id for run in state.registrations()}
    assert docker_pods.run_id in known
    assert unknown_runs(docker_pods.client, known - {docker_pods.run_id}) >= {docker_pods.run_id}
