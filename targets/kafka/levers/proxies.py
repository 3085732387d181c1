"""The proxies before Kafka's nodes: a JVM beside each node's own, only in plans that need it.

They are compiled of the core's proxy and of what knows Kafka's messages, against the kafka-clients
of the very version; before 3.0 without the latter, as its classes are not yet there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.images.steps import Say
from harness.levers.proxied import HEAP_MB, JAR, SOURCES, proxied, with_proxy
from harness.plan import number_of
from harness.protocols import ImageRef, Ingredients, NodeSpec
from targets.kafka.jars import compiled
from targets.kafka.levers.requests import ERRORS_SINCE, ports_of_roles
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import DEFAULT_VERSION, KRAFT, metadata_of, release_line_of

OURS: Final = Path(__file__).parent / "proxy"
"""The sources of what it must know of Kafka."""
WIRE: Final = "KafkaWire"

_READS: Final = "KafkaMessages.java"
_LOOPBACK: Final = "127.0.0.1"


def proxy_files(plan: KafkaPlan, image: ImageRef, say: Say) -> dict[str, bytes]:
    """The jar, where the plan needs it, for the target's ingredients."""
    if not proxied(plan):
        return {}
    found = sorted([*SOURCES.glob("*.java"), *OURS.glob("*.java")])
    if number_of(image.version or DEFAULT_VERSION) < number_of(ERRORS_SINCE):
        found = [source for source in found if source.name != _READS]
    return {JAR: compiled(image, JAR, found, say, needed_by="faults")}


def with_proxies(
    specs: Sequence[NodeSpec],
    plan: KafkaPlan,
    ingredients: Ingredients,
    addresses: Mapping[str, str],
) -> list[NodeSpec]:
    """The nodes, each with a proxy beside it, where the plan needs it."""
    if not proxied(plan):
        return list(specs)
    java = release_line_of(plan).java(heap_mb=HEAP_MB)
    everywhere = metadata_of(plan) == KRAFT  # it listens at every address of its node
    return [
        with_proxy(
            spec,
            ingredients.files.get(JAR, b""),
            java=java,
            wire=WIRE,
            ports=ports_of_roles(spec.roles),
            to=_LOOPBACK if everywhere else addresses[spec.name],
        )
        for spec in specs
    ]
