"""Removing what a run made, by label and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import docker
from docker.errors import APIError, NotFound

from harness.errors import HarnessFailure
from harness.images.daemon import RUN_LABEL


def remove_run(client: docker.DockerClient, run_id: str, *, dry_run: bool = False) -> list[str]:
    """Remove every container, network and volume of a run, by label. Returns their names.

    A target's container goes before the holder whose namespaces it shares; what is gone already is
    no error. Raises HarnessFailure, after having tried everything, when something stays.
    """
    api = client.api
    by_run = {"label": [f"{RUN_LABEL}={run_id}"]}
    containers = api.containers(all=True, filters=by_run)
    targets = [c for c in containers if not c["Names"][0].endswith("-holder")]
    holders = [c for c in containers if c["Names"][0].endswith("-holder")]
    volumes = api.volumes(filters=by_run)["Volumes"] or []
    networks = api.networks(filters=by_run)
    steps: list[tuple[str, list[tuple[str, Callable[[], Any]]]]] = [
        ("container", [_removal(api, c) for c in targets]),
        ("container", [_removal(api, c) for c in holders]),
        ("volume", [(v["Name"], partial(api.remove_volume, v["Name"])) for v in volumes]),
        ("network", [(n["Name"], partial(api.remove_network, n["Id"])) for n in networks]),
    ]
    failures: list[str] = []
    removed: list[str] = []

    def remove(kind: str, name: str, act: Callable[[], Any]) -> None:
        try:
            if not dry_run:
                act()
            removed.append(f"{kind} {name}")
        except NotFound:
            pass
        except APIError as error:
            failures.append(f"{kind} {name}: {error.explanation or error}")

    for kind, removals in steps:
        with ThreadPoolExecutor(max_workers=12) as pool:
            for name, act in removals:
                pool.submit(remove, kind, name, act)
    if failures:
        raise HarnessFailure(
            f"could not remove {'; '.join(sorted(failures))}", hint="run `ackloss clean` again"
        )
    return sorted(removed)


def _removal(api: Any, container: dict[str, Any]) -> tuple[str, Callable[[], Any]]:
    name = container["Names"][0].lstrip("/")
    return name, partial(api.remove_container, container["Id"], force=True)


def unknown_runs(client: docker.DockerClient, known: set[str]) -> set[str]:
    """Runs whose label stands on some object of this daemon but which are not in `known`."""
    api, labelled = client.api, {"label": [RUN_LABEL]}
    objects = [
        *api.containers(all=True, filters=labelled),
        *api.networks(filters=labelled),
        *(api.volumes(filters=labelled)["Volumes"] or []),
    ]
    return {item["Labels"][RUN_LABEL] for item in objects} - known
