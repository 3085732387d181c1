"""What writes to Kafka: client libraries, one module each (`library` is their contract), and which
answer means what (`outcomes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.errors import PlanError
from targets.kafka.clients.java import Java
from targets.kafka.clients.kafka_python import KafkaPython
from targets.kafka.clients.library import AnyClient, Library
from targets.kafka.clients.librdkafka import Librdkafka
from targets.kafka.clients.metadata import Metadata
from targets.kafka.definitions import OF_METADATA, model_of
from targets.kafka.plan import KafkaPlan

ANY_CLIENT: Final = AnyClient()
LIBRARIES: Final[Mapping[str, Library]] = {
    one.plugin: one for one in (Librdkafka(), KafkaPython(), Java(), ANY_CLIENT)
}
"""By their names in plans; the first is the default."""

_METADATA: Final = Metadata()


def library_of(plan: KafkaPlan) -> Library:
    """The client library that writes. Raises PlanError when none has that name."""
    if model_of(plan.workload.name) in OF_METADATA:
        return _METADATA
    name = plan.workload.client or next(iter(LIBRARIES))
    if name not in LIBRARIES:
        raise PlanError(
            f"Kafka has no client {name!r}",
            key="workload.client",
            hint=f"there are: {', '.join(LIBRARIES)}",
        )
    return LIBRARIES[name]
