"""The proxies before ZooKeeper's servers: a JVM beside each server's own, only in plans that need
it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.images.java import jar
from harness.images.keeping import Say
from harness.levers.proxied import HEAP_MB, JAR, SOURCES, proxied, with_proxy
from harness.protocols import ImageRef, Ingredients, NodeSpec
from targets.zookeeper.configuration import CLIENT_PORT
from targets.zookeeper.layout import JVM
from targets.zookeeper.plan import ZooKeeperPlan
from targets.zookeeper.versions import JAR_FOLDER

OURS: Final = Path(__file__).parent / "proxy"
"""The sources of what it must know of ZooKeeper; they need none of its classes."""
WIRE: Final = "ZooKeeperWire"

_LOOPBACK: Final = "127.0.0.1"


def proxy_files(
    plan: ZooKeeperPlan, image: ImageRef, say: Say, *, here: Path | None = None
) -> dict[str, bytes]:
    """The jar, where the plan needs it, for the target's ingredients; `here` are the jars of this
    machine, where nodes are hosts."""
    if not proxied(plan):
        return {}
    sources = sorted([*SOURCES.glob("*.java"), *OURS.glob("*.java")])
    return {JAR: jar(image, JAR, sources, say, against=JAR_FOLDER, here=here, needed_by="faults")}


def with_proxies(
    specs: Sequence[NodeSpec], plan: ZooKeeperPlan, ingredients: Ingredients
) -> list[NodeSpec]:
    """The nodes, each with a proxy beside it, where the plan needs it."""
    if not proxied(plan):
        return list(specs)
    java = ["java", *JVM, f"-Xmx{HEAP_MB}m", "-cp", f"{JAR_FOLDER}/*"]
    content = ingredients.files.get(JAR, b"")
    ports = (CLIENT_PORT,)
    return [
        with_proxy(spec, content, java=java, wire=WIRE, ports=ports, to=_LOOPBACK) for spec in specs
    ]
