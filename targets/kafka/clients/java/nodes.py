"""The nodes k1, k2 ... of Java clients, and the driver's jar, compiled once per image by the Java
that runs it (`harness.images.java`)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.images.steps import Say
from harness.protocols import (
    CLIENT_ROLE,
    NODE_DATA,
    STORED,
    ImageRef,
    Ingredients,
    NodeSpec,
)
from targets.kafka.clients.java.lines import DRIVER_PORT
from targets.kafka.eras import Era
from targets.kafka.jars import compiled
from targets.kafka.plan import KafkaPlan

JAR: Final = "driver.jar"

_SOURCE: Final = Path(__file__).with_name("Driver.java")
_LOGS: Final = "log"
_HEAP_MB: Final = 64
_MEMORY_MB: Final = 256


def names(plan: KafkaPlan) -> list[str]:
    """k1 ..., one for each real client."""
    return [f"k{number}" for number in range(1, plan.workload.clients + 1)]


def jar(image: ImageRef, say: Say) -> bytes:
    """The compiled driver. Raises PlanError for an image whose Java cannot compile it."""
    return compiled(image, JAR, [_SOURCE], say, needed_by="workload.client")


def specs(plan: KafkaPlan, era: Era, ingredients: Ingredients) -> list[NodeSpec]:
    """The nodes: one JVM each, which listens for us and logs what its Kafka client has to say."""
    roles, program = frozenset({CLIENT_ROLE}), ("Driver", JAR, DRIVER_PORT)
    return [jvm(name, roles, program, era, ingredients) for name in names(plan)]


def jvm(
    name: str,
    roles: frozenset[str],
    program: tuple[str, str, int],
    era: Era,
    ingredients: Ingredients,
) -> NodeSpec:
    """A node of a program of ours, beside Kafka's jars: its class, its jar among the ingredients,
    and the port at which it listens."""
    main_class, jar, port = program
    argv = era.process(
        main_class,
        config=str(port),
        log_config=f"{NODE_DATA}/{era.log_file}",
        log_folder=f"{NODE_DATA}/{_LOGS}",
        heap_mb=_HEAP_MB,
        archive=next(iter(ingredients.mounts.values()), None),
    )
    path = argv.index("-cp") + 1
    argv[path] += f":{NODE_DATA}/{jar}"
    return NodeSpec(
        name=name,
        roles=roles,
        argv=argv,
        files={
            jar: ingredients.files.get(jar, b""),
            era.log_file: era.log_config.encode(),
            f"{_LOGS}/server.log": b"",
            f"{STORED}/none": b"",  # it stores nothing, and faults of the disk find the folder
        },
        mounts=ingredients.mounts,
        memory_mb=_MEMORY_MB,
    )
