"""Faults that meet requests: what Kafka's requests and errors are called, which of them a plan may
name, and the proxies that meet them: a JVM beside each node's own, only in plans that need it.

Names and numbers are those of kafka-python's tables, as are the APIs that each version reports to
clients (ApiVersions). APIs among brokers and controllers that no broker reports to clients are in a
table here, by the KIP that introduced them. The proxies are compiled of the core's proxy and of
what knows Kafka's messages, against the kafka-clients of the very version; before 3.0 without the
latter, as its classes are not yet there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from harness.errors import PlanError
from harness.images.keeping import Say
from harness.levers.protocol import Requests
from harness.levers.proxied import (
    ANY,
    HEAP_MB,
    JAR,
    SOURCES,
    Rule,
    check_name,
    proxied,
    rules,
    with_proxy,
)
from harness.plan import number_of
from harness.protocols import ImageRef, Ingredients, NodeSpec
from targets.kafka import wire
from targets.kafka.jars import compiled
from targets.kafka.kraft import ports_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import DEFAULT_VERSION, KRAFT, metadata_of, release_line_of, spoken_by

# Which errors the answers of some APIs carry, as a table to be checked against Kafka's sources.
#
# From the lists of possible errors in the classes of kafka-clients that make these answers
# (`org.apache.kafka.common.requests.ProduceResponse` and so on, 4.3), with what their clients
# handle besides. Of an API that is not here nothing is known, so no error but `UNEXPECTED` may be
# named.

SAME: Final[Mapping[str, int]] = {
    "NOT_LEADER_OR_FOLLOWER": 6,
    "MESSAGE_TOO_LARGE": 10,
    "INVALID_TOPIC_EXCEPTION": 17,
    "UNKNOWN_SERVER_ERROR": -1,
}
"""Names of Kafka's own for what kafka-python calls otherwise."""

_STORAGE: Final = frozenset({3, 6, 29, 56, 74, 75, 100})
_GROUP: Final = frozenset({14, 15, 16, 24, 30})
_COORDINATOR: Final = frozenset({7, 14, 15, 16, 42, 53, 90, 47, 120})

CARRIED: Final[Mapping[str, frozenset[int]]] = {
    "Produce": _STORAGE
    | {2, 5, 7, 10, 17, 18, 19, 20, 21, 31, 32, 42, 43, 44, 45, 46, 47, 48, 49, 51, 53, 59, 76}
    | {87, 90, 103, 120},
    "Fetch": _STORAGE | {1, 2, 7, 9, 35, 70, 71, 76, 103, 106, 109},
    "EndTxn": _COORDINATOR | {48, 49, 51, 52},
    "InitProducerId": _COORDINATOR | {31, 49, 50, 51},
    "AddPartitionsToTxn": _COORDINATOR | {3, 29, 48, 49, 51, 55},
    "FindCoordinator": frozenset({7, 14, 15, 24, 30, 42, 53}),
    "AddOffsetsToTxn": _COORDINATOR | {30, 48, 49, 51},
    "TxnOffsetCommit": _COORDINATOR | {3, 12, 22, 25, 28, 29, 30, 82},
    "OffsetCommit": _GROUP | {3, 12, 22, 25, 27, 28, 29, 82, 100, 113},
    "OffsetFetch": _GROUP | {3, 25, 29, 88, 100, 113},
    "JoinGroup": _GROUP | {22, 23, 24, 25, 26, 27, 35, 79, 81, 82},
    "SyncGroup": _GROUP | {22, 23, 25, 27, 82},
    "Heartbeat": _GROUP | {22, 25, 27, 82},
    "LeaveGroup": _GROUP | {25, 82},
    "ConsumerGroupHeartbeat": _GROUP | {25, 29, 42, 81, 110, 111, 112},
    "ListOffsets": frozenset({1, 3, 5, 6, 9, 29, 35, 43, 56, 74, 75, 78}),
    "Metadata": frozenset({3, 5, 17, 29, 72, 100}),
}
"""The numbers of the errors by API; -1, an unexpected failure, is carried by all."""
UNEXPECTED: Final = -1


ERRORS_SINCE: Final = "3.0"
"""Before it, kafka-clients has other ways to make an error's answer and to read requests."""

_AMONG_NODES: Final[Mapping[str, str]] = {
    "Vote": "2.8",
    "BeginQuorumEpoch": "2.8",
    "EndQuorumEpoch": "2.8",
    "DescribeQuorum": "2.8",
    "FetchSnapshot": "2.8",
    "AlterPartition": "2.7",
    "Envelope": "2.8",
    "BrokerRegistration": "2.8",
    "BrokerHeartbeat": "2.8",
    "UnregisterBroker": "2.8",
    "AllocateProducerIds": "3.0",
    "UpdateFeatures": "2.7",
    "ControllerRegistration": "3.7",
    "AssignReplicasToDirs": "3.7",
    "AddRaftVoter": "3.9",
    "RemoveRaftVoter": "3.9",
    "UpdateRaftVoter": "3.9",
}
"""APIs by the first version whose nodes use them with each other (KIP-497, 500, 584, 595, 631, 730,
853, 858, 919)."""
_OF_ZOOKEEPER: Final = frozenset({"LeaderAndIsr", "StopReplica", "UpdateMetadata"})
"""What only a controller sends to brokers, and only where ZooKeeper keeps the metadata."""


