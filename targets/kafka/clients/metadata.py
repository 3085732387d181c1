"""Changes of a cluster's metadata, and reads of it from one broker alone.

A register of the workload is a piece of metadata, by its key:

    topic-N         a setting of a topic; nothing where the broker knows no such topic. A write
                    changes it, and creates the topic where there is none
    partitions-N    the number of a topic's partitions; a write of 1 creates the topic
    node-N          a setting of broker N, which alone changes and reports it
    nodes           the same setting, as the default of all brokers
    any other       as `topic-N`

An element of a set is a topic; a read returns all topics that the broker knows.

Encoding is kafka-python's, and each request is sent once, by us: client libraries send a request
again, to other brokers too, and do not say so. In a request of several, only the last one changes
something, and each is sent only after an answer that proves that nothing was changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version as installed
from typing import Any, ClassVar, Final

from harness.errors import PlanError
from harness.protocols import FAIL, Client, Cluster, Completion, Invoke, with_role
from harness.run.client_pool import ThreadedClient
from harness.servers import ErrorAnswer, ErrorRow, KeyValueClient, Moving, NotSent, in_turn
from targets.kafka import wire
from targets.kafka.brokers import BROKER, TOPIC, Connections, NotReached, error_name
from targets.kafka.clients.library import Library
from targets.kafka.configuration import BROKER_PORT
from targets.kafka.kraft import creatable
from targets.kafka.plan import REQUEST_MS, KafkaPlan
from targets.kafka.versions import DEFAULT_VERSION, KRAFT, is_before, metadata_of

UNKNOWN_TOPIC: Final = 3

FORWARDED: Final = (
    ErrorRow(40, "INVALID_CONFIG", FAIL, "every controller refuses the value, at every attempt"),
    ErrorRow(42, "INVALID_REQUEST", FAIL, "every controller refuses it, at every attempt"),
)
"""With KRaft's controllers a broker forwards a request to the active controller, and forwards it
again where the answer is lost or comes from a controller that is no longer active: what was
refused may be the second attempt, and 36 (TOPIC_ALREADY_EXISTS) or 37 (INVALID_PARTITIONS) what the
first has done. A controller that resigns answers 41 (NOT_CONTROLLER) for changes in its log that
the next one may find committed. So only what no attempt can have done is a failure."""

DIRECT: Final = (
    *FORWARDED,
    ErrorRow(3, "UNKNOWN_TOPIC_OR_PARTITION", FAIL, "the broker looks for the topic first"),
    ErrorRow(37, "INVALID_PARTITIONS", FAIL, "the number is compared before anything is written"),
    ErrorRow(38, "INVALID_REPLICATION_FACTOR", FAIL, "brokers are counted before topics are made"),
    ErrorRow(41, "NOT_CONTROLLER", FAIL, "a broker that is not the controller does nothing"),
)
"""With ZooKeeper the broker that is sent a request executes it itself. It writes to ZooKeeper by a
client that repeats requests: 36 (TOPIC_ALREADY_EXISTS) may be what its first attempt has done."""

SETTINGS: Final[Mapping[int, str]] = {
    TOPIC: "index.interval.bytes",
    BROKER: "log.index.interval.bytes",
}
"""What is set: any number from 0 on is allowed, and it changes nothing where nothing is stored."""

_TOPIC_SOURCE, _BROKER_SOURCE, _DEFAULT_SOURCE = 1, 2, 3
"""Where a setting that is reported comes from: set for the topic, the broker, all brokers."""
_SET: Final = 0
_REQUEST: Final = "request.timeout.ms"
_OLDEST: Final = "2.3"


class MetadataClient(KeyValueClient):
    """A connection to one broker, and to others where they alone can serve a request."""

    def __init__(self, own: str, addresses: Mapping[str, str], plan: KafkaPlan) -> None:
        self._own, self._plan = own, plan
        self._timeout_s = int(Metadata().settings(plan)[_REQUEST]) / 1000
        self._connections = Connections(
            addresses, BROKER_PORT, plan.target.version or DEFAULT_VERSION, own=False
        )
        self._forwards = metadata_of(plan) == KRAFT

    @property
    def errors(self) -> Sequence[ErrorRow]:  # type: ignore[override]
        """By who executes requests."""
        return FORWARDED if self._forwards else DIRECT

    def call(self, op: Invoke) -> Completion:
        """See `KeyValueClient`; with the broker that served it."""
        type_, position, error, _, result = super().call(op)
        return type_, position, error, self._at(op[3] or ""), result

    def read(self, key: str) -> int | None:
        if key.startswith("partitions-"):
            (topic,) = self._metadata([self._topic(key)]).topics
            return None if topic.error_code == UNKNOWN_TOPIC else len(topic.partitions)
        kind, name, source = self._resource(key)
        resource = wire.DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=[SETTINGS[kind]]
        )
        request = wire.DescribeConfigsRequest(resources=[resource])
        (answer,) = self._ask(self._at(key), request).results
        if answer.error_code == UNKNOWN_TOPIC:
            return None
        _refuse(answer.error_code)
        found = (int(each.value) for each in answer.configs if each.config_source == source)
        return next(found, None)

    def write(self, key: str, value: int) -> None:
        if key.startswith("partitions-"):
            self._grow(self._topic(key), value)
        else:
            try:
                self._set(key, value)
            except ErrorAnswer as refused:
                if refused.code != UNKNOWN_TOPIC:
                    raise
                self._create(self._topic(key), {SETTINGS[TOPIC]: str(value)})

    def delete(self, key: str) -> None:
        names = [self._topic(key)]
        request = wire.DeleteTopicsRequest[3](topic_names=names, timeout_ms=self._limit_ms)
        _refuse(self._ask(self._controller(), request).responses[0].error_code)

    def add(self, value: int) -> None:
        self._create(self._topic(str(value)), {})

    def read_all(self) -> Iterable[int]:
        prefix = self._topic("")
        names = (str(topic.name) for topic in self._metadata(None).topics if not topic.error_code)
        ends = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
        return [int(end) for end in ends if end.isdigit()]

    def close(self) -> None:
        self._connections.close()

    def _at(self, key: str) -> str:
        """The broker that serves a register."""
        return f"b{key[5:]}" if key.startswith("node-") else self._own

    def _topic(self, key: str) -> str:
        return f"{self._plan.topic.name}-{key}"

    def _resource(self, key: str) -> tuple[int, str, int]:
        """The kind and the name of what has a setting, and the source of one that is set there."""
        if key == "nodes":
            return BROKER, "", _DEFAULT_SOURCE
        if key.startswith("node-"):
            return BROKER, key[5:], _BROKER_SOURCE
        return TOPIC, self._topic(key), _TOPIC_SOURCE

    def _set(self, key: str, value: int) -> None:
        kind, name, _ = self._resource(key)
        resource = wire.IncrementalAlterConfigsRequest.AlterConfigsResource
        config = resource.AlterableConfig(
            name=SETTINGS[kind], config_operation=_SET, value=str(value)
        )
        altered = resource(resource_type=kind, resource_name=name, configs=[config])
        request = wire.IncrementalAlterConfigsRequest(resources=[altered], validate_only=False)
        _refuse(self._ask(self._at(key), request).responses[0].error_code)

    def _create(self, topic: str, settings: Mapping[str, str]) -> None:
        made = self._plan.with_topic(
            name=topic, partitions=1, leaders=None, first_leader=None, settings=settings
        )
        request = wire.CreateTopicsRequest(
            topics=[creatable(made)], timeout_ms=self._limit_ms, validate_only=False
        )
        _refuse(self._ask(self._controller(), request).topics[0].error_code)

    def _grow(self, topic: str, partitions: int) -> None:
        if partitions == 1:
            return self._create(topic, {})
        kind = wire.CreatePartitionsRequest.CreatePartitionsTopic
        request = wire.CreatePartitionsRequest(
            topics=[kind(name=topic, count=partitions, assignments=None)],
            timeout_ms=self._limit_ms,
            validate_only=False,
        )
        return _refuse(self._ask(self._controller(), request).results[0].error_code)

    @property
    def _limit_ms(self) -> int:
        """How long a broker may wait, so that its answer is there in time."""
        return int(self._timeout_s * 800)

    def _controller(self) -> str:
        """The broker that is sent changes of topics: with ZooKeeper, the controller alone takes
        them. Raises NotSent where the broker knows of none."""
        if self._forwards:
            return self._own
        controller = self._metadata([]).controller_id
        if controller < 0:
            raise NotSent("there is no controller")
        return f"b{controller}"

    def _metadata(self, topics: Sequence[str] | None) -> Any:
        named = topics and [wire.MetadataRequest.MetadataRequestTopic(name=each) for each in topics]
        return self._ask(
            self._own, wire.MetadataRequest(topics=named, allow_auto_topic_creation=False)
        )

    def _ask(self, node: str, request: Any) -> Any:
        try:
            return self._connections.ask(node, request, timeout_s=self._timeout_s)
        except NotReached as error:
            raise NotSent(str(error)) from error


def _refuse(code: int) -> None:
    """Raise ErrorAnswer unless this is the code of no error."""
    if code:
        raise ErrorAnswer(code, error_name(code))


@dataclass(frozen=True)
class Metadata(Library):
    """Our own requests: see `targets.kafka.clients.library`."""

    plugin: ClassVar[str] = "metadata"

    def check(self, plan: KafkaPlan) -> None:
        load = plan.workload
        if load.client is not None:
            raise PlanError(
                f"{load.name} changes metadata by requests of ackloss' own",
                key="workload.client",
                hint="leave it out",
            )
        for key in load.producer:
            if key != _REQUEST:
                raise PlanError(
                    f"{load.name} has no producers",
                    key=f'workload.producer."{key}"',
                    hint=f"there is {_REQUEST}: how long a client waits for an answer",
                )
        timeout = self.settings(plan)[_REQUEST]
        if not timeout.isdigit() or not 100 <= int(timeout) <= 600_000:
            raise PlanError(
                f"is {timeout}; use 100 to 600,000", key=f'workload.producer."{_REQUEST}"'
            )
        if plan.cells:
            raise PlanError(f"{load.name} has no cells: all share their brokers", key="cells")
        if load.options.get("cas_share", 0.2 if load.name == "register" else 0):
            raise PlanError(
                "Kafka's settings cannot be compared and set",
                key="workload.options.cas_share",
                hint="set it to 0",
            )
        for key in ("processes", "clients"):
            if (number := getattr(load, key)) < plan.target.brokers:
                raise PlanError(
                    f"is {number}; one for each of {plan.target.brokers} brokers reads from it at "
                    "the end",
                    key=f"workload.{key}",
                )
        if is_before(plan, _OLDEST):
            raise PlanError(
                f"Kafka {plan.target.version} cannot change single settings",
                key="target.version",
                hint=f"use {_OLDEST} or later",
            )

    def settings(self, plan: KafkaPlan) -> dict[str, str]:
        return {_REQUEST: str(plan.workload.producer.get(_REQUEST, REQUEST_MS))}

    def software(self, plan: KafkaPlan) -> str:
        return f"ackloss, encoded by kafka-python {installed('kafka-python')}"

    def client(self, cluster: Cluster, plan: KafkaPlan) -> Client:
        """Clients that begin with one broker after the other; a process keeps its client."""
        servers = [(node.name, node.address) for node in with_role(cluster, "broker")]
        addresses, load = dict(servers), plan.workload
        names = {address: name for name, address in servers}

        def moving(number: int) -> Moving:
            connect = "one" if load.bootstrap == "own" else "all"
            return Moving(
                lambda address: MetadataClient(names[address], addresses, plan),
                in_turn(servers, connect, number),
            )

        return ThreadedClient(moving, threads=load.clients, pinned=True)
