"""The plug-in: Kafka as a system under test, one cluster for many runs: each on its own topic,
removed when the run is over.

A cluster on which a replica fetcher has died serves no further run: that broker no longer
replicates what one of the others leads (Kafka 1.1.1 after an unclean election, `Error processing
data for partition ... Out of order offsets`; from 2.3 on a thread outlives it, KIP-461).

Some clusters serve one run: those of brokers before 0.11, which report their settings only in the
log of their start, emptied after a run (and 0.8.0 and 0.8.1 cannot delete topics); those whose plan
turns deletion off; with KRaft those whose brokers are the controllers, too, as the quorum's leader
would be one that no fault has hit; and with ZooKeeper those of groups and transactions: a replica
of Kafka's own topics, which stay, may remain out of sync there (KAFKA-2729, before 1.1).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Final

import orjson

from harness.errors import HarnessFailure, PlanError
from harness.history.run_folder import RunDir
from harness.levers.protocol import ProtocolLever
from harness.levers.proxied import proxied
from harness.models import GROUP, LOG, TRANSACTION
from harness.plan.model import OwnKey
from harness.protocols import (
    CLIENT_ROLE,
    NODE_DATA,
    Access,
    Client,
    Cluster,
    ImageRef,
    Ingredients,
    Lever,
    Node,
    NodeSpec,
    NodeView,
    RunCluster,
    Unsupported,
    with_role,
)
from harness.protocols.checkers import counted
from harness.protocols.clock import RunClock
from harness.protocols.groups import Consumers, GroupSettings, Record
from harness.protocols.systems import EXEC, BallastChanges, LogLines, SettingHelp
from harness.run.cells import cell_plans, transactions_of
from harness.servers import setting_text
from targets.kafka import (
    ballast,
    brokers,
    definitions,
    effective,
    levers,
    limits,
    own_settings,
    proxy,
    reading,
    removed,
)
from targets.kafka.clients import LIBRARIES, library_of
from targets.kafka.clients.library import bootstrap
from targets.kafka.configuration import LOGS, METRICS, OFFSETS_TOPIC, node_ids
from targets.kafka.definitions import PLACES, canonical
from targets.kafka.external import KafkaGuest
from targets.kafka.groups import group
from targets.kafka.groups.group import KafkaConsumers
from targets.kafka.groups.settings import (
    MEMBER_JAR,
    check_group,
    member_jar,
    member_specs,
    node_names,
)
from targets.kafka.jars import agent_files
from targets.kafka.kraft import with_quorum
from targets.kafka.levers import (
    FeaturesLever,
    LeadershipLever,
    MembersLever,
    check_flushes,
    check_members,
    own_levers,
)
from targets.kafka.log import KafkaLog
from targets.kafka.migration import StageLever
from targets.kafka.modes import mode_of, observe
from targets.kafka.plan import STARTERS, KafkaPlan
from targets.kafka.proxy import proxy_files, with_proxies
from targets.kafka.transactions.client import transaction_client
from targets.kafka.transactions.settings import check_transactions, topic_plans
from targets.kafka.versions import (
    DEFAULT_VERSION,
    JAR_FOLDER,
    KRAFT,
    metadata_of,
    release_line,
    release_line_of,
    reports_settings,
)

LOG_LINES: Final = LogLines.read(files("targets.kafka").joinpath("log_lines.toml"))


@dataclass(frozen=True)
class Kafka(KafkaLog):
    """Apache Kafka, 0.8.0 to 4.x: brokers b1 ..., and controllers c1 ... or ZooKeeper servers
    z1 ... ."""

    plugin: ClassVar[str] = "kafka"
    starters: ClassVar[Mapping[str, str]] = STARTERS
    models: ClassVar[frozenset[str]] = frozenset(
        {LOG.name, GROUP.name, TRANSACTION.name, *definitions.OF_METADATA}
    )
    default: ClassVar[bool] = True
    default_version: ClassVar[str] = DEFAULT_VERSION
    packages: ClassVar[tuple[str, ...]] = ("confluent-kafka", "kafka-python")
    libraries: ClassVar[tuple[str, ...]] = tuple(name for name in LIBRARIES if name != EXEC)
    settings_files: ClassVar[Mapping[str, str]] = own_settings.FILES
    settings_places: ClassVar[Mapping[str, str]] = dict(PLACES.items())
    sampler: ClassVar[str] = METRICS
    alarms: ClassVar[Path | None] = Path(__file__).parent / "alarms.toml"
    own_levers: ClassVar[frozenset[str]] = frozenset(
        {
            LeadershipLever.name,
            MembersLever.name,
            ProtocolLever.name,
            FeaturesLever.name,
            StageLever.name,
        }
    )
    cell_keys: ClassVar[tuple[str, ...]] = (
        "topic.partitions",
        "topic.replication_factor",
        "topic.leaders",
        "topic.first_leader",
        "topic.settings",
        "workload.producer",
        "workload.consumer",
        "workload.consumer_client",
        "workload.options",
        "workload.clients",
        "workload.bootstrap",
    )

    # --- what a plan may ask

    def checks(self, plan: KafkaPlan) -> Sequence[Callable[[KafkaPlan], None]]:
        clients = library_of(plan).check if transactions_of(plan) is None else check_transactions
        return [clients, _check_version, proxy.check, check_flushes, check_group, check_members]

    def check_version(self, version: str, *, key: str) -> None:
        release_line(version, key=key)

    def unsupported(self, plan: KafkaPlan) -> list[Unsupported]:
        return limits.unsupported(plan)

    def warnings(self, plan: KafkaPlan) -> list[str]:
        """About a load that no number of waiting processes could keep up."""
        load = plan.workload
        if definitions.model_of(load.name) in definitions.OF_METADATA:
            return []
        needed = load.rate_per_s * (blocked_s := plan.blocked_s or 0)
        transactional = transactions_of(plan) is not None  # late ones wait: none is worth a thread
        if not load.rate_per_s or load.processes >= needed or transactional:
            return []
        return [
            f"workload.processes: {load.processes} processes cannot keep {load.rate_per_s:g} "
            f"operations a second while every write waits for its delivery time-out "
            f"({blocked_s:g} s): {needed:.0f} would"
        ]

    def own_keys(self, plan: KafkaPlan, option: str, file: Path) -> list[OwnKey]:
        return own_settings.own_keys(plan, option, file)

    def same_key(self, plan: KafkaPlan, parts: tuple[str, ...]) -> tuple[str, ...]:
        for level, place in PLACES.items():
            if len(parts) == 3 and ".".join(parts[:2]) == place and place.startswith("workload"):
                return (*parts[:2], canonical(parts[2], level=level))
        return parts

    def real_timeouts(self, plan: KafkaPlan) -> list[OwnKey]:
        return effective.real_timeouts(plan)

    def reacts_within_s(self, plan: KafkaPlan) -> float:
        return effective.reacts_within_s(plan)

    def listed_settings(self) -> Sequence[SettingHelp]:
        return definitions.listed()

    def why_no_crashes(self, plan: KafkaPlan) -> str | None:
        if transactions_of(plan) is not None:
            return "producers of transactions cannot crash one by one"
        if not (nodes := library_of(plan).names(plan)):
            return None
        return f"clients in their own nodes ({', '.join(nodes)}) are killed as nodes are"

    def of_cell(self, plan: KafkaPlan, name: str, number: int) -> KafkaPlan:
        """With its own topic, and its own producers: requests that wait for one topic's replicas
        delay those of another on the same connection. All topics are first led by the same broker,
        so that a fault of that leader meets every cell; with `topic.leaders = "spread"` each cell
        begins with the next broker. Raises PlanError for clients in nodes, shared by all."""
        if nodes := library_of(plan).names(plan):
            raise PlanError(
                f"clients in their own nodes ({', '.join(nodes)}) would be shared by all cells",
                key="workload.client",
                hint="choose another client, or leave out cells",
            )
        topic = plan.topic
        first, leaders = topic.first_leader or 1, topic.leaders or "one"
        if leaders == "spread":
            first = (first - 1 + number) % plan.target.brokers + 1
        own = {"name": f"{topic.name}-{name}", "leaders": leaders, "first_leader": first}
        return plan.of_cell(name, topic.model_copy(update=own))

    # --- its nodes

    def prepare_version(self, version: str, say: Callable[[str], None]) -> None:
        from targets.kafka import images  # imports Docker's client

        images.prepare(version, say)

    def made(self, version: str) -> dict[str, bool]:
        from targets.kafka import images  # imports Docker's client

        image, archive = images.prepared(version)
        return {
            f"image of Kafka {version}": image is not None,
            f"class-data archive of Kafka {version}": archive is not None,
        }

    def names(self, plan: KafkaPlan) -> list[str]:
        """b1 ... for brokers, then who keeps the metadata, then nodes of clients."""
        return [*node_ids(plan), *self.in_nodes(plan)]

    def _groups(self, plan: KafkaPlan) -> list[KafkaPlan]:
        """The plans of its groups: each cell's, or its own."""
        return [cell.plan for cell in cell_plans(plan, self)] or [plan]  # type: ignore[misc]

    def in_nodes(self, plan: KafkaPlan) -> list[str]:
        consumers = [name for each in self._groups(plan) for name in node_names(each)]
        return [*library_of(plan).names(plan), *consumers]

    def prepare(self, plan: KafkaPlan, say: Callable[[str], None]) -> Ingredients:
        from targets.kafka import images  # imports Docker's client

        plan = limits.sent(plan)
        return self._ingredients(plan, images.resolve(plan.target, say), say)

    def _ingredients(
        self, plan: KafkaPlan, image: ImageRef, say: Callable[[str], None]
    ) -> Ingredients:
        made = mode_of(plan).ingredients(plan, image, say)
        files = {**made.files, **library_of(plan).files(plan, image, say)}
        if any(node_names(each) for each in self._groups(plan)):
            files[MEMBER_JAR] = member_jar(image, say)
        ours = {**proxy_files(plan, image, say), **agent_files(image, say)}
        return replace(made, files={**files, **ours})

    def for_hosts(self, plan: KafkaPlan, say: Callable[[str], None]) -> Ingredients:
        from targets.kafka import jars

        if nodes := self.in_nodes(plan):
            key = "client" if library_of(plan).names(plan) else "consumer_client"
            raise PlanError(
                f"clients in their own nodes ({', '.join(nodes)}) run in containers only",
                key=f"workload.{key}",
                hint="choose another client",
            )
        plan = limits.sent(plan)
        image, folder = jars.resolve(plan, say)
        return replace(
            self._ingredients(plan, image, say),
            folders={folder: JAR_FOLDER},
            programs=jars.PROGRAMS,
            distribution=jars.INSTALLED,
        )

    def nodes(
        self, plan: KafkaPlan, ingredients: Ingredients, addresses: Mapping[str, str]
    ) -> list[NodeSpec]:
        servers = mode_of(plan).specs(limits.sent(plan), ingredients, addresses)
        servers = with_proxies(servers, plan, ingredients, addresses)
        release = release_line_of(plan)
        consumers = [
            spec for each in self._groups(plan) for spec in member_specs(each, release, ingredients)
        ]
        return servers + library_of(plan).nodes(plan, release, ingredients) + consumers

    def reached_by(self, access: Access) -> KafkaGuest:
        return KafkaGuest.reached_by(access)

    # --- its cluster

    def bring_up(self, cluster: Cluster, plan: KafkaPlan, *, timeout_s: float) -> None:
        """Every broker has joined, the topics exist, and their ISRs are complete."""
        deadline, mode = time.monotonic() + timeout_s, mode_of(plan)
        mode.await_brokers(cluster, plan, deadline)
        for each in topic_plans(plan):
            mode.create_topic(cluster, limits.sent(each), deadline)
            brokers.await_whole(cluster, each, self.observe, deadline)
        make = partial(mode.create_topic, cluster)
        leadership = partial(mode.leadership, cluster.nodes)
        ballast.create(cluster, limits.sent(plan), make, leadership, deadline)

    def effective(self, cluster: Cluster, plan: KafkaPlan) -> dict[str, Any]:
        return effective.effective(cluster, plan)

    def programs(self, plan: KafkaPlan) -> Mapping[str, KafkaPlan]:
        return levers.programs(plan)

    def has_program(self, node: Node, plan: KafkaPlan) -> tuple[bool, str]:
        return levers.has_program(node, plan)

    def levers(self, cluster: Cluster, plan: KafkaPlan) -> Mapping[str, Lever[Any]]:
        return own_levers(cluster, plan)

    def observe(self, node: Node, plan: KafkaPlan, *, timeout_s: float) -> NodeView | None:
        """A node's own view of leaders and in-sync replicas, or of the active controller."""
        return self.observe_cells(node, [plan], timeout_s=timeout_s)[0]

    def observe_cells(
        self, node: Node, plans: Sequence[KafkaPlan], *, timeout_s: float
    ) -> list[NodeView | None]:
        """A node's own view of the topics, and with groups of who coordinates each of them; a
        client's node has none."""
        if CLIENT_ROLE in node.roles:
            return [None] * len(plans)
        mode = mode_of(plans[0])
        if definitions.model_of(plans[0].workload.name) != GROUP.name:
            return mode.observe_each(node, plans, timeout_s=timeout_s)
        *views, kept = mode.observe_each(
            node, [*plans, plans[0].with_topic(name=OFFSETS_TOPIC)], timeout_s=timeout_s
        )
        return [
            replace(view, coordination=group.coordination(plan, kept.partitions))
            if view is not None and kept is not None
            else view
            for plan, view in zip(plans, views, strict=True)
        ]

    def ballast(self, node: Node, plan: KafkaPlan) -> BallastChanges | None:
        if not plan.target.ballast_partitions or "broker" not in node.roles:
            return None
        return ballast.BallastView(node.address, plan).changes

    def logs(self, node: Node) -> dict[str, bytes]:
        return with_quorum(node, node.get(LOGS))

    def copying(
        self, nodes: Sequence[Node], plans: Sequence[KafkaPlan], folder: Path, clock: RunClock
    ) -> AbstractContextManager[None]:
        return removed.copying(nodes, plans, RunDir(folder), clock)

    def cluster_key(self, plan: KafkaPlan) -> str | None:
        """What a cluster is made of: everything of the plan's target, nodes of clients (their
        names), and proxies. `None`: it serves one run."""
        target = plan.target
        if (
            setting_text(target.settings.get("delete.topic.enable")) == "false"
            or (target.combined and target.controllers > 1)
            or (metadata_of(plan) != KRAFT and _makes_topics(plan))
            or not reports_settings(plan)
        ):
            return None
        clients = self.in_nodes(plan)
        body = {**target.model_dump(mode="json"), "clients": clients, "proxied": proxied(plan)}
        if target.ballast_partitions:
            body["replicas"] = plan.topic.replication_factor
        return orjson.dumps(body, option=orjson.OPT_SORT_KEYS).decode()

    def fresh(self, plan: KafkaPlan, number: int) -> KafkaPlan:
        """With a topic that no earlier run on its cluster has had."""
        return plan.with_topic(name=f"{plan.topic.name}-{number}")

    def forget(self, cluster: Cluster, plans: Sequence[KafkaPlan]) -> None:
        """Delete the topics of a run's cells, or its own, and empty the nodes' log files, which the
        run has kept. Kafka's own topics stay, led by those brokers that led them at first.

        Raises HarnessFailure if a topic remains or a replica fetcher has died, TimeoutError if one
        of Kafka's own topics stays incomplete.
        """
        folder = f"{NODE_DATA}/{LOGS}"
        for node in with_role(cluster, "broker"):
            dead = ["grep", "-m1", r"ReplicaFetcher.*Error due to", f"{folder}/server.log"]
            if (found := node.admin(dead)).exit_code == 0:
                why = found.output.strip()
                raise HarnessFailure(f"{node.name} no longer replicates: {why:.200}")
        names = [each.topic.name for plan in plans for each in topic_plans(plan)]
        mode_of(plans[0]).forget(cluster, names)
        if _makes_topics(plans[0]):
            restore_leaders(cluster, plans[0])
        for node in cluster.nodes.values():
            node.admin(["find", folder, "-type", "f", "-exec", "truncate", "-s", "0", "{}", "+"])

    # --- its clients and readers

    def addresses(self, cluster: Cluster) -> str:
        return bootstrap(cluster)

    def source(self, cluster: Cluster, plan: KafkaPlan) -> AbstractContextManager[reading.Source]:
        return reading.source_of(cluster, plan)

    def client(self, cluster: Cluster, plan: KafkaPlan) -> Client:
        """Producers that the processes share; a transactional one for each process."""
        if transactions_of(plan) is not None:
            return transaction_client(cluster, plan)
        return library_of(plan).client(cluster, plan)

    def consumers(
        self, cluster: RunCluster, plan: KafkaPlan, group: GroupSettings, record: Record
    ) -> Consumers:
        return KafkaConsumers(cluster, plan, group, record)

    # --- how pages describe its runs

    def log_lines(self) -> LogLines:
        return LOG_LINES

    def size(self, plan: Mapping[str, Any]) -> list[str]:
        brokers = plan.get("target", {}).get("brokers")
        factor = plan.get("topic", {}).get("replication_factor")
        facts = [counted(brokers, "{n} [broker|brokers]")] if brokers else []
        if plan.get("cluster", {}).get("kind") == "external":
            facts = ["a cluster of the user's"]
        return [*facts, f"replication factor {factor}"] if factor else facts

    def stored_request(self, plan: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        return {
            "producer": plan.get("workload", {}).get("producer", {}),
            "topic": plan.get("topic", {}).get("settings", {}),
            "broker": plan.get("target", {}).get("settings", {}),
        }

    def decisive(self) -> Sequence[tuple[str, str]]:
        return (
            ("producer", "acks"),
            ("producer", "enable.idempotence"),
            ("topic", "min.insync.replicas"),
            ("topic", "unclean.leader.election.enable"),
        )


def _check_version(plan: KafkaPlan) -> None:
    if plan.target.version is None and plan.target.image is None:
        raise PlanError("is missing", key="target.version", hint='such as version = "4.4.0"')
    release_line_of(plan)


OWN_TOPICS: Final = (OFFSETS_TOPIC, "__transaction_state")
_WITHIN_S: Final = 30.0


def restore_leaders(cluster: Cluster, plan: KafkaPlan) -> None:
    """Have those brokers lead Kafka's own topics again that led them when they were made, once they
    are fully replicated. They stay from run to run, and a broker that was cut off or killed leads
    none of their partitions any more: no fault of a later run would meet a leader of the run's
    topic that coordinates groups or transactions, too.

    Raises TimeoutError if replicas stay out of sync, HarnessFailure if an election is refused.
    """
    deadline, first = time.monotonic() + _WITHIN_S, with_role(cluster, "broker")[0]
    for name in OWN_TOPICS:
        own = plan.with_topic(name=name)
        if (view := observe(first, own, timeout_s=brokers.ASK_S)) is None:
            raise HarnessFailure(f"{first.name} does not say whether there is {name}")
        if not view.partitions:
            continue
        count, replicas = len(view.partitions), len(view.partitions[0].replicas)
        own = own.with_topic(partitions=count, replication_factor=replicas)
        brokers.await_whole(cluster, own, observe, deadline)
        if refused := mode_of(own).leadership(cluster.nodes, own).elect(range(count)):
            number, why = next(iter(refused.items()))
            raise HarnessFailure(f"{name}, partition {number}: no election: {why}")


def _makes_topics(plan: KafkaPlan) -> bool:
    """Whether Kafka makes topics for its runs: of groups and of transactions."""
    return definitions.model_of(plan.workload.name) != LOG.name
