"""What a broker of any version is queried for by Kafka's protocol: itself and the topic.

A client library's metadata may come from any broker it is connected to, so each node is queried
about itself on a separate connection. Encoding is kafka-python's; the socket is ours.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol, Self

from harness.errors import HarnessFailure
from harness.faults.own_traffic import NoAnswer
from harness.plan import number_of
from harness.protocols import Cluster, Node, NodeView, PartitionView
from harness.run.observer import merge
from harness.servers import NotSent, await_none, connected
from targets.kafka import wire
from targets.kafka.configuration import BROKER_PORT, CONTROLLER_PORT
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import OLDEST_IMAGE, lowest_version, spoken_by

_RECEIVED_BYTES: Final = 1 << 20


class Ask(Protocol):
    """Queries a node, by its name."""

    def __call__(self, node: str, request: Any, *, timeout_s: float) -> Any:
        """The response of this node, to a request whose version is as high as the node's, and the
        request's `max_version`, allow. Raises NoAnswer."""


class NotReached(NoAnswer):
    """A node was not even connected: nothing was sent."""


class Connection:
    """A connection to one node, for one question after the other."""

    def __init__(
        self,
        address: str,
        port: int,
        *,
        timeout_s: float,
        version: str = OLDEST_IMAGE,
        own: bool = True,
    ) -> None:
        """Connect to a node of this version of Kafka. `own`: for the harness; else for its
        workload, as part of what faults meet. Raises NotReached."""
        self._name = f"{address}:{port}"
        self._protocol = wire.KafkaProtocol(client_id="ackloss")
        number = number_of(version)
        self._speaks = wire.BrokerVersionData(number, spoken_by(number))
        try:
            self._socket = connected(address, port, timeout_s=timeout_s, own=own)
        except NotSent as error:
            raise NotReached(f"{self._name}: {error}") from error

    def ask(self, request: Any, *, timeout_s: float) -> Any:
        """Send one request and return its decoded response. After NoAnswer it is unusable."""
        try:
            if request.API_VERSION is None:
                request.API_VERSION = self._speaks.api_version(request)
            self._protocol.send_request(request)
            received = self.exchange(self._protocol.send_bytes(), timeout_s=timeout_s)
            ((_, response),) = self._protocol.receive_bytes(received)
        except (wire.KafkaError, ValueError) as error:
            raise NoAnswer(f"{self._name}: {error}") from error
        return response

    def exchange(self, request: bytes, *, timeout_s: float) -> bytes:
        """Send one encoded request and return its response, both with their sizes in front. After
        NoAnswer it is unusable."""
        deadline, received = time.monotonic() + timeout_s, bytearray()
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(request)
            while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
                self._socket.settimeout(max(0.001, deadline - time.monotonic()))
                if not (part := self._socket.recv(_RECEIVED_BYTES)):
                    raise NoAnswer(f"{self._name} closed the connection")
                received += part
        except OSError as error:
            raise NoAnswer(f"{self._name}: {error}") from error
        return bytes(received)

    def close(self) -> None:
        """End it."""
        self._socket.close()


def ask_of(nodes: Mapping[str, Node], plan: KafkaPlan) -> Ask:
    """Queries the nodes of one of our own clusters, each time on a new connection."""

    def asked(node: str, request: Any, *, timeout_s: float) -> Any:
        at, version = nodes[node], lowest_version(plan)
        port = BROKER_PORT if "broker" in at.roles else CONTROLLER_PORT
        return ask(at.address, port, request, timeout_s=timeout_s, version=version)

    return asked


@dataclass
class Connections:
    """One kept connection to each node that is queried; a context that ends them."""

    addresses: Mapping[str, str]
    port: int
    version: str = OLDEST_IMAGE
    own: bool = True
    _kept: dict[str, Connection] = field(default_factory=dict)

    def ask(self, node: str, request: Any, *, timeout_s: float) -> Any:
        """Query a node. Raises NoAnswer; the next query uses a new connection."""
        deadline = time.monotonic() + timeout_s
        if node not in self._kept:
            self._kept[node] = Connection(
                self.addresses[node],
                self.port,
                timeout_s=timeout_s,
                version=self.version,
                own=self.own,
            )
        try:
            left_s = max(0.001, deadline - time.monotonic())
            return self._kept[node].ask(request, timeout_s=left_s)
        except NoAnswer:
            self._kept.pop(node).close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End them."""
        for connection in self._kept.values():
            connection.close()


def ask(
    address: str, port: int, request: Any, *, timeout_s: float, version: str = OLDEST_IMAGE
) -> Any:
    """Send one request and return its decoded response. Raises NoAnswer."""
    with Connections({address: address}, port, version) as connections:
        return connections.ask(address, request, timeout_s=timeout_s)


EARLIEST, LATEST = -2, -1
TOPIC, BROKER = 2, 4
"""Kinds of resources that have settings."""

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Isolation levels: of the end of a partition, and its last stable offset."""

ASK_S = 2.0
_POLL_S = 0.1
_ANSWER_S = 5.0
_CONFIGS_S = 10.0
NO_EPOCH = -1
"""The leader epoch of answers without one: metadata before version 7."""

Partitions = tuple[PartitionView, ...]
Values = dict[str, str | None]


def metadata(ask: Ask, node: str, topics: Sequence[str], *, timeout_s: float) -> Any:
    """What a broker reports to clients about the brokers and these topics. Raises NoAnswer."""
    named = [wire.MetadataRequest.MetadataRequestTopic(name=each) for each in topics]
    request = wire.MetadataRequest(topics=named, allow_auto_topic_creation=False)
    return ask(node, request, timeout_s=timeout_s)


