"""All levers that Kafka brings to a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from harness.levers.disk import DiskLever
from harness.levers.protocol import ProtocolLever
from harness.protocols import Cluster, Lever, with_role
from targets.kafka.levers import requests
from targets.kafka.levers.dry_run import DryRunLeadership
from targets.kafka.levers.leadership import LeadershipLever
from targets.kafka.levers.topic_ids import topic_ids
from targets.kafka.modes import mode_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.storage import KafkaStorage


def own_levers(
    cluster: Cluster, plan: KafkaPlan, say: Callable[[str], None] | None
) -> Mapping[str, Lever[Any]]:
    """The lever that moves leaders and the one that meets requests; and the cluster's lever of
    disks, which learns how Kafka stores. With `say`, for a dry run: nothing is queried or moved."""
    leadership = mode_of(plan).leadership(cluster.nodes, plan)
    if say is not None:
        names = [node.name for node in with_role(cluster, "broker")]
        leadership = DryRunLeadership(plan, names, say)
    found: dict[str, Lever[Any]] = {
        LeadershipLever.name: LeadershipLever(leadership, cluster.nodes)
    }
    ids = partial(topic_ids, cluster.nodes) if say is None else requests.no_ids
    found[ProtocolLever.name] = ProtocolLever(cluster.nodes, requests.requests(ids))
    if isinstance(disk := cluster.levers.get(DiskLever.name), DiskLever):
        found[DiskLever.name] = replace(disk, storage=KafkaStorage())
    return found
