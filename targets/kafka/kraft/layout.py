"""The nodes of a KRaft cluster and the files they start with."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from typing import Any, Final

from harness.images.recipe import FILES
from harness.images.steps import Say
from harness.protocols import NODE_DATA, STORED, ImageRef, Ingredients, NodeSpec
from targets.kafka.configuration import (
    BROKER_PORT,
    CONTROLLER_PORT,
    DATA,
    LOGS,
    node_ids,
    properties,
    rack_of,
    with_rack,
)
from targets.kafka.jars import is_jars
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import (
    DEFAULT_VERSION,
    FIRST_SNAPSHOT,
    ReleaseLine,
    release_line,
)

# Who the controllers are: named in every node's file, or voters of a quorum that can change.
#
# With the feature `kraft.version` at 1 (KIP-853, from 3.9 on) the voters are records of the
# metadata log itself. Each controller begins with the same first snapshot of that log, which the
# version's own StorageTool writes for the addresses and directories of this cluster: a JVM of
# some seconds.

FEATURE: Final = "kraft.version"
_PROPERTIES: Final = """\
process.roles=controller
node.id={number}
controller.quorum.bootstrap.servers={servers}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT
listeners=CONTROLLER://:{port}
log.dirs={files}/data
"""


def can_change(plan: KafkaPlan) -> bool:
    """Whether the plan requests a quorum whose voters can change."""
    return plan.target.features.get(FEATURE, 0) > 0


def levels(plan: KafkaPlan) -> dict[str, int]:
    """The levels of features that formatting is given: the voters' own follows from the voters."""
    return {name: level for name, level in plan.target.features.items() if name != FEATURE}


def quorum(plan: KafkaPlan, controllers: Mapping[int, str]) -> dict[str, str]:
    """The settings that say who the controllers are: `controllers` are addresses by id."""
    if can_change(plan):
        return {"controller.quorum.bootstrap.servers": _servers(controllers)}
    voters = (f"{number}@{address}:{CONTROLLER_PORT}" for number, address in controllers.items())
    return {"controller.quorum.voters": ",".join(voters)}


def first_snapshot(
    plan: KafkaPlan,
    image: ImageRef,
    release: ReleaseLine,
    cluster_id: str,
    controllers: Mapping[int, str],
    directories: Mapping[int, str],
) -> dict[str, bytes]:
    """The first snapshot of the metadata log, by its file's name below the data folder: with its
    voters, and from 4.4 on the levels of features.

    `directories`: the id of each controller's log directory. Raises EnvironmentFailure.
    """
    first, *_ = controllers
    initial = ",".join(
        f"{number}@{address}:{CONTROLLER_PORT}:{directories[number]}"
        for number, address in controllers.items()
    )
    properties = _PROPERTIES.format(
        number=first, servers=_servers(controllers), port=CONTROLLER_PORT, files=FILES
    )
    from targets.kafka import images  # imports Docker's client

    options = ["--initial-controllers", initial, *images.feature_options(levels(plan))]
    return images.formatted(
        image, release, properties, options, cluster_id=cluster_id, read=[FIRST_SNAPSHOT]
    )


def _servers(controllers: Mapping[int, str]) -> str:
    return ",".join(f"{address}:{CONTROLLER_PORT}" for address in controllers.values())


# What ackloss sets unless the plan says otherwise: short timeouts, so that a run takes a minute,
# and a leader that stays where it is unless a fault moves it.
DEFAULTS: Final[Mapping[str, Any]] = {
    "num.network.threads": 2,
    "num.io.threads": 2,
    "log.cleaner.dedupe.buffer.size": 2097152,
    "controller.quorum.election.timeout.ms": 1000,
    "controller.quorum.fetch.timeout.ms": 2000,
    "broker.session.timeout.ms": 4000,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 3000,
    "auto.leader.rebalance.enable": False,
    "auto.create.topics.enable": False,
    "offsets.topic.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
}
_BOOTSTRAP: Final = "bootstrap"
_PORTS: Final = {"broker": BROKER_PORT, "controller": CONTROLLER_PORT}
_META: Final = "version=1\ncluster.id={cluster}\nnode.id={number}\ndirectory.id={directory}\n"


def ingredients(plan: KafkaPlan, image: ImageRef, say: Say) -> Ingredients:
    """The image, a class-data archive for it, and a formatted bootstrap checkpoint."""
    from targets.kafka import images  # imports Docker's client

    archive = None if is_jars(image) else images.archive(image, say)
    return Ingredients(
        image=image,
        files={_BOOTSTRAP: images.bootstrap_checkpoint(image, levels(plan))},
        mounts={archive: images.ARCHIVE_INSIDE} if archive else {},
    )


