"""What a Java consumer is started with, by Java's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

NAMES: Final[Mapping[str, str]] = {
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "socket.timeout.ms": "request.timeout.ms",
}
"""Settings that it calls otherwise than librdkafka."""

_NOT_ITS: Final = frozenset({"group.protocol", "log_level"})
_ASSIGNORS: Final = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
_STRATEGY: Final = "partition.assignment.strategy"


def java_settings(given: Mapping[str, Any], batch_count: int) -> dict[str, str]:
    """Its settings for what librdkafka's consumers would be started with."""
    settings = {
        NAMES.get(key, key): _text(value) for key, value in given.items() if key not in _NOT_ITS
    }
    if given.get("group.protocol") == "consumer":  # versions before 3.7 do not know the setting
        settings["group.protocol"] = "consumer"
    if _STRATEGY in settings:
        settings[_STRATEGY] = _ASSIGNORS[settings[_STRATEGY]]
    return {**settings, "max.poll.records": str(batch_count)}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
