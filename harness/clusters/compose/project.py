"""The containers of a compose project, as Docker knows them by compose's own labels; how a project
is started, and left as it was found.

`docker compose` is needed for nothing but the start. What a start has made (containers, networks)
is removed by its id afterwards, what was there is only stopped again. Named volumes stay: they are
data, and `docker compose down` leaves them too.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

import docker
from docker.errors import NotFound

from harness.clusters.compose.file import Named, why_no_own_network
from harness.errors import EnvironmentFailure, HarnessFailure, PlanError
from harness.images.daemon import DAEMON_TROUBLE
from harness.machine.files import run_program

_PROJECT: Final = "com.docker.compose.project"
_SERVICE: Final = "com.docker.compose.service"
_ONEOFF: Final = "com.docker.compose.oneoff"
_COMMANDS: Final = (("docker", "compose"), ("docker-compose",))
_UP_S: Final = 900


@dataclass(frozen=True, kw_only=True)
class Container:
    """A container of the user's that is a node.

    names      by which others reach it in its networks
    addresses  its IPv4 address in each network
    six        the networks in which it has an IPv6 address too
    published  its ports on this machine
    started_s  when it was started, in seconds since 1970
    """

    id: str
    service: str
    names: frozenset[str]
    addresses: Mapping[str, str]
    six: frozenset[str]
    published: frozenset[int]
    limited_memory: bool
    removed_at_end: bool
    started_s: float = 0.0


def compose_command() -> list[str] | None:
    """The command that starts projects here; `None`: there is none."""
    for command in _COMMANDS:
        try:
            done = run_program([*command, "version"], timeout_s=20)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return list(command)
    return None


@dataclass(frozen=True)
class Project:
    """A project of the user's on this machine's Docker daemon."""

    client: docker.DockerClient
    named: Named

    def containers(self) -> dict[str, Container]:
        """The container of each service that the file names. Raises EnvironmentFailure where one
        does not run, PlanError for one that cannot be a node."""
        return {service: self._container(service) for service in self.named.content.services}

    def _container(self, service: str) -> Container:
        listed = _listed(self.client, self.named.project, {_SERVICE: service})
        running = [each for each in listed if each["State"] == "running"]
        if not running:
            raise self._does_not_run(service, there=bool(listed))
        if len(running) > 1:
            raise PlanError(
                f"{service} has {len(running)} containers, and a node is one",
                file=str(self.named.file),
                key=f"services.{service}",
                hint="give each its own service",
            )
        found = self.client.api.inspect_container(running[0]["Id"])
        mode = str(found["HostConfig"]["NetworkMode"])
        if why := why_no_own_network(mode):
            raise PlanError(
                f"{service} {why}",
                file=str(self.named.file),
                key=f"services.{service}",
                hint="give the service its own network",
            )
        return _described(found, service)

    def _does_not_run(self, service: str, *, there: bool) -> EnvironmentFailure:
        state = "does not run" if there else "has no container"
        every = self.client.api.containers(all=True, filters={"label": [_PROJECT]})
        projects = sorted({each["Labels"][_PROJECT] for each in every})
        if not there and self.named.project not in projects:
            return EnvironmentFailure(
                f"no project {self.named.project!r} is on this machine "
                f"(there are: {', '.join(projects) or 'none'})",
                file=str(self.named.file),
                key="project",
                hint="start it, name it as `docker compose ls` does, or set `start = true`",
            )
        return EnvironmentFailure(
            f"the service {service} of the project {self.named.project!r} {state}",
            file=str(self.named.file),
            key=f"services.{service}",
            hint="start it, or set `start = true`",
        )

    def up(self) -> None:
        """Start it; a container that is there is started and not made again. Raises
        EnvironmentFailure."""
        if (command := compose_command()) is None:
            raise no_command(self.named)
        argv = [*command, "-f", str(self.named.compose), "-p", self.named.project]
        argv += ["up", "-d", "--no-recreate"]
        try:
            folder = self.named.compose.parent
            done = run_program(argv, timeout_s=_UP_S, cwd=folder, start_new_session=True)
        except subprocess.TimeoutExpired as error:
            raise self._not_started(f"no end within {_UP_S} s") from error
        if done.returncode:
            lines = (done.stdout + done.stderr).strip().splitlines()
            raise self._not_started(" ".join(lines[-1:])[:300] or f"exit code {done.returncode}")

    def _not_started(self, why: str) -> EnvironmentFailure:
        return EnvironmentFailure(
            f"the project {self.named.project!r} cannot be started: {why}",
            file=str(self.named.file),
            key="start",
            hint=f"try `docker compose -f {self.named.compose} up -d`",
        )


def state_of(client: docker.DockerClient, project: str) -> dict[str, list[str]]:
    """The ids of a project's containers, of those that run, and of its networks."""
    containers = _listed(client, project)
    label = {"label": [f"{_PROJECT}={project}"]}
    return {
        "containers": [each["Id"] for each in containers],
        "running": [each["Id"] for each in containers if each["State"] == "running"],
        "networks": [each["Id"] for each in client.api.networks(filters=label)],
    }


