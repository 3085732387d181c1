"""The nodes k1, k2 ... of Java clients, and the driver's jar, compiled once per image by the Java
that runs it (`harness.images.java`)."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from harness.images.steps import Say
from harness.protocols import (
    CLIENT_ROLE,
    NODE_DATA,
    STORED,
    ImageRef,
    Ingredients,
    NodeSpec,
)
from harness.run.cells import transactions_of
from targets.kafka.clients.java.lines import DRIVER_PORT
from targets.kafka.jars import compiled
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import ReleaseLine

_DRIVER: Final = Path(__file__).with_name("Driver.java")
_TRANSACTOR: Final = Path(__file__).with_name("Transactor.java")
_LOGS: Final = "log"
_HEAP_MB: Final = 64
_MEMORY_MB: Final = 256


def names(plan: KafkaPlan) -> list[str]:
    """k1 ..., one for each real client."""
    return [f"k{number}" for number in range(1, plan.workload.clients + 1)]


class Program(NamedTuple):
    """What such a node runs: a class, the jar that it is in, and the sources of that."""

    main_class: str
    jar: str
    sources: list[Path]


def program(plan: KafkaPlan) -> Program:
    """The driver of producers, or of those that make transactions, which older versions lack."""
    if transactions_of(plan) is None:
        return Program("Driver", "driver.jar", [_DRIVER])
    return Program("Transactor", "transactor.jar", [_DRIVER, _TRANSACTOR])


def jar(plan: KafkaPlan, image: ImageRef, say: Say) -> bytes:
    """The compiled program. Raises PlanError for an image whose Java cannot compile it."""
    one = program(plan)
    return compiled(image, one.jar, one.sources, say, needed_by="workload.client")


def specs(plan: KafkaPlan, release: ReleaseLine, ingredients: Ingredients) -> list[NodeSpec]:
    """The nodes: one JVM each, which listens for us and logs what its Kafka client has to say."""
    roles, one = frozenset({CLIENT_ROLE}), program(plan)
    ran = (one.main_class, one.jar, DRIVER_PORT)
    return [jvm(name, roles, ran, release, ingredients) for name in names(plan)]


def jvm(
    name: str,
    roles: frozenset[str],
    program: tuple[str, str, int],
    release: ReleaseLine,
    ingredients: Ingredients,
) -> NodeSpec:
    """A node of a program of ours, beside Kafka's jars: its class, its jar among the ingredients,
    and the port at which it listens."""
    main_class, jar, port = program
    argv = release.process(
        main_class,
        config=str(port),
        log_config=f"{NODE_DATA}/{release.log_file}",
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
            release.log_file: release.log_config.encode(),
            f"{_LOGS}/server.log": b"",
            f"{STORED}/none": b"",  # it stores nothing, and faults of the disk find the folder
        },
        mounts=ingredients.mounts,
        memory_mb=_MEMORY_MB,
    )
