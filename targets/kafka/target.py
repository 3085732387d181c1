"""The plug-in: Kafka as a system under test."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from harness.errors import PlanError
from harness.faults.own_traffic import NoAnswer
from harness.levers.disk import DiskLever
from harness.levers.protocol import ProtocolLever
from harness.models import GROUP, LOG, TRANSACTION
from harness.protocols import (
    CLIENT_ROLE,
    Access,
    Client,
    Cluster,
    End,
    HasLeaders,
    HasLogs,
    HasVocabulary,
    HoldsCells,
    Ingredients,
    Lever,
    Limited,
    Node,
    NodeSpec,
    NodeView,
    Promises,
    Range,
    ReadsRanges,
    Reusable,
    RunCluster,
    RunsElsewhere,
    RunsInContainers,
    RunsOnHosts,
    Target,
    Unsupported,
    Vocabulary,
    Warns,
)
from harness.protocols.any_client import EXEC, JSON, HasLibraries, ServesAnyClient
from harness.protocols.groups import Consumers, GroupSettings, HasConsumers, Record
from harness.protocols.pages import DescribesRuns, HasLogLines, LogLines
from harness.protocols.tools import MadeBeforehand, TakesSettingsFiles, UsesPackages
from harness.run.cells import cell_plans
from harness.run.workload import group_of, transactions_of
from targets.kafka import (
    brokers,
    cells,
    own_settings,
    pages,
    promises,
    reading,
    reuse,
    settings,
    support,
)
from targets.kafka.clients import LIBRARIES, any_client, library_of
from targets.kafka.clients.library import READERS
from targets.kafka.clients.nodes import (
    client_files,
    client_names,
    client_nodes,
    producers_settings,
)
from targets.kafka.configuration import LOGS, check_settings, node_ids
from targets.kafka.eras import DEFAULT_VERSION, JAR_FOLDER, era_for, era_of
from targets.kafka.external import KafkaGuest
from targets.kafka.groups import offsets
from targets.kafka.groups.group import KafkaConsumers
from targets.kafka.groups.java import nodes as members
from targets.kafka.groups.settings import check_group, consumer_settings
from targets.kafka.levers import requests
from targets.kafka.levers.dry_run import DryRunLeadership
from targets.kafka.levers.leadership import LeadershipLever
from targets.kafka.levers.proxies import proxy_files, with_proxies
from targets.kafka.levers.topic_ids import topic_ids
from targets.kafka.modes import mode_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.storage import KafkaStorage
from targets.kafka.transactions.client import reported_settings, transaction_client
from targets.kafka.transactions.settings import check_transactions
from targets.kafka.transactions.topics import topic_plans
from targets.kafka.vocabulary import VOCABULARY


@dataclass(frozen=True)
class Kafka(
    Target[KafkaPlan],
    RunsInContainers[KafkaPlan],
    RunsOnHosts[KafkaPlan],
    RunsElsewhere,
    HasLeaders[KafkaPlan],
    HasVocabulary,
    HasLogs,
    HasLogLines,
    DescribesRuns,
    TakesSettingsFiles[KafkaPlan],
    MadeBeforehand,
    UsesPackages,
    HasLibraries,
    ServesAnyClient[KafkaPlan],
    Limited[KafkaPlan],
    Warns[KafkaPlan],
    ReadsRanges[KafkaPlan],
    Reusable[KafkaPlan],
    HoldsCells[KafkaPlan],
    HasConsumers[KafkaPlan],
):
    """Apache Kafka, 0.8.0 to 4.x: brokers b1 ..., and controllers c1 ... or ZooKeeper servers
    z1 ... ."""

    plugin: ClassVar[str] = "kafka"
    plan: ClassVar[type[KafkaPlan]] = KafkaPlan
    models: ClassVar[frozenset[str]] = frozenset({LOG.name, GROUP.name, TRANSACTION.name})
    default: ClassVar[bool] = True
    """Plans that name no system mean this one, as before."""
    default_version: ClassVar[str] = DEFAULT_VERSION
    packages: ClassVar[tuple[str, ...]] = ("confluent-kafka", "kafka-python")
    libraries: ClassVar[tuple[str, ...]] = tuple(name for name in LIBRARIES if name != EXEC)
    settings_files: ClassVar[Mapping[str, str]] = own_settings.FILES
    cell_keys: ClassVar[tuple[str, ...]] = cells.KEYS
    own_levers: ClassVar[frozenset[str]] = frozenset({LeadershipLever.name, ProtocolLever.name})

    def check(self, plan: KafkaPlan) -> None:
        """Refuse settings that a plan may not touch, and unsupported versions."""
        check_settings(plan.target.settings, where="target.settings")
        library = library_of(plan)
        (library.check if transactions_of(plan) is None else check_transactions)(plan)
        if plan.target.version is None and plan.target.image is None:
            raise PlanError("is missing", key="target.version", hint='such as version = "4.3.1"')
        era_for(plan)
        requests.check(plan)
        check_group(plan)

    def unsupported(self, plan: KafkaPlan) -> list[Unsupported]:
        """What the plan requests and its version does not honour."""
        return support.unsupported(plan)

    def warnings(self, plan: KafkaPlan) -> list[str]:
        """About a load that no number of waiting processes could keep up."""
        load = plan.workload
        timeout_ms = load.producer.get("message.timeout.ms", 8000)
        needed = load.rate_per_s * float(timeout_ms) / 1000
        transactional = transactions_of(plan) is not None  # late ones wait: none is worth a thread
        if not load.rate_per_s or load.processes >= needed or transactional:
            return []
        return [
            f"workload.processes: {load.processes} processes cannot keep {load.rate_per_s:g} "
            f"operations a second through a stall of message.timeout.ms ({timeout_ms} ms): "
            f"{needed:.0f} would"
        ]

    def vocabulary(self) -> Vocabulary:
        """See `targets.kafka.vocabulary`."""
        return VOCABULARY

    def with_settings_files(
        self,
        document: Mapping[str, object],
        plan: KafkaPlan,
        files: Mapping[str, Path],
        say: Callable[[str], None],
    ) -> dict[str, object]:
        """See `targets.kafka.own_settings`."""
        return own_settings.with_files(document, plan, files, say)

    def check_version(self, version: str, *, key: str) -> None:
        """Refuse unsupported versions."""
        era_of(version, key=key)

    def prepare_version(self, version: str, say: Callable[[str], None]) -> None:
        """The image, and its class-data archive."""
        from targets.kafka import images  # imports Docker's client

        images.prepare(version, say)

    def made(self, version: str) -> dict[str, bool]:
        """The image, and its class-data archive."""
        from targets.kafka import images  # imports Docker's client

        image, archive = images.prepared(version)
        return {
            f"image of Kafka {version}": image is not None,
            f"class-data archive of Kafka {version}": archive is not None,
        }

    def log_lines(self) -> LogLines:
        """Lines about elections, the ISR and truncation."""
        return pages.LOG_LINES

    def size(self, plan: Mapping[str, Any]) -> list[str]:
        """See `targets.kafka.pages`."""
        return pages.size(plan)

    def stored_request(self, plan: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """See `targets.kafka.pages`."""
        return pages.stored_request(plan)

    def why_no_crashes(self, plan: KafkaPlan) -> str | None:
        """See `KnowsCrashes`: clients in their own nodes are killed as nodes."""
        if transactions_of(plan) is not None:
            return "producers of transactions cannot crash one by one"
        if not (nodes := client_names(plan)):
            return None
        return f"clients in nodes of their own ({', '.join(nodes)}) are killed as nodes are"

    def names(self, plan: KafkaPlan) -> list[str]:
        """b1 ... for brokers, then who keeps the metadata, then nodes of clients."""
        return [*node_ids(plan), *self._in_nodes(plan)]

    def _groups(self, plan: KafkaPlan) -> list[KafkaPlan]:
        """The plans of its groups: each cell's, or its own."""
        return [cell.plan for cell in cell_plans(plan, self)] or [plan]  # type: ignore[misc]

    def _in_nodes(self, plan: KafkaPlan) -> list[str]:
        """The nodes of clients and of consumers."""
        consumers = [name for each in self._groups(plan) for name in members.names(each)]
        return [*client_names(plan), *consumers]

    def prepare(self, plan: KafkaPlan, say: Callable[[str], None]) -> Ingredients:
        """The image, and what else the plan's mode and its clients need."""
        from targets.kafka import images  # imports Docker's client

        plan, image = support.sent(plan), images.resolve(plan.target, say)
        made = mode_of(plan).ingredients(plan, image, say)
        clients = client_files(plan, image, say)
        if any(members.names(each) for each in self._groups(plan)):
            clients = {**clients, members.JAR: members.jar(image, say)}
        return replace(made, files={**made.files, **clients, **proxy_files(plan, image, say)})

    def for_hosts(self, plan: KafkaPlan, say: Callable[[str], None]) -> Ingredients:
        """The jars, and what else the plan's mode needs."""
        from targets.kafka import jars

        if nodes := self._in_nodes(plan):
            key = "client" if client_names(plan) else "consumer_client"
            raise PlanError(
                f"clients in nodes of their own ({', '.join(nodes)}) run in containers only",
                key=f"workload.{key}",
                hint="choose another client",
            )
        plan = support.sent(plan)
        image, folder = jars.resolve(plan, say)
        made = mode_of(plan).ingredients(plan, image, say)
        return replace(
            made,
            files={**made.files, **proxy_files(plan, image, say)},
            folders={folder: JAR_FOLDER},
            programs=jars.PROGRAMS,
            distribution=jars.INSTALLED,
        )

    def nodes(
        self, plan: KafkaPlan, ingredients: Ingredients, addresses: Mapping[str, str]
    ) -> list[NodeSpec]:
        """Every node with its files."""
        servers = mode_of(plan).specs(support.sent(plan), ingredients, addresses)
        servers = with_proxies(servers, plan, ingredients, addresses)
        era = era_for(plan)
        consumers = [
            spec for each in self._groups(plan) for spec in members.specs(each, era, ingredients)
        ]
        return servers + client_nodes(plan, era, ingredients) + consumers

    def reached_by(self, access: Access) -> KafkaGuest:
        """Kafka that ackloss did not start."""
        return KafkaGuest.reached_by(access)

    def bring_up(self, cluster: Cluster, plan: KafkaPlan, *, timeout_s: float) -> None:
        """Every broker has joined, the topics exist, and their ISRs are complete."""
        deadline, mode = time.monotonic() + timeout_s, mode_of(plan)
        mode.await_brokers(cluster, plan, deadline)
        for each in topic_plans(plan):
            mode.create_topic(cluster, support.sent(each), deadline)
            brokers.await_whole(cluster, each, self.observe, deadline)

    def effective(self, cluster: Cluster, plan: KafkaPlan) -> dict[str, Any]:
        """Settings of brokers, topic and producer, and finalized features, as they are."""
        try:
            told = settings.effective(cluster, support.comparable(plan))
            features = mode_of(plan).features(cluster)
        except NoAnswer as error:
            raise TimeoutError(f"its settings were not reported: {error}") from error
        warnings = support.unheeded(plan, told) + settings.untold(cluster, plan)
        told["producer"] = (
            producers_settings(plan, cluster)
            if transactions_of(plan) is None
            else reported_settings(cluster, plan)
        )
        if (group := group_of(plan)) is not None:
            told["consumer"] = consumer_settings(plan, group)
        for feature, level in support.comparable(plan).target.features.items():
            if features.get(feature, 0) != level:
                raise PlanError(
                    f"the cluster has level {features.get(feature, 0)}, requested was {level}",
                    key=f'target.features."{feature}"',
                )
        return {"settings": told, "features": features, "warnings": warnings}

    def requested(self, plan: KafkaPlan) -> dict[str, Any]:
        """Settings of brokers, topic and producer, and feature levels, as the plan has them."""
        settings = {
            "broker": plan.target.settings,
            "topic": plan.topic.settings,
            "producer": plan.workload.producer,
            **({"consumer": plan.workload.consumer} if group_of(plan) is not None else {}),
        }
        return {"settings": settings, "features": plan.target.features}

    def promises(self, plan: Mapping[str, Any], effective: Mapping[str, Any]) -> Promises:
        """See `targets.kafka.promises`."""
        producer = effective.get("producer") or plan["workload"]["producer"]
        return promises.promises(plan, producer)

    def client(self, cluster: Cluster, plan: KafkaPlan) -> Client:
        """Producers of the plan's library, shared by the processes of the workload; each process
        has its own transactional producer."""
        if transactions_of(plan) is not None:
            return transaction_client(cluster, plan)
        return library_of(plan).client(cluster, plan)

    def consumers(
        self, cluster: RunCluster, plan: KafkaPlan, group: GroupSettings, record: Record
    ) -> Consumers:
        """See `targets.kafka.groups`."""
        return KafkaConsumers(cluster, plan, group, record)

    def connection(self, cluster: Cluster, plan: KafkaPlan, number: int) -> Mapping[str, JSON]:
        """See `targets.kafka.clients.any_client`."""
        return any_client.connection(cluster, plan, number)

    def answers_within_s(self, plan: KafkaPlan) -> float:
        """See `targets.kafka.clients.any_client`."""
        return any_client.answers_within_s(plan)

    def writer(self, plan: KafkaPlan) -> str:
        """The plan's client library and its version."""
        return library_of(plan).software(plan)

    def readers(self, plan: KafkaPlan) -> tuple[str, str]:
        """First our own reader, which never writes, then a library as the second opinion."""
        return READERS

    def read_all(
        self, cluster: Cluster, plan: KafkaPlan, *, reader: str, timeout_s: float
    ) -> tuple[pa.Table, list[End]]:
        """See `harness.protocols.Target.read_all`."""
        return reading.read_all(cluster, plan, reader=reader, timeout_s=timeout_s)

    def read_ranges(
        self,
        cluster: Cluster,
        plan: KafkaPlan,
        *,
        reader: str,
        ranges: Mapping[int, Sequence[Range]],
        timeout_s: float,
    ) -> tuple[pa.Table, list[End]]:
        """See `harness.protocols.ReadsRanges`."""
        return reading.read_ranges(cluster, plan, ranges, timeout_s=timeout_s)

    def observe(self, node: Node, plan: KafkaPlan, *, timeout_s: float) -> NodeView | None:
        """A node's own view of leaders and in-sync replicas, or of the active controller; a
        client's node has none."""
        if CLIENT_ROLE in node.roles:
            return None
        (view,) = self._observe_each(node, [plan], timeout_s)
        return view

    def levers(
        self, cluster: Cluster, plan: KafkaPlan, *, say: Callable[[str], None] | None = None
    ) -> Mapping[str, Lever[Any]]:
        """The lever that moves leaders, the one that meets requests; and the cluster's lever of
        disks, which learns how Kafka stores."""
        leadership = mode_of(plan).leadership(cluster.nodes, plan)
        if say is not None:
            names = [name for name, node in cluster.nodes.items() if CLIENT_ROLE not in node.roles]
            leadership = DryRunLeadership(plan, names, say)
        found: dict[str, Lever[Any]] = {
            LeadershipLever.name: LeadershipLever(leadership, cluster.nodes)
        }
        ids = partial(topic_ids, cluster.nodes) if say is None else requests.no_ids
        found[ProtocolLever.name] = ProtocolLever(cluster.nodes, requests.requests(ids))
        if isinstance(disk := cluster.levers.get(DiskLever.name), DiskLever):
            found[DiskLever.name] = replace(disk, storage=KafkaStorage())
        return found

    def cluster_key(self, plan: KafkaPlan) -> str | None:
        """Equal for plans whose targets are equal; null if a cluster serves one run."""
        return reuse.cluster_key(plan, self._in_nodes(plan))

    def fresh(self, plan: KafkaPlan, number: int) -> KafkaPlan:
        """The plan with its own topic."""
        return reuse.fresh(plan, number)

    def forget(self, cluster: Cluster, plans: Sequence[KafkaPlan]) -> None:
        """Delete the run's topics, empty the log files."""
        reuse.forget(cluster, plans)

    def of_cell(self, plan: KafkaPlan, name: str, number: int) -> KafkaPlan:
        """See `targets.kafka.cells`."""
        return cells.of_cell(plan, name, number)

    def observe_cells(
        self, node: Node, plans: Sequence[KafkaPlan], *, timeout_s: float
    ) -> list[NodeView | None]:
        """A node's own view of the topic of each plan, as `observe` has that of one."""
        return self._observe_each(node, plans, timeout_s)

    def _observe_each(
        self, node: Node, plans: Sequence[KafkaPlan], timeout_s: float
    ) -> list[NodeView | None]:
        """A node's own view of the topics, and with groups of who coordinates each of them."""
        mode = mode_of(plans[0])
        if promises.model_of(plans[0].workload.name) != GROUP.name:
            return mode.observe_each(node, plans, timeout_s=timeout_s)
        *views, kept = mode.observe_each(
            node, [*plans, offsets.offsets_plan(plans[0])], timeout_s=timeout_s
        )
        return [
            replace(view, coordination=offsets.coordination(plan, kept.partitions))
            if view is not None and kept is not None
            else view
            for plan, view in zip(plans, views, strict=True)
        ]

    def logs(self, node: Node) -> dict[str, bytes]:
        """server.log, which has elections and changes of the ISR."""
        return node.get(LOGS)
