"""What a broker of any version is queried for by Kafka's protocol: itself and the topic.

A client library's metadata may come from any broker it is connected to, so each node is queried
about itself on a separate connection. Encoding is kafka-python's; the socket is ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self

from kafka.errors import KafkaError
from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.parser import KafkaProtocol

from harness.faults.own_traffic import NoAnswer, own_connection
from harness.protocols import Cluster, Node, NodeView, PartitionView
from targets.kafka.configuration import BROKER_PORT, CONTROLLER_PORT, names_by_id
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import release_line_of

_RECEIVED_BYTES: Final = 1 << 20


class Connection:
    """A connection to one node, for one question after the other; a context that ends it."""

    def __init__(self, address: str, port: int, *, timeout_s: float) -> None:
        """Connect. Raises NoAnswer."""
        self._name = f"{address}:{port}"
        self._protocol = KafkaProtocol(client_id="ackloss")
        try:
            self._socket = own_connection(address, port, timeout_s=timeout_s)
        except OSError as error:
            raise NoAnswer(f"{self._name}: {error}") from error

    def ask(self, request: Any, *, timeout_s: float) -> Any:
        """Send one request and return its decoded response. After NoAnswer it is unusable."""
        deadline = time.monotonic() + timeout_s
        try:
            self._protocol.send_request(request)
            self._socket.settimeout(timeout_s)
            self._socket.sendall(self._protocol.send_bytes())
            while True:
                self._socket.settimeout(max(0.001, deadline - time.monotonic()))
                received = self._socket.recv(_RECEIVED_BYTES)
                if not received:
                    raise NoAnswer(f"{self._name} closed the connection")
                for _, response in self._protocol.receive_bytes(received):
                    return response
        except (OSError, KafkaError, ValueError) as error:
            raise NoAnswer(f"{self._name}: {error}") from error

    def close(self) -> None:
        """End it."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def ask(address: str, port: int, request: Any, *, timeout_s: float) -> Any:
    """Send one request and return its decoded response. Raises NoAnswer."""
    deadline = time.monotonic() + timeout_s
    with Connection(address, port, timeout_s=timeout_s) as connection:
        return connection.ask(request, timeout_s=max(0.001, deadline - time.monotonic()))


