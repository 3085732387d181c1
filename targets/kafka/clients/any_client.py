"""Clients that are processes of the user's: what Kafka passes to them, and what a plan may set for
them.

Settings have the names of Kafka's own documentation, which the Java client has too; each library's
author knows what they are called there. ackloss sets a few unless the plan says otherwise, as for
its own clients: a run takes a minute, so timeouts are short, and a result must say with which acks
its writes were acknowledged. They are passed on, and not read back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.errors import HarnessFailure
from harness.protocols import Client, Cluster
from harness.protocols.any_client import COMMAND, EXEC, JSON
from targets.kafka import definitions
from targets.kafka.clients.library import Library, bootstrap, bootstrap_of
from targets.kafka.definitions import requested
from targets.kafka.plan import KafkaPlan

_DELIVERY, _REQUEST, _BLOCK = "delivery.timeout.ms", "request.timeout.ms", "max.block.ms"

DEFAULTS: Final[Mapping[str, str]] = {
    "acks": "all",
    "enable.idempotence": "false",
    _DELIVERY: "8000",
    _REQUEST: "3000",
    _BLOCK: "3000",
}
"""What ackloss sets unless the plan says otherwise."""

_GRACE_S: Final = 5.0
"""How much longer than its settings allow a write may take until it counts as blocked."""


def settings_of(plan: KafkaPlan) -> dict[str, str]:
    """What the clients are requested to set: defaults, then what the plan requests. Raises
    PlanError."""
    own = requested(plan.workload.producer, "java")
    settings = {**DEFAULTS, **own}
    if _REQUEST not in own:
        settings[_REQUEST] = str(min(int(DEFAULTS[_REQUEST]), int(settings[_DELIVERY])))
    return settings


def connection(cluster: Cluster, plan: KafkaPlan, number: int) -> dict[str, JSON]:
    """What client `number` needs to know: see docs/how-to/any-client.md."""
    return connection_by(bootstrap(cluster), plan, number)


def connection_by(addresses: str, plan: KafkaPlan, number: int) -> dict[str, JSON]:
    """The same, by the brokers' addresses."""
    servers: list[JSON] = [*bootstrap_of(number - 1, addresses, plan).split(",")]
    return {
        "bootstrap_servers": servers,
        "topic": plan.topic.name,
        "partitions": plan.partitions,
        "producer": dict(settings_of(plan)),
    }


def answers_within_s(plan: KafkaPlan) -> float:
    """The time that a write may take by its settings, and some."""
    settings = settings_of(plan)
    return (int(settings[_BLOCK]) + int(settings[_DELIVERY])) / 1000 + _GRACE_S


@dataclass(frozen=True)
class AnyClient(Library):
    """See `targets.kafka.clients.library`; its processes are started by the core."""

    plugin: ClassVar[str] = EXEC
    naming: ClassVar[definitions.Library] = "java"

    def settings(self, plan: KafkaPlan) -> dict[str, str]:
        """What the clients are requested to set."""
        return settings_of(plan)

    def software(self, plan: KafkaPlan) -> str:
        """Unknown until its processes report it."""
        return COMMAND

    def client(self, cluster: Cluster, plan: KafkaPlan) -> Client:
        """Raises HarnessFailure: the clients are processes."""
        raise HarnessFailure("the clients of this plan are processes of --client")
