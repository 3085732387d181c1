"""What Kafka's requests and errors are called, and which of them a plan may name.

Names and numbers are those of kafka-python's tables, as are the APIs that each version reports to
clients (ApiVersions). APIs among brokers and controllers that no broker reports to clients are in a
table here, by the KIP that introduced them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Final

from kafka import errors
from kafka.protocol.api_key import ApiKey
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from harness.errors import PlanError
from harness.levers.protocol import Requests
from harness.levers.proxied import ANY, Rule, check_name, rules
from harness.plan import number_of
from harness.protocols import Node
from targets.kafka.configuration import BROKER_PORT, CONTROLLER_PORT
from targets.kafka.levers.carried import CARRIED, SAME, UNEXPECTED
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import DEFAULT_VERSION, KRAFT, metadata_of

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


def ports_of_roles(roles: Collection[str]) -> tuple[int, ...]:
    """Where a node gets requests: as a broker, as a controller of KRaft, or both."""
    ports = {"broker": BROKER_PORT, "controller": CONTROLLER_PORT}
    return tuple(port for role, port in ports.items() if role in roles)


def ports_of(node: Node) -> tuple[int, ...]:
    """See `ports_of_roles`."""
    return ports_of_roles(node.roles)


def no_ids(topic: str) -> tuple[str, ...]:  # noqa: ARG001
    """A topic that has no id."""
    return ()


def requests(ids: Callable[[str], tuple[str, ...]] = no_ids) -> Requests:
    """Kafka's requests, for the lever; `ids` of a topic by its name."""
    return Requests(apis=apis(), codes=codes(), ports=ports_of, other_names=ids)


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
    """The names of the APIs of a version in a mode."""
    numbers = BROKER_API_VERSIONS[max(each for each in BROKER_API_VERSIONS if each <= version)]
    to_clients = {name for name, number in apis().items() if number in numbers}
    if mode != KRAFT:
        among = {name for name in ("AlterPartition", "AllocateProducerIds") if name in _AMONG_NODES}
        return frozenset(to_clients | {n for n in among if version >= number_of(_AMONG_NODES[n])})
    among = {name for name, since in _AMONG_NODES.items() if version >= number_of(since)}
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
