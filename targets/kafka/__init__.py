"""Apache Kafka: its versions, its files, its administration, its clients and its final read.

target        the plug-in             versions, limits   what differs between versions, as data
configuration files of a node         definitions        settings, of brokers, topics and clients
modes         KRaft or ZooKeeper      brokers            queries to one node
clients       what writes             groups             what consumes in groups
transactions  what does both          reading            the final read
external      a cluster of the user's
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from targets.kafka.target import Kafka

__all__ = ["Kafka"]


def __getattr__(name: str) -> Any:
    """The plug-in, when it is requested: each consumer of a group is a process that needs none of
    it, and dozens of them start at once."""
    if name != "Kafka":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from targets.kafka.target import Kafka

    return Kafka


def __dir__() -> list[str]:
    return [*globals(), *__all__]
