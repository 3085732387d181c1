"""What a Kafka cluster is told and asked: topics, settings, features, who leads."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from kafka.errors import for_code
from kafka.protocol.admin import (
    CreateTopicsRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from harness.errors import PlanError
from harness.plan import Plan
from harness.protocols import Cluster, Node, NodeView, PartitionView, with_role
from targets.kafka.asking import NoAnswer, ask
from targets.kafka.configuration import BROKER_PORT, CONTROLLER_PORT, node_ids, text

_TOPIC, _BROKER = 2, 4
_UNKNOWN_TYPE = 0
_INVALID_CONFIG, _TOPIC_EXISTS = 40, 36
_POLL_S = 0.1
_LOOK_S = 2.0
_ASK_S = 2.0
_METADATA_TOPIC = "__cluster_metadata"


def observe(node: Node, plan: Plan, *, timeout_s: float) -> NodeView | None:
    """One node's own view: a broker's partitions, a controller's idea of who is active."""
    names = {number: name for name, number in node_ids(plan).items()}
    try:
        partitions = _partitions(node, plan, names, timeout_s) if "broker" in node.roles else ()
        controller, epoch = None, None
        if "controller" in node.roles:
            controller, epoch = _active_controller(node, names, timeout_s)
    except NoAnswer:
        return None
    return NodeView(
        answered_by=node.name,
        partitions=partitions,
        controller=controller,
        controller_epoch=epoch,
    )


def _partitions(
    node: Node, plan: Plan, names: Mapping[int, str], timeout_s: float
) -> tuple[PartitionView, ...]:
    metadata = _metadata(node, plan, timeout_s)
    return tuple(
        PartitionView(
            partition=p.partition_index,
            leader=names.get(p.leader_id),
            leader_epoch=p.leader_epoch,
            isr=tuple(sorted(names.get(n, str(n)) for n in p.isr_nodes)),
            replicas=tuple(names.get(n, str(n)) for n in p.replica_nodes),
        )
        for topic in metadata.topics
        for p in sorted(topic.partitions, key=lambda p: int(p.partition_index))
    )


def _metadata(node: Node, plan: Plan, timeout_s: float) -> Any:
    topic = MetadataRequest.MetadataRequestTopic(name=plan.topic.name)
    request = MetadataRequest[12](topics=[topic], allow_auto_topic_creation=False)
    return ask(node.address, BROKER_PORT, request, timeout_s=timeout_s)


def _active_controller(
    node: Node, names: Mapping[int, str], timeout_s: float
) -> tuple[str | None, int | None]:
    partition = DescribeQuorumRequest.TopicData.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name=_METADATA_TOPIC, partitions=[partition])
    answer = ask(
        node.address, CONTROLLER_PORT, DescribeQuorumRequest[1](topics=[topic]), timeout_s=timeout_s
    )
    if answer.error_code or not answer.topics:
        return None, None
    told = answer.topics[0].partitions[0]
    active = names.get(told.leader_id)  # a controller that is not active names none
    return active, told.leader_epoch if active else None


def await_brokers(cluster: Cluster, plan: Plan, deadline: float) -> None:
    """Wait until every broker itself knows every broker. Raises TimeoutError."""
    brokers = with_role(cluster, "broker")

    def missing() -> str | None:
        for node in brokers:
            try:
                seen = len(_metadata(node, plan, _ASK_S).brokers)
            except NoAnswer:
                return f"broker {node.name} does not answer"
            if seen != len(brokers):
                return f"broker {node.name} sees {seen} of {len(brokers)} brokers"
        return None

    _await(cluster, missing, deadline)


def create_topic(cluster: Cluster, plan: Plan, deadline: float) -> None:
    """Make the plan's topic. Raises PlanError when a setting of it is refused."""
    settings = [
        CreateTopicsRequest.CreatableTopic.CreatableTopicConfig(name=key, value=text(value))
        for key, value in plan.topic.settings.items()
    ]
    topic = CreateTopicsRequest.CreatableTopic(
        name=plan.topic.name,
        num_partitions=plan.topic.partitions,
        replication_factor=plan.topic.replication_factor,
        assignments=[],
        configs=settings,
    )
    broker = with_role(cluster, "broker")[0]

    def missing() -> str | None:
        request = CreateTopicsRequest[7](topics=[topic], timeout_ms=10_000, validate_only=False)
        try:
            answer = ask(broker.address, BROKER_PORT, request, timeout_s=12).topics[0]
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

    _await(cluster, missing, deadline)


