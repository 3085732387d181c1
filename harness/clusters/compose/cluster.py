"""The cluster of a run in a compose project of the user's: its containers, as Docker knows them by
compose's own labels; how a project is started, and left as it was found.

`docker compose` is needed for nothing but the start. What a start has made (containers, networks)
is removed by its id afterwards, what was there is only stopped again. Named volumes stay: they are
data, and `docker compose down` leaves them too.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final

import docker
from docker.errors import NotFound
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from harness.clusters.compose.file import KIND, Named, why_no_own_network
from harness.clusters.compose.node import ComposeNode, Limit, Limits, attach, attached, levers_over
from harness.clusters.docker.cluster import remove_run
from harness.clusters.external import ASK_S, ExternalCluster
from harness.errors import AcklossError, EnvironmentFailure, HarnessFailure, PlanError
from harness.failures import try_all
from harness.faults.journal import OpenAct, open_acts
from harness.images.daemon import DAEMON_TROUBLE, explanation
from harness.levers.process import PauseLever, ProcessLever
from harness.machine import state
from harness.machine.files import run_program
from harness.protocols import Lever, Member, Node

_PROJECT: Final = "com.docker.compose.project"
_SERVICE: Final = "com.docker.compose.service"
_ONEOFF: Final = "com.docker.compose.oneoff"
_COMMANDS: Final = (("docker", "compose"), ("docker-compose",))
_STARTED_S: Final = 900


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
        listed = _listed(self.client, self.named.project, f"{_SERVICE}={service}")
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
        """Start it; containers that are there are not made again. Raises EnvironmentFailure."""
        if (command := compose_command()) is None:
            raise no_command(self.named)
        argv = [*command, "-f", str(self.named.compose), "-p", self.named.project]
        argv += ["up", "-d", "--no-recreate"]
        try:
            folder = self.named.compose.parent
            done = run_program(argv, timeout_s=_STARTED_S, cwd=folder, start_new_session=True)
        except subprocess.TimeoutExpired as error:
            raise self._not_started(f"no end within {_STARTED_S} s") from error
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


def _listed(client: docker.DockerClient, project: str, *labels: str) -> list[Any]:
    """The containers of a project, but those of `docker compose run`."""
    filters = {"label": [f"{_PROJECT}={project}", *labels]}
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
    """What a start has made (containers, networks), and which containers it has started."""
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
            failures.append(f"{container[:12]}: {explanation(error)}")

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
            failures.append(f"{network[:12]}: {explanation(error)}")
    if failures:
        raise HarnessFailure(
            f"the project is not as it was: {'; '.join(sorted(failures))}",
            hint="run `ackloss clean` again",
        )
    return sorted(removed)


# Which container is which node of the system: by the address at which the system says that clients
# find it, or by the number that the cluster file gives. Both are compared where both are there: a
# fault on another container than the one that is meant would prove nothing.


@dataclass(frozen=True, kw_only=True)
class Matched:
    """A node: its name and roles, and its container."""

    name: str
    roles: frozenset[str]
    container: Container


def matched(
    named: Named, containers: Mapping[str, Container], members: Sequence[Member]
) -> list[Matched]:
    """The nodes: members first, then services that are none of them. Raises EnvironmentFailure or
    PlanError where it is not certain which is which."""
    services = named.content.services
    of_service: dict[str, Member] = {}
    for member in members:
        service = _service_of(named, containers, member)
        if (other := of_service.get(service)) is not None:
            raise EnvironmentFailure(
                f"{other.name} and {member.name} have the same address, {member.address}",
                file=str(named.file),
                key=f"services.{service}",
                hint="give `node` for each service",
            )
        of_service[service] = member
    nodes = []
    for service, member in of_service.items():
        roles = member.roles | set(services[service].roles)
        nodes.append(Matched(name=member.name, roles=roles, container=containers[service]))
    taken = frozenset[str]().union(*(member.roles for member in members))
    for service in services:
        if service in of_service:
            continue
        roles = frozenset(services[service].roles)
        if not roles or roles & taken or services[service].node is not None:
            found = ", ".join(f"{member.name} at {member.address}" for member in members)
            raise EnvironmentFailure(
                f"no node of the system is in the service {service}: it names {found or 'none'}",
                file=str(named.file),
                key=f"services.{service}",
                hint="leave the service out, or give it a role that these do not have",
            )
        name = re.sub(r"[^a-z0-9.-]", "-", service.lower())  # as journals can hold it
        nodes.append(Matched(name=name, roles=roles, container=containers[service]))
    names = [node.name for node in nodes]
    for node in nodes:
        if names.count(node.name) > 1:
            raise PlanError(
                f"two nodes would have the name {node.name}",
                file=str(named.file),
                key=f"services.{node.container.service}",
                hint="rename the service",
            )
    return nodes


def _service_of(named: Named, containers: Mapping[str, Container], member: Member) -> str:
    by_number = [
        service
        for service, each in named.content.services.items()
        if each.node is not None and each.node == member.number
    ]
    by_address = at_address(member.address, containers)
    if by_number:
        (service,) = by_number
        if by_address and service not in by_address:
            raise _contradiction(named, service, member, by_address)
        return service
    free = [each for each in by_address if named.content.services[each].node is None]
    if len(free) == 1:
        return free[0]
    if by_address and not free:
        raise _contradiction(named, by_address[0], member, by_address)
    what = f"is {' or '.join(free)}" if free else "is not one of the services"
    number = "" if member.number is None else f"; say `node = {member.number}` where it belongs"
    raise EnvironmentFailure(
        f"which container is {member.name} is not certain: its address, {member.address}, {what}",
        file=str(named.file),
        key="services",
        hint=f"name the service of each node of the system{number}",
    )


def _contradiction(
    named: Named, service: str, member: Member, by_address: Sequence[str]
) -> PlanError:
    return PlanError(
        f"is {named.content.services[service].node}, but {member.name} is at {member.address}, "
        f"which is {' or '.join(by_address)}",
        file=str(named.file),
        key=f"services.{service}.node",
        hint="correct it, or leave it out",
    )


def at_address(address: str, containers: Mapping[str, Container]) -> list[str]:
    """The services whose container is at a host:port: by a name or address of it in its networks,
    else by the port that it has on this machine."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not _is_loopback(host):
        inside = [
            service
            for service, each in containers.items()
            if host in each.names or host in each.addresses.values()
        ]
        if inside:
            return inside
    return [s for s, each in containers.items() if int(port) in each.published]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_UP_S: Final = 120.0
