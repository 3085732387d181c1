"""The proxies before Kafka's nodes: a JVM beside each node's own, only in plans that need it.

They are compiled of the core's proxy and of what knows Kafka's messages, against the kafka-clients
of the very version; before 3.0 without the latter, as its classes are not yet there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import harness.levers.protocol as lever
from harness.images.steps import Say
from harness.protocols import NODE_DATA, ImageRef, Ingredients, NodeSpec
from targets.kafka import compiling
from targets.kafka.eras import DEFAULT_VERSION, KRAFT, Era, era_for, metadata_of, number_of
from targets.kafka.levers.requests import ERRORS_SINCE, ports_of_roles, proxied
from targets.kafka.plan import KafkaPlan

JAR: Final = "proxy.jar"

CORE: Final = Path(lever.__file__).parent / "proxy"
"""The sources of the proxy."""
OURS: Final = Path(__file__).parent / "proxy"
"""The sources of what it must know of Kafka."""

_READS: Final = "KafkaMessages.java"
_HEAP_MB: Final = 64
_LOOPBACK: Final = "127.0.0.1"


def proxy_files(plan: KafkaPlan, image: ImageRef, say: Say) -> dict[str, bytes]:
    """The jar, where the plan needs it, for the target's ingredients."""
    if not proxied(plan):
        return {}
    found = sorted([*CORE.glob("*.java"), *OURS.glob("*.java")])
    if number_of(image.version or DEFAULT_VERSION) < number_of(ERRORS_SINCE):
        found = [source for source in found if source.name != _READS]
    return {JAR: compiling.jar(image, JAR, found, say, needed_by="faults")}


def with_proxies(
    specs: Sequence[NodeSpec],
    plan: KafkaPlan,
    ingredients: Ingredients,
    addresses: Mapping[str, str],
) -> list[NodeSpec]:
    """The nodes, each with a proxy beside it, where the plan needs it."""
    if not proxied(plan):
        return list(specs)
    era = era_for(plan)
    everywhere = metadata_of(plan) == KRAFT  # it listens at every address of its node
    return [
        _with_proxy(spec, era, ingredients, _LOOPBACK if everywhere else addresses[spec.name])
        for spec in specs
    ]


def _with_proxy(spec: NodeSpec, era: Era, ingredients: Ingredients, address: str) -> NodeSpec:
    ports = ports_of_roles(spec.roles)
    if not ports:
        return spec
    folder = f"{NODE_DATA}/{lever.FOLDER}"
    *java, path = era.java(heap_mb=_HEAP_MB)
    pairs = [f"{lever.port_of_proxy(port)}:{address}:{port}" for port in ports]
    argv = [*java, f"{folder}/{JAR}:{path}", "Proxy", folder, "KafkaWire", *pairs]
    files = {f"{lever.FOLDER}/{JAR}": ingredients.files.get(JAR, b"")}
    return replace(spec, beside=argv, files={**spec.files, **files})
