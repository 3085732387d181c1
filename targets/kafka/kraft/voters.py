"""Who the controllers are: named in every node's file, or voters of a quorum that can change.

With the feature `kraft.version` at 1 (KIP-853, from 3.9 on) the voters are records of the metadata
log itself. Each controller begins with the same first snapshot of that log, which the version's own
StorageTool writes for the addresses and directories of this cluster: a JVM of some seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.images.recipe import FILES
from harness.protocols import ImageRef
from targets.kafka.configuration import CONTROLLER_PORT
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import FIRST_SNAPSHOT, ReleaseLine

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
