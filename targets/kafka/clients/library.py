"""The contract of a client library: what a plan may ask of it, and its clients; the library that is
a process of the user's; and how an operation ended: from error codes to ok, fail and info.

*A process of the user's.* Its settings have the names of Kafka's own documentation, which the Java
client has too; each library's author knows what they are called there. ackloss sets a few unless
the plan says otherwise, as for its own clients: a run takes a minute, so timeouts are short, and a
result must say with which acks its writes were acknowledged. They are passed on, and not read back.

*How an operation ended*: one table per library. Codes are those of Kafka's protocol, and
librdkafka's own (below -1), which other libraries' errors are translated to.

`fail` means certainly not written, and that needs proof. A broker gives it only when it refused the
*only* attempt with a code that it answers before it appends. Libraries report the code of the last
attempt alone: after a retry, an earlier attempt may have been written (seen: 1,451 answers
NOT_ENOUGH_REPLICAS, three of those values in the log). So with retries or idempotence no code is
proof, and without them it is only where the library is known not to send a write again by itself:

librdkafka    does: with `retries = 0` it sends again after codes 3, 5, 6, 8, 9, 15 and 16 (2.16.1)
              without counting, and reports the last code alone (seen: appended and answered 6, sent
              again, answered 19): no code is proof
kafka-python  does not, but for the halves of a batch that was refused as too large (10, 18)
              (`Sender._dispatch_error`): the whole was refused, so the code of a half speaks for
              each attempt
java          the same, after 10 alone (`Sender.completeBatch`)

Everything else is `info`, unknown codes included. tests/targets/kafka/test_attempts.py sends every
code to each library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from harness.errors import HarnessFailure
from harness.images.keeping import Say
from harness.protocols import (
    FAIL,
    INFO,
    OK,
    Client,
    Cluster,
    ImageRef,
    Ingredients,
    NodeSpec,
    RunCluster,
    with_role,
)
from harness.protocols.systems import COMMAND, EXEC, JSON
from targets.kafka import definitions
from targets.kafka.configuration import BROKER_PORT
from targets.kafka.definitions import requested
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import ReleaseLine, release_line_of

CONFLUENT: Final = "confluent-kafka"
OURS: Final = "ackloss"
READERS: Final = (OURS, CONFLUENT)
"""Who reads: our own reader, then a library, which is the second opinion, no matter which client
wrote: it reads every format and every compression, and another one has read before it."""


class Library(Protocol):
    """A client library that can write."""

    plugin: ClassVar[str]
    """Its name in plans: `workload.client`."""

    naming: ClassVar[definitions.Library] = "librdkafka"
    """By whose names it is given its settings."""

    def why_refused(self, key: str) -> str | None:
        """Why a plan may not set this producer setting; `None` when it may."""
        return definitions.why_refused(key, "producer", self.naming)

    def check(self, plan: KafkaPlan) -> None:
        """Refuse, by PlanError, producer settings that a plan may not set or that are wrong."""
        self.settings(plan)

    def settings(self, plan: KafkaPlan) -> dict[str, str]:
        """What its producers are started with, but for addresses."""

    def software(self, plan: KafkaPlan) -> str:
        """Its name and version, as a result shows them."""

    def client(self, cluster: Cluster, plan: KafkaPlan) -> Client:
        """Producers of the plan's `workload.clients`, shared by the workload's processes."""
        run_id = cluster.run_id if isinstance(cluster, RunCluster) else ""
        return self.producing(bootstrap(cluster), plan, run_id=run_id)

    def producing(
        self, addresses: str, plan: KafkaPlan, *, run_id: str = "", more: Mapping[str, Any] = {}
    ) -> Client:
        """The same, by the brokers' addresses and, in `more`, what else reaching them takes."""
        raise HarnessFailure(f"{self.plugin} reaches no cluster by its addresses alone")

    def connection(self, addresses: str, plan: KafkaPlan, number: int) -> dict[str, JSON]:
        """What a program that is client `number` needs to know: see docs/how-to/any-client.md."""
        return {
            "bootstrap_servers": [*bootstrap_of(number - 1, addresses, plan).split(",")],
            "topic": plan.topic.name,
            "partitions": plan.partitions,
            "producer": {**self.settings(plan)},
        }

    def reported_settings(self, plan: KafkaPlan, cluster: Cluster) -> dict[str, str]:
        """The settings of its producers, defaults included, as one of them reports, where it can.
        Raises PlanError when one that the plan requests is unknown to it or differs."""
        return self.settings(plan)

    def names(self, plan: KafkaPlan) -> list[str]:
        """The names of its clients' nodes, if they run in nodes of the cluster: with the role
        `client`, which `all` and the like leave out (`harness.faults.selectors`)."""
        return []

    def files(self, plan: KafkaPlan, image: ImageRef, say: Say) -> dict[str, bytes]:
        """What its nodes need and took long to make, by name: for the target's ingredients."""
        return {}

    def nodes(
        self, plan: KafkaPlan, release: ReleaseLine, ingredients: Ingredients
    ) -> list[NodeSpec]:
        """Its nodes."""
        return []


def protocol(plan: KafkaPlan) -> dict[str, str]:
    """The settings for the protocol of brokers that do not report it, by their names in plans; none
    where clients ask."""
    speaks = release_line_of(plan).speaks
    if speaks is None:
        return {}
    return {"api.version.request": "false", "broker.version.fallback": ".".join(map(str, speaks))}