_RETRY_S: Final = 1.0
_CONNECT_S: Final = 3.0


@dataclass
class ComposeCluster(ExternalCluster):
    """See `harness.protocols.RunCluster`. What is needed to leave the project as it was found is
    noted before the first change."""

    named: Named = field(kw_only=True)
    client: docker.DockerClient = field(kw_only=True)
    infra_image: str = field(kw_only=True)
    say: Callable[[str], None] = field(kw_only=True)

    @property
    def levers(self) -> Mapping[str, Lever[Any]]:
        return levers_over(self.nodes)

    def start(self) -> None:
        """Start the project if requested, match containers and nodes, and put ours beside each."""
        project = Project(self.client, self.named)
        noted = self._started(project) if self.named.content.start else self._note()
        nodes = self._matched(project.containers())
        network, limits = shared_network(self.named, [node.container for node in nodes])
        add = partial(attach, self.client, self.run_id, self.infra_image)
        with ThreadPoolExecutor(max_workers=12) as pool:
            made = pool.map(lambda n: add(name=n.name, container=n.container.id), nodes)
            for node, infra in zip(nodes, made, strict=True):
                self.nodes[node.name] = ComposeNode(
                    node.name,
                    node.roles | {f"service:{node.container.service}"},
                    node.container.id,
                    infra,
                    self.client,
                    network=network,
                    limits=limits[node.container.id],
                )
        self._note(noted, objects=list(self.guest.objects(self.order.plan)))

    def down(self) -> list[str]:
        """Undo what is in force, remove what is ours, and leave the project as it was found."""
        with closing(self.guest):
            return leave_as_found(
                self.client,
                self.run_id,
                lambda: self.guest.remove(self.guest.objects(self.order.plan), dry_run=False),
                lambda _: self.undo_own(),
            )

    def _note(
        self, noted: Mapping[str, state.Note] | None = None, **more: state.Note
    ) -> dict[str, state.Note]:
        """Add to what another process must know; there are no objects of ours at first."""
        first = {**self.entry(), "project": self.named.project, "objects": []}
        entry = {**(first if noted is None else noted), **more}
        state.remember_cluster(KIND, self.run_id, entry)
        return entry

    def _started(self, project: Project) -> dict[str, state.Note]:
        before = state_of(self.client, self.named.project)
        noted = self._note(before=before)
        self.say(f"starting the project {self.named.project}")
        project.up()
        now = state_of(self.client, self.named.project)
        return self._note(noted, changed=made_by_start(before, now))

    def _matched(self, containers: Mapping[str, Container]) -> list[Matched]:
        """The nodes, by what the cluster says it is; one that was just started is waited for."""
        until_s = max(each.started_s for each in containers.values()) + _UP_S
        waits = False
        while True:
            try:
                members = self.guest.members(self.order.plan, timeout_s=ASK_S)
                for member in members:
                    self._connect(member)
                return matched(self.named, containers, members)
            except EnvironmentFailure as error:
                if time.time() > until_s:
                    raise
                if not waits:
                    self.say(f"waiting for the project {self.named.project}: {error.what}")
                    waits = True
                time.sleep(_RETRY_S)

    def _connect(self, member: Member) -> None:
        """Raise EnvironmentFailure for a node whose address this machine does not reach."""
        host, _, port = member.address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
        except OSError as error:
            why = error.strerror or ("no answer in time" if isinstance(error, TimeoutError) else "")
            raise EnvironmentFailure(
                f"{member.name} is advertised to clients as {member.address}, where this machine "
                f"does not reach it ({why or error})",
                file=str(self.named.file),
                key="bootstrap",
                hint="name a listener that is advertised with an address for this machine",
            ) from error


