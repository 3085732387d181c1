"""A cluster of pods in Docker: real processes in containers on a network of their own; its nodes,
and the removal of what a run made.

A node is a pod of two containers. The *infrastructure* container (as Kubernetes' pause container)
runs our own image. It owns the network and process namespaces, the address, the firewall rules, the
data volumes and the right to administer them. The *target's* container joins those namespaces with
every capability dropped. So the target's image needs no tools, and its process can die and start
again while address, rules and data stay. The target must not be process 1, which ignores signals
from inside its own namespace. A process beside the target's (`NodeSpec.beside`) has a third
container, of the same image: it would die with the target's in that one.

Everything made carries the labels `ackloss` and `ackloss.run`. What a run made is removed by label
and nothing else, then the disks in its folder; nothing without the labels is touched.
"""

from __future__ import annotations

import ipaddress
import os
import random
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, NotFound
from docker.types import IPAMConfig, IPAMPool, LogConfig

from harness.errors import EnvironmentFailure, HarnessFailure
from harness.images.daemon import (
    DAEMON_TROUBLE,
    LABEL,
    RUN_LABEL,
    executed,
    explanation,
    libfaketime,
    refusals,
)
from harness.images.recipe import INFRA_MB
from harness.levers import all_levers, prepared
from harness.levers.process import Program, ProgramLever
from harness.machine import loop_disks
from harness.machine.files import packed, run_program, unpacked
from harness.machine.loop_disks import LoopDisk
from harness.protocols import (
    NODE_DATA,
    STORED,
    Completed,
    ImageRef,
    Ingredients,
    Lever,
    Node,
    NodeSpec,
    Order,
    OwnDisk,
    ProcessState,
    RunCluster,
)
from harness.protocols.clusters import specs_of

# Commands in containers and in their namespaces, and what Docker reports of their processes.

_INFRA_CAPABILITIES = ["NET_ADMIN", "NET_RAW", "KILL", "SYS_PTRACE", "DAC_OVERRIDE"]


def infra_host_config(client: docker.DockerClient, *, mem_limit: str, **where: Any) -> Any:
    """What an infrastructure container may do: only administer its namespaces (`where`)."""
    return client.api.create_host_config(
        cap_drop=["ALL"],
        cap_add=_INFRA_CAPABILITIES,
        security_opt=["no-new-privileges"],
        mem_limit=mem_limit,
        pids_limit=256,
        **where,
    )


def enter(
    pid: int, namespaces: Sequence[str], argv: Sequence[str], *, timeout_s: float
) -> Completed:
    """Run a command in namespaces of a process of this machine, which takes a tenth of the time of
    an exec. Only where `can_enter`. Ctrl-C at the terminal does not reach it: it may be undoing a
    fault."""
    command = ["nsenter", "-t", str(pid), *namespaces, "--", *argv]
    try:
        done = run_program(command, timeout_s=timeout_s, start_new_session=True)
    except subprocess.TimeoutExpired:
        return Completed(124, f"no answer within {timeout_s:g} s")
    return Completed(done.returncode, done.stdout + done.stderr)


def can_enter(pid: int) -> bool:
    """Whether this process may enter the namespaces of that one."""
    return os.geteuid() == 0 and Path(f"/proc/{pid}/ns/net").exists()


def execute(
    client: docker.DockerClient, container: str, argv: Sequence[str], *, node: str
) -> Completed:
    """Run a command in a container. Raises HarnessFailure that names the node."""
    with refusals(node):  # when its process has ended, and the container with it
        return Completed(*executed(client.api, container, argv))


def process_of(client: docker.DockerClient, container: str) -> ProcessState:
    """The state of a container's process."""
    state = client.api.inspect_container(container)["State"]
    running = bool(state["Running"])
    return ProcessState(
        running=running,
        exit_code=None if running else int(state["ExitCode"]),
        started_at=state["StartedAt"],
        finished_at=state["FinishedAt"],
    )


PID_FILE = f"{NODE_DATA}/pid"
BESIDE_PID_FILE = f"{NODE_DATA}/beside.pid"