def await_whole(cluster: Cluster, plan: Plan, deadline: float) -> None:
    """Wait until every broker says that every partition has all its replicas in sync."""

    def missing() -> str | None:
        for node in with_role(cluster, "broker"):
            view = observe(node, plan, timeout_s=_ASK_S)
            if view is None:
                return f"broker {node.name} does not answer"
            if len(view.partitions) != plan.topic.partitions:
                return f"broker {node.name} does not know the topic"
            for p in view.partitions:
                if p.leader is None or len(p.isr) != plan.topic.replication_factor:
                    return f"partition {p.partition}: leader {p.leader}, ISR {list(p.isr)}"
        return None

    _await(cluster, missing, deadline)


def _await(cluster: Cluster, missing: Callable[[], str | None], deadline: float) -> None:
    """Poll until nothing is missing. Raises TimeoutError, at once when a process has ended."""
    look_again = time.monotonic() + _LOOK_S
    while (what := missing()) is not None:
        now = time.monotonic()
        if now > look_again:
            look_again = now + _LOOK_S
            for node in cluster.nodes.values():
                if not (process := node.process()).running:
                    ended = f"the process of {node.name} ended with {process.exit_code}"
                    raise TimeoutError(ended)
        if now > deadline:
            raise TimeoutError(what)
        time.sleep(_POLL_S)


def effective(cluster: Cluster, plan: Plan) -> dict[str, Any]:
    """Every setting of the nodes and the topic as they themselves tell it, and the finalized
    features: `{"settings": {"broker", "differs", "topic"}, "features"}`, where `broker` holds what
    all brokers agree on and `differs`, by setting and node, what they do not.

    Raises PlanError when one that the plan asks for is unknown to a node or differs.
    """
    ids, brokers = node_ids(plan), with_role(cluster, "broker")
    by_node = {}
    for name, number in ids.items():
        node = cluster.nodes[name]
        configs = _describe(node, _BROKER, str(number))
        _compare(plan.target.settings, configs, where="target.settings", node=node.name)
        by_node[node.name] = _values(configs)
    topic = _describe(brokers[0], _TOPIC, plan.topic.name)
    _compare(plan.topic.settings, topic, where="topic.settings", node="the topic")
    features = _features(brokers[0])
    for feature, level in plan.target.features.items():
        if features.get(feature, 0) != level:
            raise PlanError(
                f"the cluster took level {features.get(feature, 0)}, asked was {level}",
                key=f'target.features."{feature}"',
            )
    common, differs = _agreed({node.name: by_node[node.name] for node in brokers})
    settings = {"broker": common, "differs": differs, "topic": _values(topic)}
    return {"settings": settings, "features": features}


def _agreed(
    by_node: Mapping[str, Mapping[str, str | None]],
) -> tuple[dict[str, str | None], dict[str, dict[str, str | None]]]:
    """What all nodes agree on, and by key and node what they do not."""
    common, differs = {}, {}
    for key in sorted({key for values in by_node.values() for key in values}):
        told = {name: values.get(key) for name, values in by_node.items()}
        if len(set(told.values())) == 1:
            common[key] = next(iter(told.values()))
        else:
            differs[key] = told
    return common, differs


def _describe(node: Node, kind: int, name: str) -> dict[str, Any]:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    request = DescribeConfigsRequest[4](
        resources=[resource], include_synonyms=False, include_documentation=False
    )
    port = BROKER_PORT if "broker" in node.roles else CONTROLLER_PORT
    answer = ask(node.address, port, request, timeout_s=10)
    return {config.name: config for config in answer.results[0].configs}


def _values(configs: Mapping[str, Any]) -> dict[str, str | None]:
    return {name: config.value for name, config in sorted(configs.items())}


def _compare(
    asked: Mapping[str, Any], configs: Mapping[str, Any], *, where: str, node: str
) -> None:
    for key, value in asked.items():
        config = configs.get(key)
        if config is None or (config.value is None and config.config_type == _UNKNOWN_TYPE):
            raise PlanError(f"{node} does not know this setting", key=f'{where}."{key}"')
        if _normal(config.value) != _normal(text(value)):
            raise PlanError(
                f"{node} took {config.value!r}, asked was {text(value)!r}", key=f'{where}."{key}"'
            )


def _normal(value: str | None) -> str | float | tuple[str, ...] | None:
    """Equal values of one type as equal things: 3000 and 3000.0, "a, b" and "a,b"."""
    if value is None:
        return None
    try:
        return float(value)
    except ValueError:
        pass
    return tuple(part.strip() for part in value.split(",")) if "," in value else value.strip()


def _features(node: Node) -> dict[str, int]:
    request = ApiVersionsRequest[3](client_software_name="ackloss", client_software_version="1")
    answer = ask(node.address, BROKER_PORT, request, timeout_s=5)
    return {f.name: int(f.max_version_level) for f in answer.finalized_features or []}
