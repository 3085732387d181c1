"""One cluster for many runs: each on its own topic, removed when the run is over.

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
from collections.abc import Sequence
from typing import Final

import orjson

from harness.errors import HarnessFailure
from harness.levers.proxied import proxied
from harness.models import LOG
from harness.protocols import NODE_DATA, Cluster, with_role
from targets.kafka import brokers, promises
from targets.kafka.configuration import LOGS, OFFSETS_TOPIC, text
from targets.kafka.modes import mode_of, observe
from targets.kafka.plan import KafkaPlan
from targets.kafka.transactions.settings import topic_plans
from targets.kafka.versions import KRAFT, metadata_of, reports_settings

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


def cluster_key(plan: KafkaPlan, clients: Sequence[str]) -> str | None:
    """What a cluster is made of: everything of the plan's target, nodes of clients (their names),
    and proxies. Null: it serves one run."""
    target = plan.target
    if (
        text(target.settings.get("delete.topic.enable")) == "false"
        or (target.combined and target.controllers > 1)
        or (metadata_of(plan) != KRAFT and _makes_topics(plan))
        or not reports_settings(plan)
    ):
        return None
    body = {**target.model_dump(mode="json"), "clients": clients, "proxied": proxied(plan)}
    if target.ballast_partitions:
        body["replicas"] = plan.topic.replication_factor
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS).decode()


def _makes_topics(plan: KafkaPlan) -> bool:
    """Whether Kafka makes topics for its runs: of groups and of transactions."""
    return promises.model_of(plan.workload.name) != LOG.name


def forget(cluster: Cluster, plans: Sequence[KafkaPlan]) -> None:
    """Delete the topics of a run's cells, or its own, and empty the nodes' log files, which the run
    has kept. Kafka's own topics stay, led by those brokers that led them at first.

    Raises HarnessFailure if a topic remains or a replica fetcher has died, TimeoutError if one of
    Kafka's own topics stays incomplete.
    """
    folder = f"{NODE_DATA}/{LOGS}"
    for node in with_role(cluster, "broker"):
        died = node.admin(["grep", "-m1", r"ReplicaFetcher.*Error due to", f"{folder}/server.log"])
        if died.exit_code == 0:
            raise HarnessFailure(f"{node.name} no longer replicates: {died.output.strip():.200}")
    names = [each.topic.name for plan in plans for each in topic_plans(plan)]
    mode_of(plans[0]).forget(cluster, names)
    if _makes_topics(plans[0]):
        restore_leaders(cluster, plans[0])
    for node in cluster.nodes.values():
        node.admin(["find", folder, "-type", "f", "-exec", "truncate", "-s", "0", "{}", "+"])
