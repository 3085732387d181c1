"""What a plan may ask of a group of consumers on Kafka, and what they are started with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.errors import PlanError
from harness.plan import number_of
from harness.protocols.groups import GroupSettings
from harness.run.cells import group_of
from targets.kafka.clients.java.lines import JAVA
from targets.kafka.configuration import text
from targets.kafka.definitions import PLACES, Library, canonical, requested, typed
from targets.kafka.groups.java.nodes import check_java
from targets.kafka.plan import KafkaPlan

LIBRDKAFKA, KAFKA_PYTHON = "librdkafka", "kafka-python"
_COMMITS: Final = "enable.auto.commit"
_PROTOCOL: Final = "group.protocol"
_STRATEGY: Final = "partition.assignment.strategy"
_ASSIGNORS: Final = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
"""Java's own names."""

_HEARTBEAT: Final = "heartbeat.interval.ms"
"""The brokers say it where they assign partitions."""

_SERVER_ASSIGNS: Final = (4, 0)
_GROUPS: Final = (0, 10)
_COOPERATIVE: Final = (2, 4)


def check_group(plan: KafkaPlan) -> None:
    """Refuse what this version, or the consumers' library, does not know, and settings that a plan
    may not have. Raises PlanError."""
    group = group_of(plan)
    if group is None:
        for key, value in {
            "consumer": plan.workload.consumer,
            "consumer_client": plan.workload.consumer_client != LIBRDKAFKA,
        }.items():
            if value:
                raise PlanError(
                    f"the workload {plan.workload.name!r} has no consumers",
                    key=f"workload.{key}",
                    hint='leave it out, or use workload.name = "consume"',
                )
        return
    _check_settings(plan, group)
    _check_protocol(plan, group)
    if plan.workload.consumer_client == JAVA:
        check_java(plan, group)


def _check_settings(plan: KafkaPlan, group: GroupSettings) -> None:
    given, library = plan.workload.consumer, plan.workload.consumer_client
    if group.commit != "auto" and str(given.get(_COMMITS)).lower() == "true":
        raise PlanError(
            f"commit is {group.commit!r}, and auto-commit is on: both would commit",
            key=f'{PLACES["consumer"]}."{_COMMITS}"',
            hint=f'leave it out, or use workload.options.commit = "auto" in place of '
            f'"{group.commit}"',
        )
    if _HEARTBEAT in requested(given, library, "consumer") and group.protocol == "consumer":
        raise PlanError(
            'no member may set it with the group protocol "consumer"',
            key=f'{PLACES["consumer"]}."{_HEARTBEAT}"',
            hint='use target.settings."group.consumer.heartbeat.interval.ms"',
        )


def _check_protocol(plan: KafkaPlan, group: GroupSettings) -> None:
    version = plan.target.version
    number = number_of(version) if version is not None else None
    needed = {"consumer": _SERVER_ASSIGNS, "cooperative-sticky": _COOPERATIVE}
    least = needed.get(group.protocol, _GROUPS)
    key = "workload.options.protocol"
    if number is not None and number[:2] < least:
        raise PlanError(
            f"Kafka {version} does not know the group protocol {group.protocol!r}",
            key=key,
            hint=f"it needs Kafka {'.'.join(map(str, least))} or later",
        )
    if plan.workload.consumer_client == KAFKA_PYTHON and group.protocol == "consumer":
        raise PlanError(
            f"{KAFKA_PYTHON} does not know the group protocol {group.protocol!r}",
            key=key,
            hint='use "range", "cooperative-sticky" or "manual", or another '
            "workload.consumer_client",
        )


def group_id(plan: KafkaPlan) -> str:
    """The id of the plan's group."""
    return f"{plan.topic.name}-group"


def consumer_settings(plan: KafkaPlan, group: GroupSettings) -> dict[str, Any]:
    """What consumers are started with, but for addresses and names, as librdkafka calls it."""
    session_ms = round(group.session_s * 1000)
    settings: dict[str, Any] = {
        "group.id": group_id(plan),
        "group.protocol": "consumer" if group.protocol == "consumer" else "classic",
        "max.poll.interval.ms": max(10_000, session_ms),
        "enable.auto.commit": group.commit == "auto",
        "auto.offset.reset": group.reset,
        "topic.metadata.refresh.interval.ms": 2000,
        "isolation.level": "read_uncommitted",
        "log_level": 3,
    }
    if group.commit == "auto":
        settings["auto.commit.interval.ms"] = round(group.interval_s * 1000)
    if group.protocol != "consumer":  # there, the timeouts are the broker's
        settings |= {"session.timeout.ms": session_ms, "heartbeat.interval.ms": session_ms // 5}
    if group.protocol in ("range", "cooperative-sticky"):
        settings["partition.assignment.strategy"] = group.protocol
    own = requested(plan.workload.consumer, "librdkafka", "consumer")
    return settings | {name: typed(name, value, "consumer") for name, value in own.items()}


def named(settings: Mapping[str, Any], library: Library) -> dict[str, Any]:
    """The same as a library calls it, without what it does not have."""
    if library == "librdkafka":
        return dict(settings)
    made = {
        canonical(name, "java", "consumer"): value
        for name, value in settings.items()
        if name not in ("log_level", _PROTOCOL)
    }
    if library == "kafka-python":
        del made["isolation.level"]
        return {name.replace(".", "_"): value for name, value in made.items()}
    if settings[_PROTOCOL] == "consumer":  # versions before 3.7 do not know the setting
        made[_PROTOCOL] = "consumer"
    if _STRATEGY in made:
        made[_STRATEGY] = _ASSIGNORS[made[_STRATEGY]]
    return {name: text(value) for name, value in made.items()}
