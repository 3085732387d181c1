"""Apache Kafka: its versions, its files, its administration, its clients and its final read.

target         the plug-in        versions  ranges of versions, and what differs, as data
images         images, archives   asking    one query to one node
configuration  files of a node    admin     topics, settings, features, who leads
clients        what writes        reading   the final read
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
