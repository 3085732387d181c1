"""All levers that Kafka brings to a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from harness.levers.disk import DiskLever
from harness.levers.protocol import ProtocolLever
from harness.protocols import Cluster, Lever
from targets.kafka.levers import requests
from targets.kafka.levers.leadership import LeadershipLever
from targets.kafka.levers.topic_ids import topic_ids
from targets.kafka.modes import mode_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.storage import KafkaStorage


def own_levers(cluster: Cluster, plan: KafkaPlan) -> Mapping[str, Lever[Any]]:
    """The lever that moves leaders and the one that meets requests; and the cluster's lever of
    disks, which learns how Kafka stores."""
    leadership = mode_of(plan).leadership(cluster.nodes, plan)
    found: dict[str, Lever[Any]] = {
        LeadershipLever.name: LeadershipLever(leadership, cluster.nodes)
    }
    ids = partial(topic_ids, cluster.nodes)
    found[ProtocolLever.name] = ProtocolLever(cluster.nodes, requests.requests(ids))
    if isinstance(disk := cluster.levers.get(DiskLever.name), DiskLever):
        found[DiskLever.name] = replace(disk, storage=KafkaStorage())
    return found
