"""Removes what a run made: by label and nothing else, then the disks in its folder."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import docker
from docker.errors import NotFound

from harness.errors import HarnessFailure
from harness.images.daemon import DAEMON_TROUBLE, RUN_LABEL
from harness.machine import loop_disks

INFRA_SUFFIX = "-infra"
"""How the name of an infrastructure container ends."""

BESIDE_SUFFIX = "-beside"
"""How the name of a container beside the target's ends."""

_STUCK = "has active endpoints"
_RESTART = (
    "run `ackloss clean` again; if it stays though no container is on it, Docker has miscounted: "
    "restart Docker, then `ackloss clean`"
)


_Removal = tuple[str, Callable[[], object]]
"""One object of a run, and how it is removed."""


def remove_run(client: docker.DockerClient, run_id: str, *, dry_run: bool = False) -> list[str]:
    """Remove every container, network and volume of a run, by label, and its disks, once no
    container uses them. Returns their names.

    Objects that are gone already are left out. Raises HarnessFailure, after having tried
    everything, when something stays.
    """
    removed: list[str] = []
    failures: list[str] = []

    def remove(removal: _Removal) -> None:
        what, act = removal
        try:
            if not dry_run:
                act()
            removed.append(what)
        except NotFound:
            pass
        except DAEMON_TROUBLE as error:
            failures.append(f"{what}: {getattr(error, 'explanation', None) or error}")

    for step in _steps(client, run_id):
        with ThreadPoolExecutor(max_workers=12) as pool:
            list(pool.map(remove, step))
    if failures:
        stuck = any(_STUCK in failure for failure in failures)
        raise HarnessFailure(
            f"could not remove {'; '.join(sorted(failures))}",
            hint=_RESTART if stuck else "run `ackloss clean` again",
        )
    removed += loop_disks.remove(run_id, dry_run=dry_run)
    return sorted(removed)


def _steps(client: docker.DockerClient, run_id: str) -> list[list[_Removal]]:
    """What to remove, one list after the other: a target's container before the infrastructure
    container whose namespaces it shares, volumes and networks once nothing uses them."""
    api, by_run = client.api, {"label": [f"{RUN_LABEL}={run_id}"]}
    targets: list[_Removal] = []
    infras: list[_Removal] = []
    for container in api.containers(all=True, filters=by_run):
        name = container["Names"][0].lstrip("/")
        of_kind = infras if name.endswith(INFRA_SUFFIX) else targets
        act = partial(api.remove_container, container["Id"], force=True)
        of_kind.append((f"container {name}", act))
    volumes: list[_Removal] = [
        (f"volume {volume['Name']}", partial(api.remove_volume, volume["Name"]))
        for volume in api.volumes(filters=by_run)["Volumes"] or []
    ]
    networks: list[_Removal] = [
        (f"network {network['Name']}", partial(api.remove_network, network["Id"]))
        for network in api.networks(filters=by_run)
    ]
    return [targets, infras, volumes, networks]


def unknown_runs(client: docker.DockerClient, known: set[str]) -> set[str]:
    """Runs whose label an object of this daemon carries but which are not in `known`."""
    api, labelled = client.api, {"label": [RUN_LABEL]}
    objects = [
        *api.containers(all=True, filters=labelled),
        *api.networks(filters=labelled),
        *(api.volumes(filters=labelled)["Volumes"] or []),
    ]
    labels = {item["Labels"][RUN_LABEL] for item in objects}
    return (labels | loop_disks.runs_with_disks()) - known
