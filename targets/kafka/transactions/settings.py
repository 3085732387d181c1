"""What a plan may ask of transactions on Kafka, what their clients are started with, and their
topics.

The first topic is the plan's own; the others are created like it, and named after it. Log k is
partition k modulo P of topic k / P, where P is how many partitions each has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from harness.errors import PlanError
from harness.protocols.groups import READ_COMMITTED
from harness.run.cells import transactions_of
from harness.run.client_pool import THREADS_AT_MOST
from targets.kafka.clients.java import check_count, requested_settings
from targets.kafka.clients.library import librdkafka_protocol
from targets.kafka.clients.librdkafka import check_producer_settings, effective_settings
from targets.kafka.definitions import ALL, DEFAULTS, JAVA, place_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import is_before


def topic_plans(plan: KafkaPlan) -> list[KafkaPlan]:
    """The plan with each of its topics for its own; the plan itself where it has one."""
    requested = transactions_of(plan)
    others = range(2, 1 if requested is None else requested.topics_count + 1)
    return [plan, *(plan.with_topic(name=f"{plan.topic.name}.{number}") for number in others)]


class Topic(NamedTuple):
    """One of them: the number of its first log, and the plan with it for its own."""

    first: int
    plan: KafkaPlan

    def partitions_of(self, goals: Mapping[int, int]) -> dict[int, int]:
        """Statements about logs; those of this topic are named by their partitions."""
        partitions = range(self.plan.topic.partitions)
        return {p: goals[self.first + p] for p in partitions if self.first + p in goals}


class Logs:
    """The logs of a plan by number."""

    def __init__(self, plan: KafkaPlan) -> None:
        self.partitions = plan.topic.partitions
        self.topics = [
            Topic(number * self.partitions, each) for number, each in enumerate(topic_plans(plan))
        ]
        self._first = {each.plan.topic.name: each.first for each in self.topics}

    def __len__(self) -> int:
        return len(self.topics) * self.partitions

    def topic(self, key: int) -> Topic:
        """That of a log."""
        return self.topics[key // self.partitions]

    def place(self, key: int) -> tuple[str, int]:
        """The topic's name and the partition of a log."""
        return self.topic(key).plan.topic.name, key % self.partitions

    def key(self, topic: str | None, partition: int) -> int:
        """The log of a topic's partition."""
        return self._first[topic or ""] + partition


TIMEOUT: Final = "transaction.timeout.ms"
_TIMEOUT_MS: Final = 10_000
_MESSAGE_MS: Final = "message.timeout.ms"
_BLOCK_MS: Final = "max.block.ms"
_WHERE: Final = "workload.producer"
_LIBRARIES: Final = ("librdkafka", JAVA)
_KNOWN_SINCE: Final = "0.11"
_GROUPS_SINCE: Final = "2.5"
_JAVA_SINCE: Final = "2.5"
_PRODUCERS_MOST: Final = 16
"""Producers of one JVM, whose memory is small."""
_SESSION_MS: Final = 6000
"""The least that brokers allow unless configured otherwise: so long a group waits for a member that
crashed."""


def check_transactions(plan: KafkaPlan) -> None:
    """Refuse what this version, the client library or a transactional producer cannot do. Raises
    PlanError."""
    if plan.workload.client not in (None, *_LIBRARIES):
        raise PlanError(
            f"transactions are made by {' or '.join(_LIBRARIES)}, not by {plan.workload.client!r}",
            key="workload.client",
            hint=f"leave it out, or use one of {', '.join(_LIBRARIES)}",
        )
    version = plan.target.version
    if is_before(plan, _KNOWN_SINCE):
        raise PlanError(
            f"Kafka {version} has no transactions (KIP-98)",
            key="target.version",
            hint="use 0.11 or later",
        )
    requested = transactions_of(plan)
    groups = requested is not None and requested.processors_count > 0
    if groups and is_before(plan, _GROUPS_SINCE):
        raise PlanError(
            f"Kafka {version} does not know which member of a group a transaction is of (KIP-447)",
            key="workload.options.processors_count",
            hint="use 2.5 or later, or no processors",
        )
    if plan.workload.processes > THREADS_AT_MOST:
        raise PlanError(
            f"is {plan.workload.processes}, and each process has a producer or consumer of its own",
            key="workload.processes",
            hint=f"use at most {THREADS_AT_MOST}",
        )
    if by_java(plan):
        _check_java(plan)
    _check_settings(plan)


