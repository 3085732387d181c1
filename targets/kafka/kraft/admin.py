"""Requests and queries to a KRaft cluster: brokers, the topic, features, who controls."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka.errors import for_code
from kafka.protocol.admin import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeQuorumRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest

from harness.errors import HarnessFailure, PlanError
from harness.faults.own_traffic import NoAnswer
from harness.protocols import Cluster, Node, NodeView, with_role
from targets.kafka import brokers
from targets.kafka.asking import ask
from targets.kafka.configuration import BROKER_PORT, CONTROLLER_PORT, names_by_id, text
from targets.kafka.placements import assignment
from targets.kafka.plan import KafkaPlan

_INVALID_CONFIG, _TOPIC_EXISTS = 40, 36
_METADATA_TOPIC = "__cluster_metadata"
_GONE: Final = (0, 3)  # deleted; unknown topic
_DELETE_S: Final = 15.0


def observe(node: Node, plan: KafkaPlan, *, timeout_s: float) -> NodeView | None:
    """One node's own view: a broker's partitions, a controller's idea of who is active."""
    (view,) = observe_each(node, [plan], timeout_s=timeout_s)
    return view


def observe_each(
    node: Node, plans: Sequence[KafkaPlan], *, timeout_s: float
) -> list[NodeView | None]:
    """One node's own view of the topics of several plans, in one request of a kind."""
    names = names_by_id(plans[0])
    seen: list[brokers.Partitions] = [()] * len(plans)
    controller, epoch = None, None
    try:
        if "broker" in node.roles:
            seen = brokers.partitions(node, plans, timeout_s=timeout_s)
        if "controller" in node.roles:
            controller, epoch = _active_controller(node, names, timeout_s)
    except NoAnswer:
        return [None] * len(plans)
    return [
        NodeView(
            answered_by=node.name, partitions=each, controller=controller, controller_epoch=epoch
        )
        for each in seen
    ]


def _active_controller(
    node: Node, names: Mapping[int, str], timeout_s: float
) -> tuple[str | None, int | None]:
    partition = DescribeQuorumRequest.TopicData.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name=_METADATA_TOPIC, partitions=[partition])
    request = DescribeQuorumRequest[0](topics=[topic])
    answer = ask(node.address, CONTROLLER_PORT, request, timeout_s=timeout_s)
    if answer.error_code or not answer.topics:
        return None, None
    quorum = answer.topics[0].partitions[0]
    active = names.get(quorum.leader_id)  # a controller that is not active names none
    return active, quorum.leader_epoch if active else None


def await_brokers(cluster: Cluster, plan: KafkaPlan, deadline: float) -> None:
    """Wait until every broker itself knows every broker. Raises TimeoutError."""
    nodes = with_role(cluster, "broker")

    def missing() -> str | None:
        for node in nodes:
            try:
                seen = len(brokers.metadata(node, plan, timeout_s=brokers.ASK_S).brokers)
            except NoAnswer:
                return f"broker {node.name} does not answer"
            if seen != len(nodes):
                return f"broker {node.name} sees {seen} of {len(nodes)} brokers"
        return None

    brokers.await_none(cluster, missing, deadline)


def create_topic(cluster: Cluster, plan: KafkaPlan, deadline: float) -> None:
    """Make the plan's topic. Raises PlanError when a setting of it is refused."""
    topic = _topic(plan)

    def missing() -> str | None:
        request = CreateTopicsRequest[7](topics=[topic], timeout_ms=10_000, validate_only=False)
        try:
            address = brokers.first(cluster).address
            answer = ask(address, BROKER_PORT, request, timeout_s=12).topics[0]
        except NoAnswer as error:
            return f"the topic could not be made: {error}"
        if answer.error_code in (0, _TOPIC_EXISTS):
            return None
        if answer.error_code == _INVALID_CONFIG:
            raise PlanError(
                f"the cluster refuses a setting of the topic: {answer.error_message}",
                key="topic.settings",
            )
        return f"the topic could not be made: {for_code(answer.error_code).__name__}"

    brokers.await_none(cluster, missing, deadline)


def _topic(plan: KafkaPlan) -> Any:
    """The topic as it is requested. Where the plan does not say who is to lead, Kafka itself
    spreads its leaders, over racks too."""
    kind = CreateTopicsRequest.CreatableTopic
    is_placed = plan.topic.leaders == "one" or plan.topic.first_leader is not None
    placed = assignment(plan) if is_placed else {}
    return kind(
        name=plan.topic.name,
        num_partitions=-1 if placed else plan.topic.partitions,
        replication_factor=-1 if placed else plan.topic.replication_factor,
        assignments=[
            kind.CreatableReplicaAssignment(partition_index=partition, broker_ids=ids)
            for partition, ids in placed.items()
        ],
        configs=[
            kind.CreatableTopicConfig(name=key, value=text(value))
            for key, value in plan.topic.settings.items()
        ],
    )


def features(cluster: Cluster) -> dict[str, int]:
    """The finalized features and their levels."""
    request = ApiVersionsRequest[3](client_software_name="ackloss", client_software_version="1")
    answer = ask(brokers.first(cluster).address, BROKER_PORT, request, timeout_s=5)
    return {f.name: int(f.max_version_level) for f in answer.finalized_features or []}


def delete_topics(cluster: Cluster, names: Sequence[str]) -> None:
    """Delete topics, all in one request. Raises HarnessFailure when one stays."""
    left, deadline, why = list(names), time.monotonic() + _DELETE_S, "no broker answered"
    while time.monotonic() < deadline:
        for broker in with_role(cluster, "broker"):
            request = DeleteTopicsRequest[3](topic_names=left, timeout_ms=5000)
            try:
                answer = ask(broker.address, BROKER_PORT, request, timeout_s=6)
            except NoAnswer as error:
                why = str(error)
                continue
            codes = {each.name: each.error_code for each in answer.responses}
            left = [name for name in left if codes.get(name) not in _GONE]
            if not left:
                return
            if left[0] in codes:
                why = for_code(codes[left[0]]).__name__
        time.sleep(0.2)
    raise HarnessFailure(f"the topic {left[0]} could not be deleted: {why}")