def librdkafka_protocol(plan: KafkaPlan) -> dict[str, str]:
    """The same for librdkafka, which writes two lines on what is deprecated for every client."""
    spoken = protocol(plan)
    return {**spoken, "log_level": "2"} if spoken else {}


def bootstrap(cluster: Cluster) -> str:
    """Every broker's address, comma separated."""
    return ",".join(f"{node.address}:{BROKER_PORT}" for node in with_role(cluster, "broker"))


def bootstrap_of(client: int, addresses: str, plan: KafkaPlan) -> str:
    """The bootstrap servers of one client, counted from 0: every broker, or one of its own."""
    if plan.workload.bootstrap == "all":
        return addresses
    brokers = addresses.split(",")
    return brokers[client % len(brokers)]


_DELIVERY, _REQUEST, _BLOCK = "delivery.timeout.ms", "request.timeout.ms", "max.block.ms"

ANY_DEFAULTS: Final[Mapping[str, str]] = {
    "acks": "all",
    "enable.idempotence": "false",
    _DELIVERY: "8000",
    _REQUEST: "3000",
    _BLOCK: "3000",
}
"""What ackloss sets unless the plan says otherwise."""


_GRACE_S: Final = 5.0
"""How much longer than its settings allow a write may take until it counts as blocked."""


@dataclass(frozen=True)
class AnyClient(Library):
    """Processes of the user's, which the core starts."""

    plugin: ClassVar[str] = EXEC
    naming: ClassVar[definitions.Library] = "java"

    def settings(self, plan: KafkaPlan) -> dict[str, str]:
        own = requested(plan.workload.producer, "java")
        settings = {**ANY_DEFAULTS, **own}
        if _REQUEST not in own:
            settings[_REQUEST] = str(min(int(ANY_DEFAULTS[_REQUEST]), int(settings[_DELIVERY])))
        return settings

    def answers_within_s(self, plan: KafkaPlan) -> float:
        """The time that a write may take by its settings, and some."""
        settings = self.settings(plan)
        return (int(settings[_BLOCK]) + int(settings[_DELIVERY])) / 1000 + _GRACE_S

    def software(self, plan: KafkaPlan) -> str:
        return COMMAND  # until its processes report it


def attempts_once(effective: Mapping[str, str]) -> bool:
    """Whether these effective settings forbid a producer to retry a write. (Some retry anyway.)"""
    return effective["enable.idempotence"] != "true" and effective.get("retries") == "0"


REFUSED: Final[Mapping[int, str]] = {
    10: "MSG_SIZE_TOO_LARGE: the leader checks sizes before it appends",
    18: "RECORD_LIST_TOO_LARGE: the leader checks the batch against the segment before it appends",
    19: "NOT_ENOUGH_REPLICAS: the ISR was below min.insync.replicas, checked before the append",
    29: "TOPIC_AUTHORIZATION_FAILED: rights are checked before anything else",
    87: "INVALID_RECORD: records are validated before they are appended",
}
"""Codes that a broker answers before it appends: fail, if this was the only attempt."""

REFUSALS: Final[Mapping[str, Mapping[int, str]]] = {
    "librdkafka": {},
    "kafka-python": REFUSED,
    "java": REFUSED,
}
"""By library: the codes that prove a rejection, for a producer that is configured not to retry."""

UNPROVEN: Final[Mapping[int, str]] = {
    3: "UNKNOWN_TOPIC_OR_PART: answered perhaps by one that appended and then lost the topic",
    5: "LEADER_NOT_AVAILABLE: answered perhaps by one that appended and then lost its place",
    6: "NOT_LEADER_FOR_PARTITION: answered perhaps by one that appended and then lost its place",
    7: "REQUEST_TIMED_OUT: appended by the leader, the followers did not confirm in time",
    13: "NETWORK_EXCEPTION: the connection broke, the request may have arrived",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND: appended, and the ISR is below min.insync.replicas",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER: an earlier attempt may have been written",
    46: "DUPLICATE_SEQUENCE_NUMBER: an earlier attempt was written, or was once",
    47: "INVALID_PRODUCER_EPOCH: an earlier attempt may have been written",
    56: "KAFKA_STORAGE_ERROR: the disk failed, perhaps after the append",
    -150: "_FATAL: the producer gave up, attempts may have been written",
    -151: "_PURGE_INFLIGHT: given up while a request was under way",
    -152: "_PURGE_QUEUE: given up while queued, perhaps for another attempt",
    -185: "_TIMED_OUT: nothing was answered in time",
    -192: "_MSG_TIMED_OUT: message.timeout.ms passed, attempts may have been written",
    -195: "_TRANSPORT: the connection broke, the request may have arrived",
}
"""Codes that are met often and prove nothing, with the reason."""


def refusals(library: str, effective: Mapping[str, str]) -> Mapping[int, str]:
    """The codes that prove, for a producer of this library with these effective settings, that a
    write was refused."""
    return REFUSALS[library] if attempts_once(effective) else {}


def outcome(code: int | None, proof: Mapping[int, str]) -> str:
    """How a write ended whose delivery report has this code; null: an error without a code. `proof`
    holds the codes that prove a refusal (`refusals`)."""
    return OK if code == 0 else FAIL if code in proof else INFO
