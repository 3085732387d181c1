"""What writes to Kafka: client libraries, one file or folder each.

library            the contract of a library, and which there are
nodes              clients in nodes of the cluster
java               Kafka's own, in nodes of its own
librdkafka         by confluent-kafka: producers that many processes share
one_producer       one of its producers, which can crash
producer_settings  which settings a plan may set, and what they are when it does not
outcomes           which answer means what
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.errors import PlanError
from harness.plan import Plan
from targets.kafka.clients.java import Java
from targets.kafka.clients.library import Library
from targets.kafka.clients.librdkafka import Librdkafka

LIBRARIES: Final[Mapping[str, Library]] = {one.plugin: one for one in (Librdkafka(), Java())}
"""By their names in plans; the first is the default."""


def library_of(plan: Plan) -> Library:
    """The client library that writes. Raises PlanError when there is none of that name."""
    name = plan.workload.client or next(iter(LIBRARIES))
    if name not in LIBRARIES:
        raise PlanError(
            f"Kafka has no client {name!r}",
            key="workload.client",
            hint=f"there are: {', '.join(LIBRARIES)}",
        )
    return LIBRARIES[name]