@dataclass(frozen=True)
class DockerNode(Node):
    """One pod. `infra` and `container` (the target's) are container ids; `infra_pid` is the process
    of the infrastructure container on the host, `own_disk` a disk that can lose power."""

    name: str
    roles: frozenset[str]
    address: str
    infra: str
    container: str
    infra_pid: int
    client: docker.DockerClient = field(repr=False)
    own_disk: OwnDisk | None = None

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        """Run a command of the infrastructure image in the pod's namespaces."""
        if not can_enter(self.infra_pid):
            return execute(self.client, self.infra, argv, node=self.name)
        return enter(self.infra_pid, ("-n", "-p", "-m"), argv, timeout_s=timeout_s)

    def run(self, argv: Sequence[str], *, timeout_s: float = 30) -> Completed:
        """Run a command in the target's container. Raises HarnessFailure when it is not running."""
        return execute(self.client, self.container, argv, node=self.name)

    def put(self, files: Mapping[str, bytes]) -> None:
        self.client.api.put_archive(self.infra, NODE_DATA, packed(files))

    def get(self, name: str) -> dict[str, bytes]:
        """A file, or all files of a folder, by their names below that folder; empty when absent."""
        try:
            stream, _ = self.client.api.get_archive(self.infra, f"{NODE_DATA}/{name}")
        except NotFound:
            return {}
        files = unpacked(b"".join(stream))
        return {path.partition("/")[2] or path: content for path, content in files}

    def here(self, name: str) -> Path | None:
        """Through the volume, where this process may read it. Not a disk that may lose power: it
        could not be unmounted while somebody reads it."""
        wanted = Path(NODE_DATA, name)
        mounts = self.client.api.inspect_container(self.infra)["Mounts"]
        for mount in sorted(mounts, key=lambda mount: -len(mount["Destination"])):
            if wanted.is_relative_to(mount["Destination"]) and self.own_disk is None:
                place = Path(mount["Source"], wanted.relative_to(mount["Destination"]))
                return place if os.access(place, os.R_OK) else None
        return None

    def start(self) -> None:
        self.client.api.start(self.container)

    def pid(self) -> int | None:
        """The process id of the target, as the pod numbers processes."""
        if not self.process().running:
            return None
        text = self.admin(["cat", PID_FILE]).output.strip()
        return int(text) if text.isdigit() else None

    def process(self) -> ProcessState:
        return process_of(self.client, self.container)


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
            failures.append(f"{what}: {explanation(error)}")

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


SUBNETS = ipaddress.IPv4Network("198.18.0.0/16")
_DRAWN = 150
"""Of the 256 subnets, as many may be the first: projects of others are put into the last ones."""

# Process 1 of the pod only adopts processes whose parents have died, so that none stays a zombie.
# Nodes are known by their addresses: nobody asks Docker's name server. Docker 20.10 deadlocks where
# it is asked while the networks of other runs come and go.
_INFRA_COMMAND = ["sh", "-c", ": > /etc/resolv.conf; while :; do sleep 86400 & wait; done"]
# Writes its own process id, as the pod sees it, then becomes the target's process.
_START = 'echo $$ > "$0" && exec "$@"'

_BESIDE_MB = 192


