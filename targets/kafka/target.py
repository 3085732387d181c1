"""The plug-in: Kafka as a system under test."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from harness.errors import Mistakes, PlanError
from harness.levers.protocol import ProtocolLever
from harness.models import GROUP, LOG, TRANSACTION
from harness.plan.model import OwnKey
from harness.protocols import (
    CLIENT_ROLE,
    Access,
    Client,
    Cluster,
    End,
    HasLeaders,
    HasLogs,
    HasVocabulary,
    Lever,
    Limited,
    Node,
    NodeView,
    Promises,
    Range,
    ReadsRanges,
    Reusable,
    RunCluster,
    RunsElsewhere,
    Unsupported,
    Vocabulary,
    Warns,
)
from harness.protocols.any_client import EXEC, JSON, HasLibraries, ServesAnyClient
from harness.protocols.groups import Consumers, GroupSettings, HasConsumers, Record
from harness.protocols.pages import DescribesRuns, HasLogLines, LogLines
from harness.protocols.tools import ListsSettings, SettingHelp, TakesSettingsFiles
from harness.run.cells import group_of, transactions_of
from targets.kafka import (
    brokers,
    cells,
    definitions,
    effective,
    own_settings,
    pages,
    promises,
    reading,
    reuse,
    support,
    timeouts,
)
from targets.kafka.clients import LIBRARIES, any_client, library_of
from targets.kafka.clients.library import READERS
from targets.kafka.configuration import LOGS, check_settings
from targets.kafka.definitions import PLACES, canonical
from targets.kafka.external import KafkaGuest
from targets.kafka.groups import offsets
from targets.kafka.groups.group import KafkaConsumers
from targets.kafka.groups.settings import check_group
from targets.kafka.levers import requests
from targets.kafka.levers.leadership import LeadershipLever
from targets.kafka.levers.own import own_levers
from targets.kafka.modes import mode_of
from targets.kafka.nodes import KafkaNodes
from targets.kafka.plan import STARTERS, KafkaPlan
from targets.kafka.storage import check_flushes
from targets.kafka.transactions.client import transaction_client
from targets.kafka.transactions.settings import check_transactions
from targets.kafka.transactions.topics import topic_plans
from targets.kafka.versions import release_line_of
from targets.kafka.vocabulary import VOCABULARY


@dataclass(frozen=True)
class Kafka(
    KafkaNodes,
    RunsElsewhere,
    HasLeaders[KafkaPlan],
    HasVocabulary,
    HasLogs,
    HasLogLines,
    DescribesRuns,
    TakesSettingsFiles[KafkaPlan],
    ListsSettings,
    HasLibraries,
    ServesAnyClient[KafkaPlan],
    Limited[KafkaPlan],
    Warns[KafkaPlan],
    ReadsRanges[KafkaPlan],
    Reusable[KafkaPlan],
    HasConsumers[KafkaPlan],
):
    """Apache Kafka, 0.8.0 to 4.x: brokers b1 ..., and controllers c1 ... or ZooKeeper servers
    z1 ... ."""

    plugin: ClassVar[str] = "kafka"
    plan: ClassVar[type[KafkaPlan]] = KafkaPlan
    starters: ClassVar[Mapping[str, str]] = STARTERS
    models: ClassVar[frozenset[str]] = frozenset({LOG.name, GROUP.name, TRANSACTION.name})
    default: ClassVar[bool] = True
    """Plans that name no system mean this one, as before."""
    libraries: ClassVar[tuple[str, ...]] = tuple(name for name in LIBRARIES if name != EXEC)
    settings_files: ClassVar[Mapping[str, str]] = own_settings.FILES
    settings_places: ClassVar[Mapping[str, str]] = {
        **{str(level): table for level, table in PLACES.items()}
    }
    own_levers: ClassVar[frozenset[str]] = frozenset({LeadershipLever.name, ProtocolLever.name})

    def check(self, plan: KafkaPlan) -> None:
        """Refuse settings that a plan may not touch, and unsupported versions."""
        mistakes = Mistakes()
        with mistakes.noted():
            check_settings(plan.target.settings, where="target.settings")
        with mistakes.noted():
            check_settings(plan.topic.settings, where="topic.settings", level="topic")
        with mistakes.noted():
            library = library_of(plan)
            (library.check if transactions_of(plan) is None else check_transactions)(plan)
        with mistakes.noted():
            if plan.target.version is None and plan.target.image is None:
                hint = 'such as version = "4.4.0"'
                raise PlanError("is missing", key="target.version", hint=hint)
            release_line_of(plan)
            for check in (requests.check, check_flushes, check_group):
                with mistakes.noted():
                    check(plan)
        mistakes.refuse()

    def unsupported(self, plan: KafkaPlan) -> list[Unsupported]:
        """What the plan requests and its version does not honour."""
        return support.unsupported(plan)

    def warnings(self, plan: KafkaPlan) -> list[str]:
        """About a load that no number of waiting processes could keep up."""
        load = plan.workload
        needed = load.rate_per_s * (blocked_s := plan.blocked_s or 0)
        transactional = transactions_of(plan) is not None  # late ones wait: none is worth a thread
        if not load.rate_per_s or load.processes >= needed or transactional:
            return []
        return [
            f"workload.processes: {load.processes} processes cannot keep {load.rate_per_s:g} "
            f"operations a second while every write waits for its delivery time-out "
            f"({blocked_s:g} s): {needed:.0f} would"
        ]

    def vocabulary(self) -> Vocabulary:
        """See `targets.kafka.vocabulary`."""
        return VOCABULARY

    def own_keys(self, plan: KafkaPlan, option: str, file: Path) -> list[OwnKey]:
        """See `targets.kafka.own_settings`."""
        return own_settings.own_keys(plan, option, file)

    def same_key(self, plan: KafkaPlan, parts: tuple[str, ...]) -> tuple[str, ...]:
        """Settings of clients have several names."""
        for level, place in PLACES.items():
            if len(parts) == 3 and ".".join(parts[:2]) == place and place.startswith("workload"):
                return (*parts[:2], canonical(parts[2], level=level))
        return parts

    def real_timeouts(self, plan: KafkaPlan) -> list[OwnKey]:
        """See `targets.kafka.timeouts`."""
        return timeouts.real_timeouts(plan)

    def reacts_within_s(self, plan: KafkaPlan) -> float:
        """See `targets.kafka.timeouts`."""
        return timeouts.reacts_within_s(plan)

    def listed_settings(self) -> Sequence[SettingHelp]:
        """See `targets.kafka.definitions`."""
        return definitions.listed()

    def log_lines(self) -> LogLines:
        """Lines about elections, the ISR and truncation."""
        return pages.LOG_LINES

    def size(self, plan: Mapping[str, Any]) -> list[str]:
        """See `targets.kafka.pages`."""
        return pages.size(plan)

    def stored_request(self, plan: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """See `targets.kafka.pages`."""
        return pages.stored_request(plan)

    def decisive(self) -> Sequence[tuple[str, str]]:
        """See `targets.kafka.pages`."""
        return pages.DECISIVE

    def why_no_crashes(self, plan: KafkaPlan) -> str | None:
        """See `KnowsCrashes`: clients in their own nodes are killed as nodes."""
        if transactions_of(plan) is not None:
            return "producers of transactions cannot crash one by one"
        if not (nodes := library_of(plan).names(plan)):
            return None
        return f"clients in their own nodes ({', '.join(nodes)}) are killed as nodes are"

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
        return effective.effective(cluster, plan)

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

    def levers(self, cluster: Cluster, plan: KafkaPlan) -> Mapping[str, Lever[Any]]:
        """The lever that moves leaders, the one that meets requests; and the cluster's lever of
        disks, which learns how Kafka stores."""
        return own_levers(cluster, plan)

    def cluster_key(self, plan: KafkaPlan) -> str | None:
        """Equal for plans whose targets are equal; null if a cluster serves one run."""
        return reuse.cluster_key(plan, self.in_nodes(plan))

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
