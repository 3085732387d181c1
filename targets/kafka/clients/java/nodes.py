"""The nodes k1, k2 ... of Java clients, and the driver's jar, compiled once per image.

The driver is compiled by the Java of the very image that it will run in, against the kafka-clients
there: the distribution's headless Java has the compiler's module, though no `javac`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from harness.errors import EnvironmentFailure, PlanError
from harness.images.recipe import FILES
from harness.images.steps import Say, step
from harness.protocols import (
    CLIENT_ROLE,
    NODE_DATA,
    STORED,
    ImageRef,
    Ingredients,
    NodeSpec,
)
from targets.kafka.clients.java.lines import DRIVER_PORT
from targets.kafka.eras import JAR_FOLDER, Era
from targets.kafka.plan import KafkaPlan

JAR: Final = "driver.jar"

_SOURCE: Final = Path(__file__).with_name("Driver.java")
_LOGS: Final = "log"
_HEAP_MB: Final = 64
_MEMORY_MB: Final = 256
_COMPILE_S: Final = 60
_COMPILE: Final = """\
jars=$(printf %s: "$1"/*.jar)
java -m jdk.compiler/com.sun.tools.javac.Main -cp "$jars" -d "$0/out" "$0/Driver.java" &&
java -m jdk.jartool/sun.tools.jar.Main -c -f "$0/driver.jar" -C "$0/out" .
"""


def names(plan: KafkaPlan) -> list[str]:
    """k1 ..., one for each real client."""
    return [f"k{number}" for number in range(1, plan.workload.clients + 1)]


def jar(image: ImageRef, say: Say) -> bytes:
    """The compiled driver. Raises PlanError for an image whose Java cannot compile it."""
    from targets.kafka import images  # imports Docker's client

    source = _SOURCE.read_bytes()

    def make() -> bytes:
        with step(say, f"Java client for {image.reference}"):
            return _compiled(image, source)

    return images.kept(image, JAR, hashlib.sha256(source).hexdigest(), make).read_bytes()


def specs(plan: KafkaPlan, era: Era, ingredients: Ingredients) -> list[NodeSpec]:
    """The nodes: one JVM each, which listens for us and logs what its Kafka client has to say."""
    argv = era.process(
        "Driver",
        config=str(DRIVER_PORT),
        log_config=f"{NODE_DATA}/{era.log_file}",
        log_folder=f"{NODE_DATA}/{_LOGS}",
        heap_mb=_HEAP_MB,
        archive=next(iter(ingredients.mounts.values()), None),
    )
    path = argv.index("-cp") + 1
    argv[path] += f":{NODE_DATA}/{JAR}"
    return [
        NodeSpec(
            name=name,
            roles=frozenset({CLIENT_ROLE}),
            argv=argv,
            files={
                JAR: ingredients.files.get(JAR, b""),
                era.log_file: era.log_config.encode(),
                f"{_LOGS}/server.log": b"",
                f"{STORED}/none": b"",  # it stores nothing, and faults of the disk find the folder
            },
            mounts=ingredients.mounts,
            memory_mb=_MEMORY_MB,
        )
        for name in names(plan)
    ]


def _compiled(image: ImageRef, source: bytes) -> bytes:
    from harness.images.oneoff import one_off

    argv = ["sh", "-c", _COMPILE, FILES, JAR_FOLDER]
    with one_off(image.id, argv, files={_SOURCE.name: source}) as compiler:
        code = compiler.wait(limit_s=_COMPILE_S)
        output = compiler.output()
        made = compiler.read(f"{FILES}/driver.jar")
    if "jdk.compiler not found" in output:
        raise PlanError(
            "the Java of this image has no compiler, which the Java client needs",
            key="workload.client",
            hint="name a version instead of an image",
        )
    if code or made is None:
        raise EnvironmentFailure(
            f"the Java client could not be compiled in {image.reference}: {output.strip()[:300]}"
        )
    return made