@dataclass
class DockerCluster:
    """The pods of one run and their network. Made by `create_network`, then `start_pods`."""

    run_id: str
    client: docker.DockerClient
    infra_image: str
    network: str = ""
    subnet: ipaddress.IPv4Network | None = None
    nodes: dict[str, DockerNode] = field(default_factory=dict)

    @property
    def levers(self) -> Mapping[str, Lever[Any]]:
        return all_levers(self.nodes)

    def create_network(self, names: Sequence[str]) -> dict[str, str]:
        """Make a network with a free subnet and assign an address in it to each name."""
        for subnet in _free_subnets(self.client):
            try:
                network = self.client.api.create_network(
                    f"ackloss-{self.run_id}",
                    driver="bridge",
                    ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet))]),
                    labels=self.labels(),
                    options={"com.docker.network.bridge.name": f"al{self.run_id[-6:]}"},
                )
            except APIError as error:
                if "overlaps" in str(error) or "already exists" in str(error):
                    continue  # another run has taken it in the meantime
                what = f"the network could not be created: Docker reports: {explanation(error)}"
                raise EnvironmentFailure(what) from error
            self.network, self.subnet = network["Id"], subnet
            hosts = [str(host) for host in subnet.hosts()]
            return {name: hosts[10 + place] for place, name in enumerate(names)}
        raise EnvironmentFailure(
            f"no /24 subnet of {SUBNETS} is free", hint="`ackloss clean` removes those of dead runs"
        )

    def start_pods(
        self, specs: Sequence[NodeSpec], image_id: str, addresses: Mapping[str, str]
    ) -> None:
        """Start every pod, all at once. Raises EnvironmentFailure when Docker refuses."""
        at = [addresses[spec.name] for spec in specs]
        what = "a node could not be started: Docker reports"
        with refusals(what, EnvironmentFailure), ThreadPoolExecutor(max_workers=12) as pool:
            for node in pool.map(partial(self._start_pod, image_id), specs, at):
                self.nodes[node.name] = node

    def _start_pod(self, image_id: str, spec: NodeSpec, address: str) -> DockerNode:
        """First the infrastructure container: a volume in memory lasts while a container has it."""
        api = self.client.api
        disk = self._disk(spec)
        volumes = self._volumes(self._name(spec), spec.data_mb, disk)
        infra = self._start_infra(spec, address, volumes)
        api.put_archive(infra, NODE_DATA, packed(spec.files))
        if disk is not None:
            disk.flush()
        start = partial(self._start_process, spec, image_id, infra, volumes)
        if spec.beside:
            start(spec.beside, BESIDE_PID_FILE, suffix=BESIDE_SUFFIX, memory_mb=_BESIDE_MB)
        target = start(spec.argv, PID_FILE, suffix="", memory_mb=spec.memory_mb)
        infra_pid = int(api.inspect_container(infra)["State"]["Pid"])
        roles, client = spec.roles, self.client
        return DockerNode(spec.name, roles, address, infra, target, infra_pid, client, disk)

    def _start_infra(self, spec: NodeSpec, address: str, volumes: list[str]) -> str:
        api = self.client.api
        container = api.create_container(
            self.infra_image,
            command=_INFRA_COMMAND,
            name=f"{self._name(spec)}{INFRA_SUFFIX}",
            hostname=spec.name,
            labels=self.labels(),
            networking_config=api.create_networking_config(
                {self.network: api.create_endpoint_config(ipv4_address=address)}  # type: ignore[arg-type]
            ),
            host_config=infra_host_config(
                self.client,
                mem_limit=_memory_limit(INFRA_MB, spec),
                network_mode=self.network,
                binds=volumes,
            ),
        )["Id"]
        api.start(container)
        return str(container)

    def _start_process(
        self,
        spec: NodeSpec,
        image_id: str,
        infra: str,
        volumes: Sequence[str],
        argv: Sequence[str],
        pid_file: str,
        *,
        suffix: str,
        memory_mb: int,
    ) -> str:
        """Start a container of the image in the pod's namespaces, with the node's files and no
        rights, or those to change its user; its process writes its id to a file. Returns its name,
        which a later one for the same node has too."""
        api, name = self.client.api, f"{self._name(spec)}{suffix}"
        mounts = (f"{host}:{path}:ro" for host, path in spec.mounts.items())
        container = api.create_container(
            image_id,
            entrypoint=["/bin/sh", "-c", _START, pid_file],
            command=list(argv),
            user="0:0",
            name=name,
            labels=self.labels(),
            environment=dict(spec.env),
            working_dir="/",
            host_config=api.create_host_config(
                network_mode=f"container:{infra}",
                pid_mode=f"container:{infra}",
                binds=[*volumes, *mounts],
                cap_drop=["ALL"],
                cap_add=spec.capabilities,
                security_opt=["no-new-privileges"],
                mem_limit=_memory_limit(memory_mb, spec),
                pids_limit=1024,
                log_config=LogConfig(type="json-file", config={"max-size": "16m"}),
            ),
        )["Id"]
        api.start(container)
        return name

    def install(self, image_id: str, spec: NodeSpec) -> None:
        """Have another program run in the place of the node's, which has ended: its container is
        replaced, while address, rules and what is stored stay. Files that it starts with are
        written, but none of what it stores. Raises HarnessFailure."""
        node = self.nodes[spec.name]
        node.put(
            {n: new for n, new in spec.files.items() if new and not n.startswith(f"{STORED}/")}
        )
        with refusals(node.name):
            binds = self.client.api.inspect_container(node.infra)["HostConfig"]["Binds"]
            self.client.api.remove_container(node.container, force=True)
            start = partial(self._start_process, spec, image_id, node.infra, binds)
            start(spec.argv, PID_FILE, suffix="", memory_mb=spec.memory_mb)

    def _name(self, spec: NodeSpec) -> str:
        return f"ackloss-{self.run_id}-{spec.name}"

    def _disk(self, spec: NodeSpec) -> LoopDisk | None:
        """Make the node's own disk that can lose power, where it is to have one."""
        if spec.own_disk_mb is None:
            return None
        disk = LoopDisk(loop_disks.disks_of(self.run_id) / spec.name, STORED)
        disk.make(spec.own_disk_mb)
        return disk

    def _volumes(self, name: str, data_mb: int | None, disk: LoopDisk | None) -> list[str]:
        """Create a node's volumes and return where each is mounted: its data folder and, when
        `data_mb` bounds it, what it stores, in memory so that it fills no disk of this machine.
        With its own disk, the data folder is one of this machine that holds its mount."""
        if disk is not None:
            return [f"{disk.shared}:{NODE_DATA}:rw,rslave"]
        self.client.api.create_volume(name, labels=self.labels())
        mounted = [f"{name}:{NODE_DATA}:rw"]
        if data_mb is not None:
            bounded = {"type": "tmpfs", "device": "tmpfs", "o": f"size={data_mb}m,mode=0755"}
            self.client.api.create_volume(
                f"{name}-{STORED}", driver="local", driver_opts=bounded, labels=self.labels()
            )
            mounted.append(f"{name}-{STORED}:{NODE_DATA}/{STORED}:rw")
        return mounted

    def output(self, node: Node) -> bytes:
        return bytes(self.client.api.logs(self.nodes[node.name].container))

    def down(self) -> list[str]:
        return remove_run(self.client, self.run_id)

    def labels(self) -> dict[str, str]:
        """The labels of everything of this run."""
        return {LABEL: "1", RUN_LABEL: self.run_id}


