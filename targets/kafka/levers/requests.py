"""What Kafka's requests and errors are called, and which of them a plan may name.

Names and numbers are those of kafka-python's tables, as are the APIs that each version tells
clients about (ApiVersions). APIs among brokers and controllers that no broker tells clients about
are in a table here, by the KIP that brought them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from kafka import errors
from kafka.protocol.api_key import ApiKey
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from harness.errors import PlanError, nearest
from harness.levers.protocol import Requests
from harness.plan import Family, FaultStep
from harness.protocols import Node
from targets.kafka.configuration import BROKER_PORT, CONTROLLER_PORT
from targets.kafka.eras import DEFAULT_VERSION, KRAFT, metadata_of, number_of
from targets.kafka.levers.carried import CARRIED, SAME, UNEXPECTED
from targets.kafka.plan import KafkaPlan

NEMESIS: Final = "protocol"
ERRORS_SINCE: Final = "3.0"
"""Before it, kafka-clients has other ways to make an error's answer and to read requests."""

_ANY: Final = "any"
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
"""What a controller sends to brokers where ZooKeeper keeps the metadata, and nobody elsewhere."""


class Rule(NamedTuple):
    """The options of a fault of single requests, and where they stand in the plan."""

    key: str
    options: Mapping[str, Any]


def rules(plan: KafkaPlan) -> Iterator[Rule]:
    """The faults of single requests in a plan: among its steps, or in the mix of which its steps
    are drawn."""
    given: list[tuple[str, int, FaultStep | Family]]
    if plan.mix is not None:
        given = [("mix.families", place, each) for place, each in enumerate(plan.mix.families)]
    else:
        given = [("faults", place, each) for place, each in enumerate(plan.faults)]
    for where, place, each in given:
        if each.nemesis == NEMESIS:
            yield Rule(f"{where}.{place}", each.options)


def proxied(plan: KafkaPlan) -> bool:
    """Whether nodes of this plan need proxies."""
    return any(rules(plan))


def ports_of_roles(roles: Collection[str]) -> tuple[int, ...]:
    """Where a node is asked: as a broker, as a controller of KRaft, or both."""
    ports = {"broker": BROKER_PORT, "controller": CONTROLLER_PORT}
    return tuple(port for role, port in ports.items() if role in roles)


def ports_of(node: Node) -> tuple[int, ...]:
    """See `ports_of_roles`."""
    return ports_of_roles(node.roles)


@cache
def requests() -> Requests:
    """Kafka's requests, for the lever."""
    return Requests(apis=apis(), codes=codes(), ports=ports_of)


@cache
def apis() -> Mapping[str, int]:
    """The number of every API by its name."""
    return {each.name: int(each) for each in ApiKey}


@cache
def codes() -> Mapping[str, int]:
    """The number of every error by its name, but the absence of one."""
    found = {each.message: each.errno for each in errors.kafka_errors.values() if each.errno}
    named = {str(name): int(code) for name, code in found.items() if name and name.isupper()}
    return {**named, **SAME}


def check(plan: KafkaPlan) -> None:
    """Refuse what this plan's version does not have: APIs, errors, and errors before 3.0."""
    for key, options in rules(plan):
        for name in _named(options):
            _check_api(name, plan, key=f"{key}.api")
        reads = [word for word in ("code", "topic") if options.get(word)]
        if reads and number_of(_version(plan)) < number_of(ERRORS_SINCE):
            raise PlanError(
                f"needs Kafka {ERRORS_SINCE} or later, not {_version(plan)}",
                key=f"{key}.{reads[0]}",
                hint="leave it out, or choose another act",
            )
        if "code" in options:
            _check_code(options["code"], options, key=f"{key}.code")


def _check_api(name: str, plan: KafkaPlan, *, key: str) -> None:
    if name == _ANY:
        return
    if name not in apis():
        near = nearest(name, list(apis()))
        hint = f"did you mean {near!r}?" if near else "such as Produce, Fetch or EndTxn"
        raise PlanError(f"Kafka has no API {name!r}", key=key, hint=hint)
    version, mode = _version(plan), metadata_of(plan)
    if name not in _known(number_of(version), mode):
        raise PlanError(
            f"Kafka {version} in {mode} mode does not have the API {name}",
            key=key,
            hint="choose another API, or another version",
        )


@cache
def _known(version: tuple[int, ...], mode: str) -> frozenset[str]:
    """The names of the APIs of a version in a mode."""
    numbers = BROKER_API_VERSIONS[max(each for each in BROKER_API_VERSIONS if each <= version)]
    told = {name for name, number in apis().items() if number in numbers}
    if mode != KRAFT:
        among = {name for name in ("AlterPartition", "AllocateProducerIds") if name in _AMONG_NODES}
        return frozenset(told | {n for n in among if version >= number_of(_AMONG_NODES[n])})
    among = {name for name, since in _AMONG_NODES.items() if version >= number_of(since)}
    return frozenset((told | among) - _OF_ZOOKEEPER)


def _check_code(code: object, options: Mapping[str, Any], *, key: str) -> None:
    """An error that there is, of APIs whose answers carry it."""
    if code not in codes():
        near = nearest(str(code).upper(), list(codes()))
        hint = f"did you mean {near!r}?" if near else "such as NOT_ENOUGH_REPLICAS_AFTER_APPEND"
        raise PlanError(f"Kafka has no error {code!r}", key=key, hint=hint)
    for name in _named(options):
        if name == _ANY:
            raise PlanError(
                "an error is that of an answer, and there is no API", key=key, hint="name the api"
            )
        carried = CARRIED.get(name)
        if carried is not None and codes()[str(code)] not in {*carried, UNEXPECTED}:
            names = [each for each, number in codes().items() if number in carried]
            raise PlanError(
                f"the answer to {name} does not carry {code}",
                key=key,
                hint=f"it carries {', '.join(names)}",
            )


def _named(options: Mapping[str, Any]) -> Sequence[str]:
    """The APIs that a rule names."""
    given = options.get("api", _ANY)
    return [given] if isinstance(given, str) else [str(each) for each in given]


def _version(plan: KafkaPlan) -> str:
    return plan.target.version or DEFAULT_VERSION
