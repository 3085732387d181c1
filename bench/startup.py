"""Clusters until ready, ours beside a plain start, as a ratio: today's Kafka on 3 + 3 nodes, old
versions with ZooKeeper on 5 + 1.

Ready: every broker has joined, a topic with a replica on each is made and its ISR whole on every
node's word. Plain is what one would do by hand with the same image, heap and settings: a container
a node, all at once, without class-data archives; in KRaft mode each formats its storage first. Ours
makes pods of two containers each, which is all that sets the two apart where there is nothing to
format: so the bar is 0.7 of the plain time for today's Kafka and 1.5 for old ones. They take turns.

    python -m bench.startup [ROUNDS]
"""

from __future__ import annotations

import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from harness.clusters.docker.cluster import DockerCluster, DockerNode
from harness.history.run_folder import new_run_id
from harness.images.building import infra_image
from harness.images.daemon import connect
from harness.machine import state
from harness.machine.files import packed
from harness.protocols import NODE_DATA, NodeSpec
from targets.kafka import Kafka
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import DEFAULT_VERSION

ROUNDS = 5
TARGET = Kafka()


def plan_of(version: str, brokers: int, partitions: int) -> KafkaPlan:
    """A cluster, each broker with a replica of each partition."""
    return KafkaPlan.model_validate(
        {
            "schema": 1,
            "name": "bench-startup",
            "target": {"version": version, "brokers": brokers},
            "topic": {"partitions": partitions, "replication_factor": brokers},
        }
    )


BARS = (
    (plan_of(DEFAULT_VERSION, brokers=3, partitions=1), 0.7),
    (plan_of("0.8.2.2", brokers=5, partitions=5), 1.5),
    (plan_of("2.8.2", brokers=5, partitions=5), 1.5),
)
"""What is started, and how much of the plain time it may take."""


@dataclass(frozen=True)
class Times:
    """One start: until the containers ran, and until the cluster was ready."""

    containers_s: float
    ready_s: float


def measure(start: Callable[[DockerCluster, KafkaPlan], float], plan: KafkaPlan) -> Times:
    """Start a cluster, wait until it is ready, take it down."""
    run_id = new_run_id()
    with tempfile.TemporaryDirectory() as folder, state.registered(run_id, Path(folder)):
        cluster = DockerCluster(run_id, connect(), infra_image().id)
        try:
            begun = time.monotonic()
            containers_s = start(cluster, plan)
            try:
                TARGET.bring_up(cluster, plan, timeout_s=120)
            except TimeoutError:
                for node in cluster.nodes.values():
                    if not node.process().running:
                        print(node.name, cluster.output(node)[-2000:].decode(), sep="\n")
                raise
            return Times(containers_s, time.monotonic() - begun)
        finally:
            cluster.down()
            state.forget(run_id)


def ours(cluster: DockerCluster, plan: KafkaPlan) -> float:
    """Pods, formatted files, class-data archive."""
    begun = time.monotonic()
    ingredients = TARGET.prepare(plan, lambda _: None)
    addresses = cluster.create_network(TARGET.names(plan))
    specs = TARGET.nodes(plan, ingredients, addresses)
    cluster.start_pods(specs, ingredients.image.id, addresses)
    return time.monotonic() - begun


def plain(cluster: DockerCluster, plan: KafkaPlan) -> float:
    """One container a node; in KRaft mode each formats its own storage with its own JVM."""
    ingredients = replace(TARGET.prepare(plan, lambda _: None), mounts={})
    begun = time.monotonic()
    addresses = cluster.create_network(TARGET.names(plan))
    specs = [formatting(spec) for spec in TARGET.nodes(plan, ingredients, addresses)]
    with ThreadPoolExecutor(max_workers=6) as pool:
        for node in pool.map(
            lambda s: run_plain(cluster, s, ingredients.image.id, addresses), specs
        ):
            cluster.nodes[node.name] = node
    return time.monotonic() - begun


def run_plain(
    cluster: DockerCluster, spec: NodeSpec, image: str, addresses: Mapping[str, str]
) -> DockerNode:
    """`docker run` of one node, its files copied in."""
    api, address = cluster.client.api, addresses[spec.name]
    container = api.create_container(
        image,
        command=list(spec.argv),
        name=f"ackloss-{cluster.run_id}-{spec.name}",
        labels=cluster.labels(),
        networking_config=api.create_networking_config(
            {cluster.network: api.create_endpoint_config(ipv4_address=address)}  # type: ignore[arg-type]
        ),
        host_config=api.create_host_config(network_mode=cluster.network),
    )["Id"]
    files = {f"{NODE_DATA.lstrip('/')}/{name}": body for name, body in spec.files.items()}
    api.put_archive(container, "/", packed(files))
    api.start(container)
    return DockerNode(spec.name, spec.roles, address, container, container, 0, cluster.client)


def formatting(spec: NodeSpec) -> NodeSpec:
    """The node without its formatted files, formatting its storage before it starts; with ZooKeeper
    there is nothing to format."""
    if "data/meta.properties" not in spec.files:
        return spec
    *java, main_class, properties = spec.argv
    assert main_class == "kafka.Kafka"
    cluster_id = next(
        line.partition(b"=")[2].decode()
        for line in spec.files["data/meta.properties"].splitlines()
        if line.startswith(b"cluster.id=")
    )
    tool = [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", properties]
    files = {name: body for name, body in spec.files.items() if not name.startswith("data/")}
    script = f"{shlex.join(tool)} && exec {shlex.join(spec.argv)}"
    return replace(spec, argv=["sh", "-c", script], files=files)


def ratio(plan: KafkaPlan, rounds: int) -> float:
    """Take turns, print both; the median of their ratios."""
    ratios = []
    for number in range(rounds):
        a, b = measure(ours, plan), measure(plain, plan)
        ratios.append(a.ready_s / b.ready_s)
        print(
            f"{plan.target.version}, round {number + 1}: "
            f"ours {a.ready_s:.1f} s (containers {a.containers_s:.1f}), "
            f"plain {b.ready_s:.1f} s (containers {b.containers_s:.1f}), ratio {ratios[-1]:.2f}",
            flush=True,
        )
    return statistics.median(ratios)


def main() -> int:
    """Print the ratios and whether the bars are met."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    missed = 0
    for plan, bar in BARS:
        median = ratio(plan, rounds)
        missed += median > bar
        print(
            f"start-up of {plan.target.version}, {plan.target.brokers} brokers: "
            f"median ratio {median:.2f}, bar {bar}: {'met' if median <= bar else 'MISSED'}"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
