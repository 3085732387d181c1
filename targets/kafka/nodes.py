"""The nodes of Kafka and of its clients: their images, files and commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar

from harness.errors import PlanError
from harness.protocols import (
    HoldsCells,
    Ingredients,
    NodeSpec,
    RunsInContainers,
    RunsOnHosts,
    Target,
)
from harness.protocols.tools import MadeBeforehand, UsesPackages
from harness.run.cells import cell_plans
from targets.kafka import cells, support
from targets.kafka.clients import library_of
from targets.kafka.configuration import node_ids
from targets.kafka.groups.java import nodes as members
from targets.kafka.levers.proxies import proxy_files, with_proxies
from targets.kafka.modes import mode_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import DEFAULT_VERSION, JAR_FOLDER, release_line, release_line_of


class KafkaNodes(
    Target[KafkaPlan],
    RunsInContainers[KafkaPlan],
    RunsOnHosts[KafkaPlan],
    MadeBeforehand,
    UsesPackages,
    HoldsCells[KafkaPlan],
):
    """Runs Kafka in containers and on hosts, together with clients that have their own nodes."""

    default_version: ClassVar[str] = DEFAULT_VERSION
    packages: ClassVar[tuple[str, ...]] = ("confluent-kafka", "kafka-python")
    cell_keys: ClassVar[tuple[str, ...]] = cells.KEYS

    def check_version(self, version: str, *, key: str) -> None:
        """Refuse unsupported versions."""
        release_line(version, key=key)

    def prepare_version(self, version: str, say: Callable[[str], None]) -> None:
        """The image, and its class-data archive."""
        from targets.kafka import images  # imports Docker's client

        images.prepare(version, say)

    def made(self, version: str) -> dict[str, bool]:
        """The image, and its class-data archive."""
        from targets.kafka import images  # imports Docker's client

        image, archive = images.prepared(version)
        return {
            f"image of Kafka {version}": image is not None,
            f"class-data archive of Kafka {version}": archive is not None,
        }

    def names(self, plan: KafkaPlan) -> list[str]:
        """b1 ... for brokers, then who keeps the metadata, then nodes of clients."""
        return [*node_ids(plan), *self.in_nodes(plan)]

    def _groups(self, plan: KafkaPlan) -> list[KafkaPlan]:
        """The plans of its groups: each cell's, or its own."""
        return [cell.plan for cell in cell_plans(plan, self)] or [plan]  # type: ignore[misc]

    def in_nodes(self, plan: KafkaPlan) -> list[str]:
        """The nodes of clients and of consumers."""
        consumers = [name for each in self._groups(plan) for name in members.names(each)]
        return [*library_of(plan).names(plan), *consumers]

    def prepare(self, plan: KafkaPlan, say: Callable[[str], None]) -> Ingredients:
        """The image, and what else the plan's mode and its clients need."""
        from targets.kafka import images  # imports Docker's client

        plan, image = support.sent(plan), images.resolve(plan.target, say)
        made = mode_of(plan).ingredients(plan, image, say)
        clients = library_of(plan).files(plan, image, say)
        if any(members.names(each) for each in self._groups(plan)):
            clients = {**clients, members.JAR: members.jar(image, say)}
        return replace(made, files={**made.files, **clients, **proxy_files(plan, image, say)})

    def for_hosts(self, plan: KafkaPlan, say: Callable[[str], None]) -> Ingredients:
        """The jars, and what else the plan's mode needs."""
        from targets.kafka import jars

        if nodes := self.in_nodes(plan):
            key = "client" if library_of(plan).names(plan) else "consumer_client"
            raise PlanError(
                f"clients in their own nodes ({', '.join(nodes)}) run in containers only",
                key=f"workload.{key}",
                hint="choose another client",
            )
        plan = support.sent(plan)
        image, folder = jars.resolve(plan, say)
        made = mode_of(plan).ingredients(plan, image, say)
        return replace(
            made,
            files={**made.files, **proxy_files(plan, image, say)},
            folders={folder: JAR_FOLDER},
            programs=jars.PROGRAMS,
            distribution=jars.INSTALLED,
        )

    def nodes(
        self, plan: KafkaPlan, ingredients: Ingredients, addresses: Mapping[str, str]
    ) -> list[NodeSpec]:
        """Every node with its files."""
        servers = mode_of(plan).specs(support.sent(plan), ingredients, addresses)
        servers = with_proxies(servers, plan, ingredients, addresses)
        release = release_line_of(plan)
        consumers = [
            spec
            for each in self._groups(plan)
            for spec in members.specs(each, release, ingredients)
        ]
        return servers + library_of(plan).nodes(plan, release, ingredients) + consumers
