"""Clients in nodes of the cluster: of a library that has them so, none for all others.

Such nodes have the role `client`. They are not part of the system under test: `all` and the like
leave them out (`harness.faults.selectors`), and they are not queried for who leads.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from harness.images.steps import Say
from harness.protocols import Cluster, ImageRef, Ingredients, NodeSpec
from targets.kafka.clients import library_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import ReleaseLine


@runtime_checkable
class InNodes(Protocol):
    """A `targets.kafka.clients.library.Library` whose clients run in their own nodes."""

    def names(self, plan: KafkaPlan) -> list[str]:
        """The nodes' names."""
        ...

    def files(self, plan: KafkaPlan, image: ImageRef, say: Say) -> dict[str, bytes]:
        """What its nodes need and took long to make, by name: for the target's ingredients."""
        ...

    def nodes(
        self, plan: KafkaPlan, release: ReleaseLine, ingredients: Ingredients
    ) -> list[NodeSpec]:
        """Its nodes."""
        ...

    def reported_settings(self, plan: KafkaPlan, cluster: Cluster) -> dict[str, str]:
        """The settings of its producers, defaults included, as one of them reports.

        Raises PlanError when one that the plan requests is unknown to it or differs.
        """
        ...


def client_names(plan: KafkaPlan) -> list[str]:
    """The names of the clients' nodes."""
    library = library_of(plan)
    return library.names(plan) if isinstance(library, InNodes) else []


def client_files(plan: KafkaPlan, image: ImageRef, say: Say) -> dict[str, bytes]:
    """What the clients' nodes need beside the image."""
    library = library_of(plan)
    return library.files(plan, image, say) if isinstance(library, InNodes) else {}


def client_nodes(plan: KafkaPlan, release: ReleaseLine, ingredients: Ingredients) -> list[NodeSpec]:
    """The clients' nodes."""
    library = library_of(plan)
    return library.nodes(plan, release, ingredients) if isinstance(library, InNodes) else []


def producers_settings(plan: KafkaPlan, cluster: Cluster) -> dict[str, str]:
    """What the plan's producers have: as they report it themselves where they can."""
    library = library_of(plan)
    return (
        library.reported_settings(plan, cluster)
        if isinstance(library, InNodes)
        else library.settings(plan)
    )