def shared_network(named: Named, containers: Sequence[Container]) -> tuple[str, dict[str, Limits]]:
    """The network in which all nodes reach each other, and what may not be done to each container,
    by its id. Raises EnvironmentFailure if there is none."""
    common = set(containers[0].addresses).intersection(*(each.addresses for each in containers))
    if not common:
        raise EnvironmentFailure(
            "the services share no network",
            file=str(named.file),
            key="services",
            hint="name services that reach each other in one network",
        )
    network = sorted(common)[0]
    return network, {each.id: _limits(each, containers, network) for each in containers}


def _limits(container: Container, all_: Sequence[Container], network: str) -> Limits:
    others = [each for each in all_ if each.id != container.id]
    further = {n for each in others for n in each.addresses} & container.addresses.keys()
    further -= {network}
    limits: dict[Limit, str] = {}
    if further:
        ways = ", ".join(sorted({network, *further}))
        limits["cut"] = f"reaches others in several networks ({ways}): a cut would leave a way"
    elif container.six:
        limits["cut"] = "has an IPv6 address too, and cuts are of IPv4: a cut would leave a way"
    if len(container.addresses) > 1:
        limits["shape"] = "has several networks, and what it sends is shaped in one of them"
    if not container.limited_memory:
        limits["memory"] = "has no memory limit: what is held would be the machine's memory"
    if container.removed_at_end:
        limits["kill"] = "is removed by Docker when its process ends"
    return limits


# Leaving a project as it was found, in the process of the run or in another one: from the journal
# of the run, the labels of our containers, and the note on this machine. The journal may be lost,
# with the folder of the run: what our containers themselves hold is undone, too.

_PATIENCE_S: Final = 60.0
_LEFT_IN_NAMESPACES: Final = ("net", "shaping", "stress")
"""The levers whose leftover state is ours beyond doubt."""