def _listed(
    client: docker.DockerClient, project: str, more: Mapping[str, str] | None = None
) -> list[Any]:
    """The containers of a project, but those of `docker compose run`."""
    wanted = {_PROJECT: project, **(more or {})}
    filters = {"label": [f"{key}={value}" for key, value in wanted.items()]}
    found = client.api.containers(all=True, filters=filters)
    return [each for each in found if each["Labels"].get(_ONEOFF, "False") != "True"]


def no_command(named: Named) -> EnvironmentFailure:
    """There is nothing on this machine that starts projects."""
    return EnvironmentFailure(
        "neither `docker compose` nor `docker-compose` is on this machine, so nothing starts the "
        "project",
        file=str(named.file),
        key="start",
        hint="install one (Debian: apt-get install docker-compose), or start the project yourself",
    )


def _described(found: Any, service: str) -> Container:
    networks: Mapping[str, Any] = found["NetworkSettings"]["Networks"]
    names = {service, found["Name"].lstrip("/"), found["Config"]["Hostname"]}
    for each in networks.values():
        names |= {*(each.get("Aliases") or ())}
    ports = found["NetworkSettings"]["Ports"] or {}
    bindings = [each for of_port in ports.values() for each in of_port or ()]
    return Container(
        id=found["Id"],
        service=service,
        names=frozenset(names),
        addresses={n: each["IPAddress"] for n, each in networks.items() if each["IPAddress"]},
        six=frozenset(n for n, each in networks.items() if each.get("GlobalIPv6Address")),
        published=frozenset(int(each["HostPort"]) for each in bindings if each["HostPort"]),
        limited_memory=bool(found["HostConfig"].get("Memory")),
        removed_at_end=bool(found["HostConfig"].get("AutoRemove")),
        started_s=datetime.fromisoformat(found["State"]["StartedAt"]).timestamp(),
    )


def made_by_start(before: Mapping[str, Sequence[str]], now: Mapping[str, Sequence[str]]) -> Any:
    """What a start has changed: containers and networks that it made, containers that it
    started."""
    return {
        "made": [each for each in now["containers"] if each not in before["containers"]],
        "started": [
            each
            for each in now["running"]
            if each in before["containers"] and each not in before["running"]
        ],
        "networks": [each for each in now["networks"] if each not in before["networks"]],
    }


def stop_again(
    client: docker.DockerClient, changed: Mapping[str, Sequence[str]], *, dry_run: bool
) -> list[str]:
    """Undo a start: stop what it started, remove what it made, containers first. Returns the names
    of what was removed. Raises HarnessFailure when something stays, after having tried all."""
    api, removed, failures = client.api, list[str](), list[str]()

    def end(container: str, *, remove: bool) -> None:
        try:
            name = api.inspect_container(container)["Name"].lstrip("/")
            if not dry_run:
                api.stop(container)  # in the time that the container itself has for it
            if remove and not dry_run:
                api.remove_container(container, v=True, force=True)
            removed.append(f"container {name}" + ("" if remove else " (stopped again)"))
        except NotFound:
            pass
        except DAEMON_TROUBLE as error:
            failures.append(f"{container[:12]}: {getattr(error, 'explanation', None) or error}")

    with ThreadPoolExecutor(max_workers=12) as pool:
        list(pool.map(partial(end, remove=True), changed["made"]))
        list(pool.map(partial(end, remove=False), changed["started"]))
    for network in changed["networks"]:
        try:
            name = api.inspect_network(network)["Name"]
            if not dry_run:
                api.remove_network(network)
            removed.append(f"network {name}")
        except NotFound:
            continue
        except DAEMON_TROUBLE as error:
            failures.append(f"{network[:12]}: {getattr(error, 'explanation', None) or error}")
    if failures:
        raise HarnessFailure(
            f"the project is not as it was: {'; '.join(sorted(failures))}",
            hint="run `ackloss clean` again",
        )
    return sorted(removed)
