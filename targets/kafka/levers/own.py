"""All levers that Kafka brings to a run."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final
from uuid import UUID

from kafka.protocol.metadata import MetadataRequest

from harness.errors import HarnessFailure
from harness.faults.own_traffic import NoAnswer
from harness.levers.disk import DiskLever
from harness.levers.protocol import ProtocolLever
from harness.protocols import Cluster, Lever, Node
from targets.kafka.asking import ask
from targets.kafka.configuration import BROKER_PORT
from targets.kafka.levers import requests
from targets.kafka.levers.leadership import LeadershipLever
from targets.kafka.modes import mode_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.storage import KafkaStorage

# The id of a topic, by which requests name it from Fetch 13 (Kafka 3.1) and Produce 13 (4.1) on
# (KIP-516): queried from the brokers when a rule that names the topic begins.

_WITH_IDS: Final = 10
"""The version of metadata that has ids, from Kafka 2.8 on."""
_ASK_S: Final = 5.0


def topic_ids(nodes: Mapping[str, Node], topic: str) -> tuple[str, ...]:
    """Its id, as Kafka writes it; none where there is no such topic, or it has none (ZooKeeper mode
    before 2.8). Raises HarnessFailure if no broker answers."""
    why = "there is no broker"
    for node in nodes.values():
        if "broker" in node.roles:
            try:
                return ids_at(node.address, BROKER_PORT, topic)
            except NoAnswer as error:
                why = str(error)
    raise HarnessFailure(f"no broker reports the id of the topic {topic}: {why}")


def ids_at(address: str, port: int, topic: str) -> tuple[str, ...]:
    """See `topic_ids`: as one broker has it. Raises NoAnswer."""
    kind = MetadataRequest[_WITH_IDS]
    request = kind(
        topics=[kind.MetadataRequestTopic(topic_id=UUID(int=0), name=topic)],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    answer = ask(address, port, request, timeout_s=_ASK_S)
    found = [each.topic_id for each in answer.topics if not each.error_code]
    return tuple(
        base64.urlsafe_b64encode(each.bytes).decode().rstrip("=") for each in found if each.int
    )


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