def by_java(plan: KafkaPlan) -> bool:
    """Whether its producers are Java's."""
    return plan.workload.client == JAVA


def _check_java(plan: KafkaPlan) -> None:
    if is_before(plan, _JAVA_SINCE):
        raise PlanError(
            f"transactions of the Java client need Kafka 2.5 or later, not {plan.target.version}",
            key="workload.client",
            hint="leave it out",
        )
    check_count(plan)
    if plan.workload.processes > (most := _PRODUCERS_MOST * plan.workload.clients):
        raise PlanError(
            f"is {plan.workload.processes}, and the JVMs of {plan.workload.clients} clients have "
            f"room for {most} producers",
            key="workload.processes",
            hint=f"use at most {most}, or more workload.clients",
        )


def _check_settings(plan: KafkaPlan) -> None:
    given = given_settings(plan)
    if by_java(plan):
        settings = {"acks": ALL, **requested_settings(given)}
    else:
        check_producer_settings(given)
        settings = effective_settings(given)
    if settings["acks"] != ALL:
        raise PlanError(
            f"a transactional producer needs acks = {ALL!r}, not {settings['acks']!r}",
            key=place_of("acks", given),
            hint="leave it out",
        )
    if "enable.idempotence" in given and settings["enable.idempotence"] != "true":
        raise PlanError(
            "a transactional producer is idempotent",
            key=place_of("enable.idempotence", given),
            hint="leave it out",
        )
    timeout = plan.workload.producer.get(TIMEOUT, _TIMEOUT_MS)
    if isinstance(timeout, bool) or not isinstance(timeout, int) or timeout < 1000:
        raise PlanError(
            f"{timeout!r} is not an integer of at least 1000", key=f'{_WHERE}."{TIMEOUT}"'
        )
    if not by_java(plan) and _MESSAGE_MS in given and int(settings[_MESSAGE_MS]) > timeout:
        raise PlanError(
            f"is {settings[_MESSAGE_MS]}, more than {TIMEOUT}, {timeout}",
            key=place_of(_MESSAGE_MS, given),
            hint=f"use at most {timeout}",
        )


def given_settings(plan: KafkaPlan) -> dict[str, Any]:
    """The producer's settings in the plan, but for the transactions' timeout."""
    return {key: value for key, value in plan.workload.producer.items() if key != TIMEOUT}


def timeout_s(plan: KafkaPlan) -> float:
    """After how long an open transaction is aborted by its coordinator."""
    return int(plan.workload.producer.get(TIMEOUT, _TIMEOUT_MS)) / 1000


def producer_settings(plan: KafkaPlan) -> dict[str, str]:
    """What each producer is started with, but for addresses and names. Java's calls wait for as
    long as a transaction may take, and no longer, unless the plan requests it."""
    given = given_settings(plan)
    timeout_ms = int(timeout_s(plan) * 1000)
    if by_java(plan):
        waits = {_BLOCK_MS: str(timeout_ms)}
        return {**waits, **requested_settings(given), TIMEOUT: str(timeout_ms)}
    message_ms = min(timeout_ms, int(effective_settings(given)[_MESSAGE_MS]))
    return {
        **librdkafka_protocol(plan),
        **effective_settings(given),
        "enable.idempotence": "true",
        _MESSAGE_MS: str(message_ms),
        TIMEOUT: str(timeout_ms),
    }


def transactional_id(plan: KafkaPlan, number: int) -> str:
    """The name by which brokers fence earlier instances of a producer."""
    return f"{plan.topic.name}-{number}"


def consumer_settings(plan: KafkaPlan, *, processors: bool = False) -> dict[str, Any]:
    """What each reader is started with that gets what has committed, but for addresses and names;
    or each of the `processors`, which are one group."""
    group = {"session.timeout.ms": _SESSION_MS, "heartbeat.interval.ms": _SESSION_MS // 6}
    return {
        "group.id": f"{plan.topic.name}-{'processors' if processors else 'readers'}",
        **(group if processors else {}),
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest" if processors else "error",
        "isolation.level": READ_COMMITTED,
        "check.crcs": True,
        "socket.timeout.ms": DEFAULTS["socket.timeout.ms"],
        "topic.metadata.refresh.interval.ms": 1000,
        "reconnect.backoff.max.ms": 500,
        **librdkafka_protocol(plan),
    }