def partitions(ask: Ask, node: str, topics: Sequence[str], *, timeout_s: float) -> list[Partitions]:
    """These topics as a broker reports them to clients. Raises NoAnswer."""
    answer = metadata(ask, node, topics, timeout_s=timeout_s)
    by_name = {topic.name: topic.partitions for topic in answer.topics}
    return [
        tuple(
            PartitionView(
                partition=p.partition_index,
                leader=broker_name(p.leader_id) if p.leader_id >= 0 else None,
                leader_epoch=NO_EPOCH if p.leader_epoch is None else p.leader_epoch,
                members=tuple(sorted(map(broker_name, p.isr_nodes))),
                replicas=tuple(map(broker_name, p.replica_nodes)),
            )
            for p in sorted(by_name.get(topic, ()), key=lambda p: int(p.partition_index))
        )
        for topic in topics
    ]


def offset(
    ask: Ask, leader: str, topic: str, partition: int, which: int, *, isolation: int = 0
) -> int | None:
    """Where a partition begins (`EARLIEST`) or ends (`LATEST`) for readers of an isolation, as its
    leader reports it; null when it does not."""
    kind = wire.ListOffsetsRequest.ListOffsetsTopic
    of_partition = kind.ListOffsetsPartition(
        partition_index=partition, timestamp=which, max_num_offsets=1, current_leader_epoch=NO_EPOCH
    )
    named = kind(name=topic, partitions=[of_partition])
    request = wire.ListOffsetsRequest(replica_id=-1, topics=[named], isolation_level=isolation)
    try:
        answer = ask(leader, request, timeout_s=_ANSWER_S).topics[0].partitions[0]
    except NoAnswer:
        return None
    if answer.error_code:
        return None
    return int(answer.old_style_offsets[0] if answer.old_style_offsets else answer.offset)


def configs(ask: Ask, node: str, kind: int, name: str) -> Values | None:
    """Settings in force, by name, as a node reports them (DescribeConfigs), without the keys that
    it only echoes: those have no value, and no type where it reports types. `None` where it does
    not let us read them. Raises NoAnswer."""
    requested = wire.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    answer = ask(node, wire.DescribeConfigsRequest(resources=[requested]), timeout_s=_CONFIGS_S)
    if answer.results[0].error_code:
        return None
    return {
        each.name: each.value
        for each in sorted(answer.results[0].configs, key=lambda each: str(each.name))
        if each.value is not None or getattr(each, "config_type", False)
    }


def features(ask: Ask, node: str) -> dict[str, int]:
    """The finalized features and their levels; before 2.4 there are none. Raises NoAnswer."""
    return finalized_and_highest(ask, node)[0]


def finalized_and_highest(ask: Ask, node: str) -> tuple[dict[str, int], dict[str, int]]:
    """The same, and the highest levels that the node supports. Raises NoAnswer."""
    request = wire.ApiVersionsRequest(client_software_name="ackloss", client_software_version="1")
    answer = ask(node, request, timeout_s=_ANSWER_S)
    finalized = {f.name: int(f.max_version_level) for f in answer.finalized_features or []}
    return finalized, {f.name: int(f.max_version) for f in answer.supported_features or []}


def error_name(code: int) -> str:
    """Kafka's own name of an error: PREFERRED_LEADER_NOT_AVAILABLE."""
    return str(wire.for_code(code).message)


def broker_name(broker: int) -> str:
    """The node that a broker is, by its id."""
    return f"b{broker}"


Observe = Callable[..., NodeView | None]
"""Queries a node for its own view: see `Target.observe`."""


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


LEADERS_S: Final = 20.0
"""How long a move of leaders may take."""


@dataclass(frozen=True)
class Leadership(ABC):
    """The leaders of one plan's topic, moved as both modes let an operator do it. A partition has
    an ordered list of replicas; the first of them is its preferred leader, and any in-sync replica
    may lead."""

    nodes: Mapping[str, Node]
    plan: KafkaPlan
    role: ClassVar[str]
    """The role of the nodes that know the leaders."""

    @abstractmethod
    def reorder(self, wanted: Mapping[int, Sequence[str]]) -> None:
        """Give partitions their replicas in another order; the leaders stay."""

    @abstractmethod
    def elect(self, partitions: Sequence[int]) -> Mapping[int, str]:
        """Elect the preferred leaders; returns the name of the error for each partition where that
        was refused. A preferred leader that leads already is not an error."""

    @abstractmethod
    def look(self, node: Node) -> NodeView | None:
        """What one node believes."""

    @property
    def knowing(self) -> list[Node]:
        """The nodes that know the leaders."""
        return [node for node in self.nodes.values() if self.role in node.roles]

    def placements(self) -> Mapping[int, PartitionView]:
        """The partitions as they are now, with their replicas in order of preference: what nodes
        believe, each queried for itself."""
        deadline = time.monotonic() + LEADERS_S
        while time.monotonic() < deadline:
            with ThreadPoolExecutor(max_workers=len(self.knowing)) as pool:
                answers = [(0, view) for view in pool.map(self.look, self.knowing) if view]
            if partitions := merge(0, answers).partitions:
                return partitions
            time.sleep(_POLL_S)
        raise HarnessFailure(f"no {self.role} has reported the topic for {LEADERS_S:g} s")
