"""What a plan may ask of a group of consumers on Kafka, what they are started with, and the nodes
m1, m2 ... of Java consumers: in a run with cells m1-CELL ... of each cell's group.

Consumer N of each group has the role `consumer-N`, so a fault can meet it in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from harness.errors import PlanError
from harness.images.keeping import Say
from harness.plan.steps import Family, FaultStep
from harness.protocols import CLIENT_ROLE, ImageRef, Ingredients, NodeSpec
from harness.protocols.groups import GroupSettings, consumer_name
from harness.run.cells import group_of
from harness.servers import setting_text
from targets.kafka.clients.java import jvm
from targets.kafka.definitions import (
    JAVA,
    KAFKA_PYTHON,
    LIBRDKAFKA,
    PLACES,
    Library,
    canonical,
    requested,
    typed,
)
from targets.kafka.jars import compiled
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import ReleaseLine, is_before

MEMBER_PORT: Final = 9096
MEMBER_JAR: Final = "member.jar"

_SOURCE: Final = Path(__file__).parents[1] / "java" / "Member.java"
_KEY: Final = "workload.consumer_client"
_OLDEST: Final = "2.5.0"
_MOST: Final = 9


def check_java(plan: KafkaPlan, group: GroupSettings) -> None:
    """Refuse versions without what its consumers report, and more nodes than there can be. Raises
    PlanError."""
    if is_before(plan, _OLDEST):
        raise PlanError(
            f"the Java consumer needs Kafka {_OLDEST} or later, not {plan.target.version}",
            key=_KEY,
            hint='consumer_client = "librdkafka"',
        )
    if (count := len(numbers(plan, group))) > _MOST:
        raise PlanError(
            f"{count} Java consumers are too many: each has its own node",
            key="workload.options.members_count",
            hint=f"at most {_MOST}, with those that join",
        )


def numbers(plan: KafkaPlan, group: GroupSettings) -> list[int]:
    """Those of the consumers that a run may have: from its start, and those that join."""
    count = group.members_count
    steps: list[FaultStep | Family] = [*plan.faults, *(plan.mix.families if plan.mix else ())]
    joining = set[int]()
    for step in steps:
        if step.nemesis == "consumer" and step.options.get("action") == "join":
            given = step.options.get("consumers")
            joining |= set(given) if isinstance(given, list) else {count + 1}
    return sorted({*range(1, count + 1), *joining})


def node_name(plan: KafkaPlan, number: int) -> str:
    """What the node of a consumer is called."""
    return f"m{number}" if plan.cell is None else f"m{number}-{plan.cell}"


def node_names(plan: KafkaPlan) -> dict[str, int]:
    """The names of the nodes of a plan's own group, each with the number of its consumer; none of
    another library's consumers."""
    if plan.workload.consumer_client != JAVA or (group := group_of(plan)) is None:
        return {}
    return {node_name(plan, number): number for number in numbers(plan, group)}


def member_jar(image: ImageRef, say: Say) -> bytes:
    """The compiled program. Raises PlanError for an image whose Java cannot compile it."""
    return compiled(image, MEMBER_JAR, [_SOURCE], say, needed_by=_KEY)


def member_specs(plan: KafkaPlan, release: ReleaseLine, ingredients: Ingredients) -> list[NodeSpec]:
    """The nodes of a plan's own group: one JVM each, which waits for us."""
    return [
        jvm(
            name,
            frozenset({CLIENT_ROLE, consumer_name(number)}),
            ("Member", MEMBER_JAR, MEMBER_PORT),
            release,
            ingredients,
        )
        for name, number in node_names(plan).items()
    ]


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

_GROUPS_SINCE: Final = "0.10"
_PROTOCOLS_SINCE: Final = {"consumer": "4.0", "cooperative-sticky": "2.4"}


def check_group(plan: KafkaPlan) -> None:
    """Refuse what this version, or the consumers' library, does not know, and settings that a plan
    may not have. Raises PlanError."""
    load = plan.workload
    if (group := group_of(plan)) is not None:
        _check_settings(plan, group)
        if load.consumer_client == JAVA:
            check_java(plan, group)
    elif load.consumer or load.consumer_client != LIBRDKAFKA:
        raise PlanError(
            f"the workload {load.name!r} has no consumers",
            key="workload.consumer" if load.consumer else "workload.consumer_client",
            hint='leave it out, or use workload.name = "consume"',
        )


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
    least = _PROTOCOLS_SINCE.get(group.protocol, _GROUPS_SINCE)
    key = "workload.options.protocol"
    if is_before(plan, least):
        raise PlanError(
            f"Kafka {plan.target.version} does not know the group protocol {group.protocol!r}",
            key=key,
            hint=f"it needs Kafka {least} or later",
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
    return group_of_topic(plan.topic.name)


def group_of_topic(topic: str) -> str:
    """The id of the group that reads a topic."""
    return f"{topic}-group"


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
    return {name: setting_text(value) for name, value in made.items()}