@dataclass
class Connections:
    """One kept connection to each node that is queried; a context that ends them.

    Requests have the highest version that both sides know, or their own `max_version`. `speaks`:
    the protocol of nodes that do not report it (before 0.10).
    """

    addresses: Mapping[str, str]
    port: int
    speaks: tuple[int, ...] | None = None
    _kept: dict[str, tuple[Connection, BrokerVersionData]] = field(default_factory=dict)

    def ask(self, node: str, request: Any, *, timeout_s: float) -> Any:
        """Query a node. Raises NoAnswer; the next query uses a new connection."""
        deadline = time.monotonic() + timeout_s
        try:
            if node not in self._kept:
                self._kept[node] = self._opened(node, timeout_s)
            connection, versions = self._kept[node]
            request.API_VERSION = versions.api_version(request)
            return connection.ask(request, timeout_s=max(0.001, deadline - time.monotonic()))
        except (NoAnswer, KafkaError) as error:
            if kept := self._kept.pop(node, None):
                kept[0].close()
            raise NoAnswer(str(error)) from error

    def _opened(self, node: str, timeout_s: float) -> tuple[Connection, BrokerVersionData]:
        connection = Connection(self.addresses[node], self.port, timeout_s=timeout_s)
        if self.speaks is not None:
            return connection, BrokerVersionData(self.speaks)
        try:
            answer = connection.ask(ApiVersionsRequest[0](), timeout_s=timeout_s)
        except NoAnswer:
            connection.close()
            raise
        versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        return connection, BrokerVersionData(api_versions=versions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection, _versions in self._kept.values():
            connection.close()


EARLIEST, LATEST = -2, -1
TOPIC, BROKER = 2, 4
"""Kinds of resources that have settings."""

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Isolation levels: of the end of a partition, and its last stable offset."""

ASK_S = 2.0
_POLL_S = 0.1
_LOOK_S = 2.0
NO_EPOCH = -1
"""The leader epoch of answers without one: metadata before version 7, of brokers before 2.1."""


def metadata(node: Node, plan: KafkaPlan, *others: KafkaPlan, timeout_s: float) -> Any:
    """What this broker reports to clients about the brokers and the topic, and about topics of
    other plans. Raises NoAnswer."""
    version = release_line_of(plan).requests.metadata
    kind = MetadataRequest[version]
    topics = [kind.MetadataRequestTopic(name=each.topic.name) for each in (plan, *others)]
    creates = {"allow_auto_topic_creation": False} if version >= 4 else {}
    return ask(node.address, BROKER_PORT, kind(topics=topics, **creates), timeout_s=timeout_s)


Partitions = tuple[PartitionView, ...]


def partitions(node: Node, plans: Sequence[KafkaPlan], *, timeout_s: float) -> list[Partitions]:
    """The topic of each plan as this broker reports it to clients. Raises NoAnswer."""
    names = names_by_id(plans[0])
    answer = metadata(node, *plans, timeout_s=timeout_s)
    by_name = {topic.name: topic.partitions for topic in answer.topics}

    def name(broker: int) -> str:
        return names.get(broker, str(broker))

    return [views(by_name.get(plan.topic.name, ()), leader=names.get, name=name) for plan in plans]


def views(
    answered: Iterable[Any], *, leader: Callable[[int], str | None], name: Callable[[int], str]
) -> Partitions:
    """The partitions of one topic in an answer of metadata, with the nodes that brokers are by
    their ids; `leader` is given -1 where there is none."""
    return tuple(
        PartitionView(
            partition=p.partition_index,
            leader=leader(p.leader_id),
            leader_epoch=NO_EPOCH if p.leader_epoch is None else p.leader_epoch,
            members=tuple(sorted(map(name, p.isr_nodes))),
            replicas=tuple(map(name, p.replica_nodes)),
        )
        for p in sorted(answered, key=lambda p: int(p.partition_index))
    )


def offset(
    leader: Node, plan: KafkaPlan, partition: int, which: int, *, isolation: int = READ_UNCOMMITTED
) -> int | None:
    """Where a partition begins (`EARLIEST`) or ends (`LATEST`) for readers of an isolation, as its
    leader reports it; null when it does not."""
    version = release_line_of(plan).requests.list_offsets
    kind = ListOffsetsRequest[version]
    of_partition = kind.ListOffsetsTopic.ListOffsetsPartition(
        partition_index=partition,
        timestamp=which,
        **({"max_num_offsets": 1} if version == 0 else {}),
        **({"current_leader_epoch": NO_EPOCH} if version >= 4 else {}),
    )
    topic = kind.ListOffsetsTopic(name=plan.topic.name, partitions=[of_partition])
    level = {"isolation_level": isolation} if version >= 2 else {}
    try:
        request = kind(replica_id=-1, topics=[topic], **level)
        answer = ask(leader.address, BROKER_PORT, request, timeout_s=5)
    except NoAnswer:
        return None
    of_leader = answer.topics[0].partitions[0]
    if of_leader.error_code:
        return None
    return int(of_leader.old_style_offsets[0]) if version == 0 else int(of_leader.offset)


def configs(node: Node, plan: KafkaPlan, kind: int, name: str) -> dict[str, Any]:
    """Settings in force, by name, as the node reports them (DescribeConfigs). Raises NoAnswer."""
    version = release_line_of(plan).requests.describe_configs
    request = DescribeConfigsRequest[version]
    resource = request.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    more = {"include_synonyms": False} if version else {}
    if version and version >= 3:
        more["include_documentation"] = False
    port = BROKER_PORT if "broker" in node.roles else CONTROLLER_PORT
    answer = ask(node.address, port, request(resources=[resource], **more), timeout_s=10)
    return {config.name: config for config in answer.results[0].configs}


def await_none(cluster: Cluster, missing: Callable[[], str | None], deadline: float) -> None:
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


class Observe(Protocol):
    """Queries a node for its own view."""

    def __call__(self, node: Node, plan: KafkaPlan, *, timeout_s: float) -> NodeView | None: ...


def why_not_whole(nodes: Iterable[Node], plan: KafkaPlan, observe: Observe) -> str | None:
    """None once each of these nodes reports that all replicas of all partitions are in sync."""
    for node in nodes:
        view = observe(node, plan, timeout_s=ASK_S)
        if view is None:
            return f"{node.name} does not answer"
        if len(view.partitions) != plan.topic.partitions:
            return f"{node.name} does not know the topic"
        for p in view.partitions:
            if p.leader is None or len(p.members) != plan.topic.replication_factor:
                return f"partition {p.partition}: leader {p.leader}, ISR {list(p.members)}"
    return None


def await_whole(cluster: Cluster, plan: KafkaPlan, observe: Observe, deadline: float) -> None:
    """Wait until every node that knows topics reports that they are fully replicated."""
    knowing = [n for n in cluster.nodes.values() if n.roles & {"broker", "zookeeper"}]
    await_none(cluster, lambda: why_not_whole(knowing, plan, observe), deadline)
