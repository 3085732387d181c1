"""What single brokers of an external cluster are queried for, and how they are named there."""

from __future__ import annotations

from typing import Any

from kafka import errors as theirs
from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from harness.faults.own_traffic import NoAnswer
from targets.kafka import settings
from targets.kafka.brokers import Partitions, views
from targets.kafka.external.session import Session
from targets.kafka.plan import KafkaPlan

ASK_S = 5.0
_CONFIGS_S = 10.0


def name(broker: int) -> str:
    """The node that a broker is, by its id."""
    return f"b{broker}"


def number(node: str) -> int:
    """The id of the broker that a node is."""
    return int(node[1:])


def ask(session: Session, node: str, request: Any, *, timeout_s: float) -> Any:
    """Ask a broker by its node's name. Raises NoAnswer."""
    return session.ask(number(node), request, timeout_s=timeout_s)


def partitions(
    session: Session, node: str, plan: KafkaPlan, *, timeout_s: float
) -> Partitions | None:
    """A broker's own view of the topic; None when it does not answer."""
    topic = MetadataRequest.MetadataRequestTopic(name=plan.topic.name)
    request = MetadataRequest(topics=[topic], allow_auto_topic_creation=False)
    try:
        answer = session.ask(number(node), request, timeout_s=timeout_s)
    except NoAnswer:
        return None
    answered = [each for topic in answer.topics for each in topic.partitions]
    return views(answered, leader=lambda n: name(n) if n >= 0 else None, name=name)


def configs(session: Session, node: str, kind: int, resource: str) -> settings.Values | None:
    """Settings in force as a broker reports them; None where it does not let us read them. Raises
    TimeoutError when it does not answer."""
    requested = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=resource, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[requested])
    try:
        answer = session.ask(number(node), request, timeout_s=_CONFIGS_S).results[0]
    except NoAnswer as error:
        raise TimeoutError(f"its settings were not reported: {error}") from error
    if answer.error_code:
        return None
    return settings.known({config.name: config for config in answer.configs})


def features(session: Session) -> dict[str, int]:
    """The levels of features in force."""
    try:
        known = session.admin.describe_features()
    except theirs.KafkaError:
        return {}  # before 2.4 there are none
    return {n: int(each["finalized"][1]) for n, each in known.items() if "finalized" in each}


def offset(
    session: Session, leader: str, plan: KafkaPlan, partition: int, which: int
) -> int | None:
    """An end of a partition (ListOffsets) as its leader reports it; None when it does not."""
    kind = ListOffsetsRequest.ListOffsetsTopic
    of_partition = kind.ListOffsetsPartition(
        partition_index=partition,
        timestamp=which,
        max_num_offsets=1,
        current_leader_epoch=-1,
    )
    topic = kind(name=plan.topic.name, partitions=[of_partition])
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic])
    try:
        answer = session.ask(number(leader), request, timeout_s=ASK_S)
    except NoAnswer:
        return None
    found = answer.topics[0].partitions[0]
    return None if found.error_code else int(found.offset)