def specs(plan: KafkaPlan, made: Ingredients, addresses: Mapping[str, str]) -> list[NodeSpec]:
    """Every node with its files: configured, and formatted without starting a JVM, from the
    checkpoint that the version's own StorageTool wrote once."""
    release = release_line(made.image.version or plan.target.version or DEFAULT_VERSION)
    cluster_id = new_cluster_id()
    directories = {name: new_cluster_id() for name in node_ids(plan)}
    bootstrap = {f"{STORED}/{release.bootstrap}": made.files.get(_BOOTSTRAP, b"")}
    only_controllers = release.bootstrap == FIRST_SNAPSHOT
    snapshot = _snapshot(plan, made.image, release, cluster_id, directories, addresses)
    argv = release.process(
        release.broker_class,
        config=f"{NODE_DATA}/server.properties",
        log_config=f"{NODE_DATA}/{release.log_file}",
        log_folder=f"{NODE_DATA}/{LOGS}",
        heap_mb=plan.target.memory_mb // 2,
        archive=next(iter(made.mounts.values()), None),
    )
    return [
        NodeSpec(
            name=name,
            roles=with_rack(roles(name, plan), name, plan),
            argv=argv,
            files={
                "server.properties": server_properties(name, plan, addresses),
                release.log_file: release.log_config.encode(),
                f"{LOGS}/server.log": b"",
                f"{STORED}/meta.properties": _META.format(
                    cluster=cluster_id, number=number, directory=directories[name]
                ).encode(),
                **({} if only_controllers and not is_controller(name, plan) else bootstrap),
                **(snapshot if is_controller(name, plan) else {}),
            },
            mounts=made.mounts,
            memory_mb=plan.target.memory_mb,
            ports=[_PORTS[role] for role in sorted(roles(name, plan))],
        )
        for name, number in node_ids(plan).items()
    ]


def roles(name: str, plan: KafkaPlan) -> frozenset[str]:
    """A node's roles: in a combined cluster the first brokers are the controllers too."""
    if name.startswith("c"):
        return frozenset({"controller"})
    if plan.target.combined and int(name[1:]) <= plan.target.controllers:
        return frozenset({"broker", "controller"})
    return frozenset({"broker"})


def is_controller(name: str, plan: KafkaPlan) -> bool:
    """Whether a node is a controller, perhaps besides a broker."""
    return "controller" in roles(name, plan)


def server_properties(name: str, plan: KafkaPlan, addresses: Mapping[str, str]) -> bytes:
    """server.properties of one node: our defaults, the plan's settings, what ackloss owns."""
    own_roles = roles(name, plan)
    owned: dict[str, Any] = {
        "process.roles": ",".join(sorted(own_roles)),
        "node.id": node_ids(plan)[name],
        **quorum(plan, _controllers(plan, addresses)),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": DATA,
        "listeners": ",".join(_listeners(own_roles)),
    }
    if "broker" in own_roles:
        owned["advertised.listeners"] = f"PLAINTEXT://{addresses[name]}:{BROKER_PORT}"
        owned["inter.broker.listener.name"] = "PLAINTEXT"
        if rack := rack_of(name, plan):
            owned["broker.rack"] = rack
    return properties({**defaults(plan), **plan.target.settings, **owned})


def defaults(plan: KafkaPlan) -> dict[str, Any]:
    """What ackloss sets unless the plan does."""
    return {**DEFAULTS, "offsets.topic.replication.factor": min(3, plan.target.brokers)}


def _listeners(own_roles: frozenset[str]) -> list[str]:
    ports = {
        "broker": f"PLAINTEXT://:{BROKER_PORT}",
        "controller": f"CONTROLLER://:{CONTROLLER_PORT}",
    }
    return [ports[role] for role in sorted(own_roles)]


def _controllers(plan: KafkaPlan, addresses: Mapping[str, str]) -> dict[int, str]:
    """Addresses of the controllers by id."""
    ids = node_ids(plan)
    return {ids[n]: addresses[n] for n in ids if is_controller(n, plan)}


def _snapshot(
    plan: KafkaPlan,
    image: ImageRef,
    release: ReleaseLine,
    cluster_id: str,
    directories: Mapping[str, str],
    addresses: Mapping[str, str],
) -> dict[str, bytes]:
    """What a controller begins with where the quorum's voters can change; nothing elsewhere."""
    if not can_change(plan):
        return {}
    by_id = {number: directories[name] for name, number in node_ids(plan).items()}
    controllers = _controllers(plan, addresses)
    made = first_snapshot(plan, image, release, cluster_id, controllers, by_id)
    return {f"{STORED}/{name}": content for name, content in made.items()}


def new_cluster_id() -> str:
    """A random id as Kafka makes them: 16 bytes in URL-safe base64 without padding. Never one that
    begins with a dash, which Kafka's tools take for an option."""
    made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return new_cluster_id() if made.startswith("-") else made
