"""Three real pods whose process listens on Kafka's port, prepared for every fault there is: all
that levers need, without Kafka. They are quiet, and no fault has anything to meet, unless they are
to talk (`talking`)."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from harness import registry
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.preparing import prepared
from harness.history.run_folder import new_run_id
from harness.images.building import infra_image
from harness.images.daemon import connect
from harness.machine import state
from harness.protocols import BOUNDED_DISK, NodeSpec
from harness.run.resolving import needs_of

ROLES = {
    "b1": frozenset({"broker"}),
    "b2": frozenset({"broker"}),
    "c1": frozenset({"controller"}),
}
LISTEN = ["nc", "-lk", "-p", "9092"]
TALK = (Path(__file__).parent / "talk.pl").read_text()


@contextmanager
def pods_in(folder: Path, *, talk: bool = False) -> Iterator[DockerCluster]:
    """A cluster of its own, with its run folder; its processes may talk to each other."""
    run_id, image = new_run_id(), infra_image()
    with state.registered(run_id, folder):
        cluster = DockerCluster(run_id, connect(), image.id)
        try:
            addresses = cluster.create_network(list(ROLES))
            specs = [
                NodeSpec(
                    name=name,
                    roles=roles,
                    argv=["perl", "-e", TALK, *addresses.values()] if talk else LISTEN,
                    files={"conf/x": name.encode()},
                )
                for name, roles in ROLES.items()
            ]
            nemeses = [registry.make("nemeses", n, {}, key="") for n in registry.plugins("nemeses")]
            needs = needs_of(nemeses) | {BOUNDED_DISK}
            specs = prepared(specs, needs, holder_id=image.id)
            cluster.start(specs, image.id, addresses)
            time.sleep(0.3)
            yield cluster
        finally:
            cluster.down()
            state.forget(run_id)


@contextmanager
def talking(folder: Path) -> Iterator[DockerCluster]:
    """Pods that talk to each other, and clients on this host that talk to them."""
    stop = threading.Event()

    def call(address: str) -> None:
        while not stop.wait(0.1):
            with suppress(OSError):
                socket.create_connection((address, 9092), timeout=0.3).close()

    with pods_in(folder, talk=True) as cluster:
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


@pytest.fixture(scope="module")
def pods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCluster]:
    with pods_in(tmp_path_factory.mktemp("pods")) as cluster:
        yield cluster