def leave_as_found(
    client: docker.DockerClient,
    run_id: str,
    remove_objects: Callable[[], list[str]],
    undo_own: Callable[[Mapping[str, ComposeNode]], None],
    *,
    dry_run: bool = False,
) -> list[str]:
    """Undo the faults of a run (`undo_own`: those of the target's own levers), remove its objects
    in the system and our containers, and stop the project if the run has started it. Returns what
    was removed. Tries all of it, then raises the first failure; what is needed to try again is kept
    until nothing is left. Without the run's folder it is not known which containers a fault has
    killed: those that do not run are reported once, as HarnessFailure, when all else is done."""
    entry = state.remembered_cluster(KIND, run_id) or {}
    nodes, removed, failures = attached(client, run_id), list[str](), list[AcklossError]()

    def attempt(step: Callable[[], list[str] | None]) -> bool:
        try:
            removed.extend(step() or ())
            return True
        except AcklossError as error:
            failures.append(error)
        except DAEMON_TROUBLE as error:
            what = f"Docker does not undo everything of run {run_id}: {error}"
            failures.append(HarnessFailure(what, hint="run `ackloss clean` again"))
        return False

    acts = _open_acts(nodes, run_id)
    killed = [] if dry_run or entry.get("before") else _perhaps_killed(nodes, run_id)
    undone = dry_run or attempt(lambda: _undo(nodes, acts))
    if not dry_run:  # by requests to the system: it must run again
        own = partial(undo_own, nodes)
        undone = attempt(partial(_patiently, own) if acts else own) and undone
    if entry.get("objects") and dry_run and acts:
        removed.extend(entry["objects"])  # under faults it may be unknown whether they are there
    elif entry.get("objects"):
        attempt(partial(_patiently, remove_objects) if acts else remove_objects)
    if undone:  # else they are needed to try again
        attempt(lambda: remove_run(client, run_id, dry_run=dry_run))
    if (before := entry.get("before")) and undone:
        changed = entry.get("changed") or made_by_start(
            before, state_of(client, str(entry["project"]))
        )
        attempt(lambda: stop_again(client, changed, dry_run=dry_run))
    if failures:
        raise failures[0]
    if not dry_run:
        state.forget_cluster(KIND, run_id)
    if killed:
        raise HarnessFailure(
            f"containers that do not run: {', '.join(killed)}; a fault of run {run_id} may have "
            "killed them (its folder, which would show that, is gone)",
            hint="`docker start` those that are to run",
        )
    return removed


def _perhaps_killed(nodes: Mapping[str, ComposeNode], run_id: str) -> list[str]:
    """The nodes that do not run, as all did at first, if nothing is left that shows why."""
    run = state.registration(run_id)
    if run is not None and run.folder.is_dir():
        return []
    return [name for name, node in sorted(nodes.items()) if not node.process().running]


def _open_acts(nodes: dict[str, ComposeNode], run_id: str) -> list[OpenAct]:
    """What the run's journal does not report as undone, on nodes that are still there."""
    if (run := state.registration(run_id)) is None:
        return []
    return [act for act in open_acts(run.folder / "faults.jsonl").acts if act.record.node in nodes]


def _undo(nodes: dict[str, ComposeNode], acts: Sequence[OpenAct]) -> None:
    """Undo these acts: containers run again first, as rules are in networks of containers that run.
    Raises HarnessFailure for what is still in force."""
    levers = levers_over(nodes)
    latest_first = [act for act in reversed(acts) if act.lever in levers]
    in_order = sorted(latest_first, key=lambda act: act.lever != ProcessLever.name)
    undoing = (partial(levers[act.lever].undo, act.record) for act in in_order)
    try_all([*undoing, *(partial(_continue, node) for node in nodes.values())])
    if left := [sentence for node in nodes.values() for sentence in _left_on(node)]:
        raise HarnessFailure(
            f"is still in force: {'; '.join(left)}", hint="restart this container of yours"
        )


def _continue(node: ComposeNode) -> None:
    """Continue what our own marks report as paused beside a container that runs."""
    pause = PauseLever({node.name: node})
    for record in pause.marked(node) if node.process().running else ():
        pause.undo(record)


def _left_on(node: ComposeNode) -> list[str]:
    """What of ours is in force beside a container that runs; with one that does not, it ended."""
    if not node.process().running:
        return []
    levers = levers_over({node.name: node})
    return [each for name in _LEFT_IN_NAMESPACES for each in levers[name].leftover_state(node)]


def with_roles(
    nodes: Mapping[str, ComposeNode], members: Mapping[str, Node]
) -> Mapping[str, ComposeNode]:
    """The nodes with the roles that the cluster reports: the labels of our containers hold none."""
    for name in nodes.keys() & members.keys():
        nodes[name].roles = members[name].roles
    return nodes


_patiently: Final = Retrying(
    retry=retry_if_exception_type((EnvironmentFailure, HarnessFailure)),
    stop=stop_after_delay(_PATIENCE_S),
    wait=wait_fixed(_RETRY_S),
    reraise=True,
)
"""Requests something of the system, of which a part has just been started again: it is waited
for."""
