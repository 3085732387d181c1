"""What a plan may ask of a group of consumers on Kafka, and what they are started with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.errors import PlanError, nearest
from harness.plan import number_of
from harness.protocols.groups import GroupSettings
from harness.run.workload import group_of
from targets.kafka.clients.java.lines import JAVA
from targets.kafka.groups.java.nodes import check_java
from targets.kafka.plan import KafkaPlan

LIBRDKAFKA, KAFKA_PYTHON = "librdkafka", "kafka-python"
_WHERE: Final = "workload.consumer"
_ALLOWED: Final[Mapping[str, str]] = {
    "max.poll.interval.ms": "longest time between two polls",
    "heartbeat.interval.ms": "how often a member reports (classic protocols)",
    "topic.metadata.refresh.interval.ms": "how often to ask for partitions and leaders",
    "fetch.wait.max.ms": "how long a broker waits for records",
    "fetch.message.max.bytes": "bytes of a partition in one answer",
    "queued.max.messages.kbytes": "what is read ahead, in KiB",
    "socket.timeout.ms": "how long a request may go without an answer",
    "reconnect.backoff.max.ms": "longest wait before connecting again",
    "check.crcs": "verify checksums",
}
"""What a plan may set, by librdkafka's names."""

_OURS: Final[Mapping[str, str]] = {
    "enable.auto.commit": 'workload.options.commit says who commits: use commit = "auto"',
    "auto.commit.interval.ms": "use workload.options.commit_interval_s",
    "auto.offset.reset": "use workload.options.reset",
    "session.timeout.ms": "use workload.options.session_s",
    "group.protocol": "use workload.options.protocol",
    "partition.assignment.strategy": "use workload.options.protocol",
}
"""Settings that an option of the workload stands for."""

_READ_AHEAD: Final = "queued.max.messages.kbytes"
"""librdkafka's alone."""

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
    for key, value in plan.workload.consumer.items():
        where = f'{_WHERE}."{key}"'
        if key == "enable.auto.commit" and group.commit != "auto" and _is_on(value):
            raise PlanError(
                f"commit is {group.commit!r}, and auto-commit is on: both would commit",
                key=where,
                hint=f'leave it out, or use workload.options.commit = "auto" in place of '
                f'"{group.commit}"',
            )
        if key in _OURS:
            raise PlanError("an option of the workload stands for it", key=where, hint=_OURS[key])
        if key not in _ALLOWED:
            near = nearest(key, list(_ALLOWED))
            raise PlanError(
                "no plan may set it for consumers",
                key=where,
                hint=f"did you mean {near!r}?" if near else f"there are: {', '.join(_ALLOWED)}",
            )
        if key == _READ_AHEAD and plan.workload.consumer_client != LIBRDKAFKA:
            raise PlanError(
                f"{plan.workload.consumer_client} has no setting that means it",
                key=where,
                hint=f'leave it out, or use workload.consumer_client = "{LIBRDKAFKA}"',
            )
        if key == _HEARTBEAT and group.protocol == "consumer":
            raise PlanError(
                'no member may set it with the group protocol "consumer"',
                key=where,
                hint='use target.settings."group.consumer.heartbeat.interval.ms"',
            )


def _is_on(value: object) -> bool:
    return str(value).lower() == "true"


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
    """What librdkafka's consumers are started with, but for addresses and names."""
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
    return {**settings, **plan.workload.consumer}