def _free_subnets(client: docker.DockerClient) -> Iterator[ipaddress.IPv4Network]:
    """The /24s of our range that no network of this daemon and no route of this host overlaps, in
    their order from one that is drawn: for minutes this host sends again what nodes of an earlier
    run did not answer, and a node with the address of one of them would be met by that."""
    networks = [network.get("IPAM") or {} for network in client.api.networks()]
    subnets = [pool.get("Subnet", "") for each in networks for pool in each.get("Config") or []]
    taken = [ipaddress.IPv4Network(each) for each in subnets if "." in each]
    taken += _subnets_of_routes()
    all_of_them = deque(SUBNETS.subnets(new_prefix=24))
    all_of_them.rotate(-random.randrange(_DRAWN))
    for subnet in all_of_them:
        if not any(subnet.overlaps(net) for net in taken):
            yield subnet


def _subnets_of_routes() -> list[ipaddress.IPv4Network]:
    found = []
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        _, destination, _, _, _, _, _, mask, *_ = line.split()
        net = int.from_bytes(bytes.fromhex(destination), "little")
        bits = bin(int.from_bytes(bytes.fromhex(mask), "little")).count("1")
        if bits:
            found.append(ipaddress.IPv4Network((net, bits)))
    return found


def _memory_limit(own_mb: int, spec: NodeSpec) -> str:
    """Volumes in memory are charged to the container whose process writes to them."""
    return f"{own_mb + (spec.data_mb or 0)}m"


@dataclass
class PodsOfRun(DockerCluster, RunCluster):
    """The pods of a target's nodes, prepared for the faults of a plan."""

    order: Order = field(kw_only=True)
    ingredients: Ingredients = field(kw_only=True)
    later: Mapping[str, Ingredients] = field(kw_only=True, default_factory=dict)
    """What the plan's faults make of nodes (`Target.programs`), prepared."""
    programs: dict[str, Program] = field(default_factory=dict, kw_only=True)

    @property
    def levers(self) -> Mapping[str, Lever[Any]]:
        target = self.order.target
        own = ProgramLever(self.nodes, target, self.programs, self.install)
        return {**super().levers, ProgramLever.name: own}

    @property
    def image(self) -> ImageRef:
        return self.ingredients.image

    def start(self) -> None:
        target, plan = self.order.target, self.order.plan
        addresses = self.create_network(target.names(plan))
        library = partial(libfaketime, self.infra_image)

        def specs(order: Order, ingredients: Ingredients) -> list[NodeSpec]:
            made = specs_of(order, ingredients, addresses)
            return [prepared(spec, order.needs, library) for spec in made]

        for name, its_plan in target.programs(plan).items():
            made = specs(replace(self.order, plan=its_plan), self.later[name])
            by_node = {spec.name: spec for spec in made}
            self.programs[name] = Program(its_plan, self.later[name].image.id, by_node)
        self.start_pods(specs(self.order, self.ingredients), self.ingredients.image.id, addresses)
