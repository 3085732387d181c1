"""Kafka's requests and errors as kafka-python has them, imported when the first is used: to read a
plan, or to judge a run, takes as long as its imports, and needs none of them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kafka import KafkaAdminClient as KafkaAdminClient
    from kafka.errors import KafkaError as KafkaError

_MODULES: Final = (
    *("kafka", "kafka.errors", "kafka.protocol.admin", "kafka.protocol.consumer"),
    *("kafka.protocol.metadata", "kafka.protocol.api_key", "kafka.protocol.parser"),
    *("kafka.protocol.broker_version_data", "kafka.codec", "targets.kafka.messages"),
)


def __getattr__(name: str) -> Any:
    """What one of the modules has."""
    if name.startswith("__"):
        raise AttributeError(name)
    for module in map(import_module, _MODULES):
        if hasattr(module, name):
            return globals().setdefault(name, getattr(module, name))
    raise AttributeError(f"kafka-python has no {name!r}")
