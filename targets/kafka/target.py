"""The plug-in: Kafka as a system under test."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from harness.errors import PlanError
from harness.leadership import Leadership
from harness.plan import Plan
from harness.protocols import (
    CLIENT_ROLE,
    NODE_DATA,
    Client,
    Cluster,
    End,
    Ingredients,
    Node,
    NodeSpec,
    NodeView,
)
from targets.kafka import admin, images, reading, reuse
from targets.kafka.clients import library_of
from targets.kafka.clients.library import readers
from targets.kafka.clients.nodes import (
    client_files,
    client_names,
    client_nodes,
    producers_settings,
)
from targets.kafka.configuration import (
    check_settings,
    formatted,
    new_cluster_id,
    node_ids,
    node_roles,
    rack_of,
    server_properties,
)
from targets.kafka.eras import DEFAULT_VERSION, Era, era_of
from targets.kafka.leadership import KafkaLeadership

_CHECKPOINT = "bootstrap.checkpoint"
_LOGS = "log"


@dataclass(frozen=True)
class Kafka:
    """Apache Kafka in KRaft mode, 3.9 and 4.x: brokers b1 ..., controllers c1 ...."""

    plugin: ClassVar[str] = "kafka"

    def check(self, plan: Plan) -> None:
        """Refuse settings that a plan may not touch, and versions of no known era."""
        check_settings(plan.target.settings, where="target.settings")
        library_of(plan).check(plan)
        if plan.target.version is not None:
            era_of(plan.target.version)
        elif plan.target.image is None:
            raise PlanError("is missing", key="target.version", hint='such as version = "4.3.1"')

    def names(self, plan: Plan) -> list[str]:
        """b1 ... for brokers, then c1 ... for controllers of their own, then those of clients."""
        return [*node_ids(plan), *client_names(plan)]

    def prepare(self, plan: Plan, say: Callable[[str], None]) -> Ingredients:
        """The image, a class-data archive for it, and a formatted bootstrap checkpoint."""
        image = images.resolve(plan.target, say)
        archive = images.archive(image, say)
        return Ingredients(
            image=image,
            files={
                _CHECKPOINT: images.bootstrap_checkpoint(image, plan.target.features),
                **client_files(plan, image, say),
            },
            mounts={archive: images.ARCHIVE_INSIDE} if archive else {},
        )

    def nodes(
        self, plan: Plan, ingredients: Ingredients, addresses: Mapping[str, str]
    ) -> list[NodeSpec]:
        """Every node with its files: configured, and formatted without starting a JVM."""
        era, cluster_id = _era(plan, ingredients), new_cluster_id()
        archive = next(iter(ingredients.mounts.values()), None)
        argv = era.process(
            era.broker_class,
            config=f"{NODE_DATA}/server.properties",
            log_config=f"{NODE_DATA}/{era.log_file}",
            log_folder=f"{NODE_DATA}/{_LOGS}",
            heap_mb=plan.target.memory_mb // 2,
            archive=archive,
        )
        checkpoint = ingredients.files.get(_CHECKPOINT, b"")
        servers = [
            NodeSpec(
                name=name,
                roles=node_roles(name, plan)
                | ({f"rack:{rack}"} if (rack := rack_of(name, plan)) else set()),
                argv=argv,
                files={
                    "server.properties": server_properties(name, plan, addresses),
                    era.log_file: era.log_config.encode(),
                    f"{_LOGS}/server.log": b"",
                    **formatted(name, plan, cluster_id, checkpoint),
                },
                mounts=ingredients.mounts,
                memory_mb=plan.target.memory_mb,
            )
            for name in node_ids(plan)
        ]
        return servers + client_nodes(plan, era, ingredients)

    def bring_up(self, cluster: Cluster, plan: Plan, *, timeout_s: float) -> None:
        """Every broker knows every broker, the topic is there, its ISR is whole."""
        deadline = time.monotonic() + timeout_s
        admin.await_brokers(cluster, plan, deadline)
        admin.create_topic(cluster, plan, deadline)
        admin.await_whole(cluster, plan, deadline)

    def effective(self, cluster: Cluster, plan: Plan) -> dict[str, Any]:
        """Settings of brokers, topic and producer, and finalized features, as they are."""
        told = admin.effective(cluster, plan)
        told["settings"]["producer"] = producers_settings(plan, cluster)
        return told

    def client(self, cluster: Cluster, plan: Plan) -> Client:
        """Producers of the plan's library, shared by the processes of the workload."""
        return library_of(plan).client(cluster, plan)

    def writer(self, plan: Plan) -> str:
        """The plan's client library and its version."""
        return library_of(plan).software(plan)

    def readers(self, plan: Plan) -> tuple[str, str]:
        """First a library that does not write, then the second opinion."""
        return readers(library_of(plan).package)

    def read_all(
        self, cluster: Cluster, plan: Plan, *, reader: str, timeout_s: float
    ) -> tuple[pa.Table, list[End]]:
        """See `harness.protocols.Target.read_all`."""
        return reading.read_all(cluster, plan, reader=reader, timeout_s=timeout_s)

    def observe(self, node: Node, plan: Plan, *, timeout_s: float) -> NodeView | None:
        """A node's own view of leaders and in-sync replicas, or of the active controller; a
        client's node has none."""
        if CLIENT_ROLE in node.roles:
            return None
        return admin.observe(node, plan, timeout_s=timeout_s)

    def leadership(self, nodes: Mapping[str, Node], plan: Plan) -> Leadership:
        """The leaders of the plan's topic, to be moved on request."""
        return KafkaLeadership(nodes, plan)

    def cluster_key(self, plan: Plan) -> str:
        """Equal for plans whose targets are equal."""
        return reuse.cluster_key(plan)

    def fresh(self, plan: Plan, number: int) -> Plan:
        """The plan with a topic of its own."""
        return reuse.fresh(plan, number)

    def forget(self, cluster: Cluster, plan: Plan) -> None:
        """Delete the run's topic, empty the log files."""
        reuse.forget(cluster, plan, logs=_LOGS)

    def logs(self, node: Node) -> dict[str, bytes]:
        """server.log, which tells elections and changes of the ISR."""
        return node.get(_LOGS)


def _era(plan: Plan, ingredients: Ingredients) -> Era:
    return era_of(ingredients.image.version or plan.target.version or DEFAULT_VERSION)