def requests(ids: Callable[[str], tuple[str, ...]] = lambda _: ()) -> Requests:
    """Kafka's requests, for the lever; `ids` of a topic by its name."""
    return Requests(
        apis=apis(), codes=codes(), ports=lambda node: ports_of(node.roles), other_names=ids
    )


@cache
def apis() -> Mapping[str, int]:
    """The number of every API by its name."""
    return {each.name: int(each) for each in wire.ApiKey}


@cache
def codes() -> Mapping[str, int]:
    """The number of every error by its name, but the absence of one."""
    found = {each.message: each.errno for each in wire.kafka_errors.values() if each.errno}
    named = {str(name): int(code) for name, code in found.items() if name and name.isupper()}
    return {**named, **SAME}


def check(plan: KafkaPlan) -> None:
    """Refuse what this plan's version does not have: APIs, errors, and errors before 3.0."""
    for rule in rules(plan):
        for name in rule.apis:
            _check_api(name, plan, key=f"{rule.key}.api")
        rule.refuse({"path": ("Kafka has no paths", "name a topic")})
        if number_of(_version(plan)) < number_of(ERRORS_SINCE):
            what = f"needs Kafka {ERRORS_SINCE} or later, not {_version(plan)}"
            hint = "leave it out, or choose another act"
            rule.refuse({"code": (what, hint), "topic": (what, hint)})
        _check_code(rule, key=f"{rule.key}.code")


def _check_api(name: str, plan: KafkaPlan, *, key: str) -> None:
    if name == ANY:
        return
    such_as = "Produce, Fetch or EndTxn"
    check_name(name, apis(), owner="Kafka", kind="API", key=key, such_as=such_as)
    version, mode = _version(plan), metadata_of(plan)
    if name not in _known(number_of(version), mode):
        raise PlanError(
            f"Kafka {version} in {mode} mode does not have the API {name}",
            key=key,
            hint="choose another API, or another version",
        )


@cache
def _known(version: tuple[int, ...], mode: str) -> frozenset[str]:
    to_clients = {name for name, number in apis().items() if number in spoken_by(version)}
    among = {name for name, since in _AMONG_NODES.items() if version >= number_of(since)}
    if mode != KRAFT:
        return frozenset(to_clients | among & {"AlterPartition", "AllocateProducerIds"})
    return frozenset((to_clients | among) - _OF_ZOOKEEPER)


def _check_code(rule: Rule, *, key: str) -> None:
    """An error that there is, of APIs whose answers carry it."""
    if (code := rule.options.get("code")) is None:
        return
    such_as = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    check_name(str(code), codes(), owner="Kafka", kind="error", key=key, such_as=such_as)
    rule.require_apis()
    for name in rule.apis:
        carried = {*CARRIED.get(name, ()), UNEXPECTED}
        if codes()[str(code)] not in carried:
            names = [each for each, number in codes().items() if number in carried]
            what = f"the response to {name} does not carry {code}"
            if name not in CARRIED:
                what = f"which errors the response to {name} carries is not known to ackloss"
            raise PlanError(what, key=key, hint=f"choose one of {', '.join(names)}")


def _version(plan: KafkaPlan) -> str:
    return plan.target.version or DEFAULT_VERSION


OURS: Final = tuple(sorted(Path(__file__).parent.glob("java/Kafka*.java")))
"""The sources of what it must know of Kafka."""
WIRE: Final = "KafkaMessages"
"""The class that reads all messages; without it, of older versions, the one that reads headers."""
_HEADERS: Final = "KafkaWire"
_LOOPBACK: Final = "127.0.0.1"


def proxy_files(plan: KafkaPlan, image: ImageRef, say: Say) -> dict[str, bytes]:
    """The jar, where the plan needs it, for the target's ingredients."""
    if not proxied(plan):
        return {}
    found = sorted([*SOURCES.glob("*.java"), *OURS])
    if _wire(image) != WIRE:
        found = [source for source in found if source.stem != WIRE]
    return {JAR: compiled(image, JAR, found, say, needed_by="faults")}


def _wire(image: ImageRef) -> str:
    version = number_of(image.version or DEFAULT_VERSION)
    return WIRE if version >= number_of(ERRORS_SINCE) else _HEADERS


def with_proxies(
    specs: Sequence[NodeSpec],
    plan: KafkaPlan,
    ingredients: Ingredients,
    addresses: Mapping[str, str],
) -> list[NodeSpec]:
    """The nodes, each with a proxy beside it, where the plan needs it."""
    if not proxied(plan):
        return list(specs)
    java = release_line_of(plan).java(heap_mb=HEAP_MB)
    everywhere = metadata_of(plan) == KRAFT  # it listens at every address of its node
    return [
        with_proxy(
            spec,
            ingredients.files.get(JAR, b""),
            java=java,
            wire=_wire(ingredients.image),
            ports=ports_of(spec.roles),
            to=_LOOPBACK if everywhere else addresses[spec.name],
        )
        for spec in specs
    ]
