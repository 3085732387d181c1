"""Three real nodes whose process listens on Kafka's port, prepared for every fault there is: all
that levers need, without Kafka. They are quiet, and no fault has anything to meet, unless they are
to talk (`talking`). They are pods in Docker, or hosts that are reached over SSH."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from harness import registry
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.ssh.cluster import SshCluster
from harness.clusters.ssh.host import hosts_of
from harness.clusters.ssh.inventory import read_inventory
from harness.history.run_folder import new_run_id
from harness.images.building import infra_image
from harness.images.daemon import connect, libfaketime
from harness.levers import prepared
from harness.machine import state
from harness.protocols import BOUNDED_DISK, OWN_DISK, NodeSpec
from harness.run.resolving import needs_of
from tests.fixtures.ssh_hosts import ssh_hosts

ROLES = {
    "b1": frozenset({"broker"}),
    "b2": frozenset({"broker"}),
    "c1": frozenset({"controller"}),
}
LISTEN = ["nc", "-lk", "-p", "9092"]
TALK = (Path(__file__).parent / "talk.pl").read_text()


Pods = DockerCluster | SshCluster
DOCKER, SSH = "docker", "ssh"


@contextmanager
def pods_in(
    folder: Path,
    *,
    talk: bool = False,
    own_disks: bool = False,
    kind: str = DOCKER,
    beside: Sequence[str] = (),
    argv: Sequence[str] = LISTEN,
) -> Iterator[Pods]:
    """A cluster of its own, with its run folder; its processes may talk to each other, store on
    disks that can lose power, and have others beside them."""
    argv = ["perl", "-e", TALK] if talk else argv
    needs = _needs() | ({OWN_DISK} if own_disks else set())
    begin = {DOCKER: _in_docker, SSH: _over_ssh}[kind]
    with begin(folder, needs, argv=argv, beside=beside) as cluster:
        time.sleep(0.3)
        yield cluster


@contextmanager
def _in_docker(
    folder: Path, needs: frozenset[str], *, argv: Sequence[str], beside: Sequence[str] = ()
) -> Iterator[DockerCluster]:
    run_id, image = new_run_id(), infra_image()
    with state.registered(run_id, folder):
        cluster = DockerCluster(run_id, connect(), image.id)
        try:
            addresses = cluster.create_network(list(ROLES))
            library = partial(libfaketime, image.id)
            nodes = _specs(addresses, argv, beside)
            specs = [prepared(each, needs, library) for each in nodes]
            cluster.start_pods(specs, image.id, addresses)
            yield cluster
        finally:
            cluster.down()
            state.forget(run_id)


@contextmanager
def _over_ssh(
    folder: Path, needs: frozenset[str], *, argv: Sequence[str], beside: Sequence[str] = ()
) -> Iterator[SshCluster]:
    with ssh_hosts(folder, len(ROLES)) as hosts:
        inventory = read_inventory(hosts.inventory())
        by_node = dict(zip(ROLES, hosts_of(inventory), strict=True))
        cluster = SshCluster(new_run_id(), by_node, needs)
        try:
            addresses = cluster.admit()
            cluster.start_nodes(_specs(addresses, argv, beside), folders={}, programs={})
            yield cluster
        finally:
            cluster.down()


def _specs(
    addresses: Mapping[str, str], argv: Sequence[str], beside: Sequence[str]
) -> list[NodeSpec]:
    return [
        NodeSpec(
            name=name,
            roles=roles,
            argv=[*argv, *addresses.values()] if TALK in argv else argv,
            files={"conf/x": name.encode()},
            beside=beside,
        )
        for name, roles in ROLES.items()
    ]


def _needs() -> frozenset[str]:
    """What any nemesis needs of nodes from their start."""
    nemeses = [registry.make("nemeses", n, {}, key="") for n in registry.plugins("nemeses")]
    return needs_of(nemeses) - {OWN_DISK} | {BOUNDED_DISK}


@contextmanager
def talking(folder: Path, *, kind: str = DOCKER) -> Iterator[Pods]:
    """Pods that talk to each other, and clients on this host that talk to them."""
    stop = threading.Event()

    def call(address: str) -> None:
        while not stop.wait(0.1):
            with suppress(OSError):
                socket.create_connection((address, 9092), timeout=0.3).close()

    with pods_in(folder, talk=True, own_disks=kind == DOCKER, kind=kind) as cluster:
        clients = [
            threading.Thread(target=call, args=(node.address,)) for node in cluster.nodes.values()
        ]
        for client in clients:
            client.start()
        try:
            yield cluster
        finally:
            stop.set()
            for client in clients:
                client.join()


@pytest.fixture(scope="module", params=[DOCKER, pytest.param(SSH, marks=pytest.mark.full)])
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of cluster whose nodes are real. Both prove by the same code."""
    return str(request.param)


@pytest.fixture(scope="module")
def pods(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pods]:
    with pods_in(tmp_path_factory.mktemp("pods"), kind=kind) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def docker_pods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCluster]:
    with _in_docker(tmp_path_factory.mktemp("pods"), _needs(), argv=LISTEN) as cluster:
        time.sleep(0.3)
        yield cluster
