"""A plan on a cluster that the user already has: how `--cluster FILE` changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import registry
from harness.clusters.cluster_file import kind_in
from harness.errors import PlanError, nearest
from harness.protocols import Guest, Provider, RunsElsewhere, TakesClusterFile, Target


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a plan is run instead of on a cluster of our own: the kind of cluster with its file,
    and the target as a guest there."""

    provider: Provider
    target: Target[Any]


def cluster_provider(file: Path) -> Provider:
    """The kind of cluster that a file names. Raises PlanError, or EnvironmentFailure for a missing
    secret."""
    kinds = {
        name: kind
        for name in registry.usable("clusters")
        if isinstance(kind := registry.make("clusters", name, {}, key="kind"), TakesClusterFile)
    }
    named, hint = kind_in(file), f"there are: {', '.join(kinds)}"
    if named is None:
        raise PlanError("is missing", file=str(file), key="kind", hint=hint)
    if named not in kinds:
        near = nearest(str(named), list(kinds))
        hint = f"did you mean {near!r}?" if near else hint
        what = f"{named!r} is not a kind of cluster that a file can describe"
        raise PlanError(what, file=str(file), key="kind", hint=hint)
    return kinds[str(named)].with_cluster(file)


def on_cluster(
    document: Mapping[str, Any], cluster: Path, *, file: str
) -> tuple[dict[str, Any], Place, list[str]]:
    """A plan's document for the cluster of a file, with its place, and sentences about what is
    ignored. Raises PlanError."""
    provider = cluster_provider(cluster)
    assert isinstance(provider, TakesClusterFile)
    access, section = provider.access, document.get("target", {})
    system = section.get("system") if isinstance(section, dict) else None
    system = system or registry.default_target()
    if provider.system not in (None, system):
        raise PlanError(
            f"the plan is for {system}, the cluster is {provider.system}",
            file=str(cluster),
            key="system",
            hint="choose another plan",
        )
    target = registry.make("targets", str(system), {}, key="target.system", file=file)
    if not isinstance(target, RunsElsewhere):
        raise PlanError(
            f"{system} cannot be tested on a cluster that ackloss did not start",
            file=file,
            key="target.system",
        )
    assert access is not None
    guest = target.reached_by(access)
    assert isinstance(guest, Guest)
    adapted, ignored = guest.adapted(document)
    adapted["cluster"] = {"kind": provider.plugin}
    return adapted, Place(provider=provider, target=guest), ignored
