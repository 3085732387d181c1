"""A node in a container of the user's, and the infrastructure container of ours beside it.

The infrastructure container joins the network of the user's container and has the numbers of
processes of the machine: the first process of a container ignores signals from inside its own
process namespace, and that namespace ends with it. It holds the tools, and what levers keep; the
user's container needs none. When the user's container starts again it has another network, so ours
is started again to join that one; rules of faults were in the network before and ended with it.

Its labels say which run and container it is for, so that another process can undo what was done.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import docker
from docker.errors import APIError, NotFound

from harness.clusters.docker.cluster import (
    INFRA_SUFFIX,
    can_enter,
    enter,
    execute,
    infra_host_config,
    process_of,
)
from harness.errors import EnvironmentFailure, HarnessFailure
from harness.faults.records import (
    CLIENTS,
    NetRecord,
    PauseRecord,
    ProcessRecord,
    ShapingRecord,
    StressRecord,
)
from harness.images.daemon import LABEL, RUN_LABEL, explanation, refusals
from harness.images.recipe import INFRA_MB
from harness.levers import all_levers
from harness.levers.net import NetLever
from harness.protocols import Completed, Lever, Node, ProcessState, UndoRecord

_DATA: Final = "the data of a container of yours are not touched"
WHY_NOT: Final[Mapping[str, str]] = {
    "clock": "the processes of a project of yours were not started with libfaketime",
    "program": "which program a container of yours runs is decided by your project alone",
    "power": "the disks of a project of yours cannot lose power: they are not ackloss' own",
    "disk": _DATA,
    "read-only": _DATA,
    "full": _DATA,
}
"""The levers that there are not, each with the reason."""


@dataclass(frozen=True)
class _Net(NetLever):
    def _other_fault(self, node: Node, peer: str) -> str | None:
        """Also that the peer's network ended with its container."""
        other = self.nodes.get(peer)
        if other is not None and not other.process().running:
            return f"the end of {peer}"
        return super()._other_fault(node, peer)


def levers_over(nodes: Mapping[str, Node]) -> dict[str, Lever[Any]]:
    """Every lever that there is over these nodes, by name."""
    levers = {**all_levers(nodes), NetLever.name: _Net(nodes)}
    return {name: lever for name, lever in levers.items() if name not in WHY_NOT}


_NODE_LABEL: Final = "ackloss.node"
_CONTAINER_LABEL: Final = "ackloss.container"
_COMMAND: Final = ["sleep", "infinity"]
_STOP_S: Final = 30


Limit = Literal["cut", "shape", "memory", "kill"]
Limits = Mapping[Limit, str]
"""Why some faults are refused on a container: packets to the others cannot all be dropped, not all
that it sends can be shaped, memory that is held would be the machine's, it would be gone."""


@dataclass(frozen=True, kw_only=True)
class _Joined:
    """The infrastructure container beside one life of the user's container."""

    started_at: str
    pid: int
    address: str


@dataclass(eq=False)
class ComposeNode(Node):
    """See `harness.protocols.Node`. `container` is the user's, `infra` ours, and
    `network` the one in which nodes reach each other."""

    name: str
    roles: frozenset[str]
    container: str
    infra: str
    client: docker.DockerClient = field(repr=False)
    network: str = ""
    limits: Limits = field(default_factory=dict)
    _joined: _Joined | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def address(self) -> str:
        """Its address in the nodes' network: Docker may give it another when it starts again."""
        return self._join().address

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        """Run a command of the infrastructure image in the container's network."""
        pid = self._join().pid
        if not can_enter(pid):
            return execute(self.client, self.infra, argv, node=self.name)
        return enter(pid, ("-n", "-m"), argv, timeout_s=timeout_s)

    def run(self, argv: Sequence[str], *, timeout_s: float = 30) -> Completed:
        return execute(self.client, self.container, argv, node=self.name)

    def why_not(self, record: UndoRecord) -> str | None:
        """Where a cut would leave a path, or it would be unknown what was cut; where the container
        would be gone with its process, or it is not known which process is the system's; where
        memory that is held would be the machine's."""
        why = None
        match record:
            case NetRecord() if any(peer.name == CLIENTS for peer in record.peers):
                why = (
                    "is reached through Docker's port forwarding, where the workload's packets "
                    "cannot be distinguished from the observer's"
                )
            case NetRecord():
                why = self.limits.get("cut")
            case ShapingRecord():
                why = self.limits.get("shape")
            case ProcessRecord():
                why = self.limits.get("kill")
            case PauseRecord() if self.several():
                why = "has several processes in its container: which is the system?"
            case StressRecord() if record.memory_mb:
                why = self.limits.get("memory")
        return f"{self.name} {why}" if why else None

    def begin(self, argv: Sequence[str], *, count: int) -> None:
        """Docker supervises them, so their end leaves nothing behind."""
        api = self.client.api
        with refusals(self.name):
            for _ in range(count):
                created = api.exec_create(self.container, list(argv), stdout=False, stderr=False)
                api.exec_start(created["Id"], detach=True)

    def pid(self) -> int | None:
        """The system's process: the container's first, or the only one that this has started, as a
        shell script or a small init does."""
        first = self._inspected()["State"]["Pid"]
        parents = self._parents()
        if first not in parents:
            return None
        pid = int(first)
        while len(children := [each for each, parent in parents.items() if parent == pid]) == 1:
            (pid,) = children
        return pid

    def several(self) -> bool:
        """Whether the container's process has several others, so that the system's is not known."""
        pid = self.pid()
        return sum(parent == pid for parent in self._parents().values()) > 1

    def processes(self) -> frozenset[int]:
        """All processes of the container, also those that were started in it later."""
        return frozenset(self._parents())

    def send_signal(self, signal: str, pid: int) -> None:
        """By Docker, which then does not start it again by a restart policy: TERM as `docker stop`
        does, which kills what has not stopped in time."""
        api = self.client.api
        try:
            if signal == "TERM":
                api.stop(self.container, timeout=_STOP_S)
            else:
                api.kill(self.container, signal)
        except APIError as error:
            if self.process().running:
                what = f"{self.name}: the signal was refused: {explanation(error)}"
                raise HarnessFailure(what) from error

    def start(self) -> None:
        what = f"{self.name}: the container cannot be started"
        with refusals(what, hint="`docker start` it"):
            self.client.api.start(self.container)
        self._join()

    def process(self) -> ProcessState:
        return process_of(self.client, self.container)

    def put(self, files: Mapping[str, bytes]) -> None:
        raise HarnessFailure(f"{self.name} is a container of yours: no file is written there")

    def get(self, name: str) -> dict[str, bytes]:
        return {}

    def _inspected(self) -> Any:
        with refusals(self.name):
            return self.client.api.inspect_container(self.container)

    def _parents(self) -> dict[int, int]:
        """The parent of each process of the container; empty when it does not run."""
        try:
            listed = self.client.api.top(self.container, "-eo pid,ppid")
        except APIError:
            return {}
        return {int(pid): int(parent) for pid, parent in listed["Processes"] or ()}

    def _join(self) -> _Joined:
        """Our container beside the user's as it is now. While that does not run, ours keeps the
        network that it had."""
        with self._lock:
            found = self._inspected()
            state = found["State"]
            fresh = self._joined is not None and (
                not state["Running"] or self._joined.started_at == state["StartedAt"]
            )
            if self._joined is None or not fresh:
                self._joined = self._joined_now(found)
            return self._joined

    def _joined_now(self, found: Any) -> _Joined:
        api, running = self.client.api, bool(found["State"]["Running"])
        ours = api.inspect_container(self.infra)["State"]
        begun, theirs = instant(ours["StartedAt"]), instant(found["State"]["StartedAt"])
        if running and (not ours["Running"] or begun < theirs):
            with refusals(self.name):  # when theirs has ended meanwhile
                api.restart(self.infra, timeout=0)
            ours = api.inspect_container(self.infra)["State"]
        if not ours["Running"]:
            raise HarnessFailure(f"{self.name}: its container does not run")
        networks = found["NetworkSettings"]["Networks"]
        return _Joined(
            started_at=found["State"]["StartedAt"],
            pid=int(ours["Pid"]),
            address=str(networks.get(self.network, {}).get("IPAddress", "")),
        )


def instant(text: str) -> tuple[str, str]:
    """An instant as Docker writes it (RFC 3339, with as many digits as it has), to be compared."""
    whole, _, part = text.rstrip("Z").partition(".")
    return whole, part.ljust(9, "0")


def attach(
    client: docker.DockerClient, run_id: str, infra_image: str, *, name: str, container: str
) -> str:
    """Start the infrastructure container beside a container; its id. Raises EnvironmentFailure."""
    api = client.api
    labels = {LABEL: "1", RUN_LABEL: run_id, _NODE_LABEL: name, _CONTAINER_LABEL: container}
    what = f"nothing of ours can be started beside {name}: Docker reports"
    with refusals(what, EnvironmentFailure):
        made = api.create_container(
            infra_image,
            command=_COMMAND,
            name=f"ackloss-{run_id}-{name}{INFRA_SUFFIX}",
            labels=labels,
            host_config=infra_host_config(
                client,
                mem_limit=f"{INFRA_MB}m",
                network_mode=f"container:{container}",
                pid_mode="host",
            ),
        )["Id"]
        api.start(made)
    return str(made)


def attached(client: docker.DockerClient, run_id: str) -> dict[str, ComposeNode]:
    """The nodes beside which a run has a container, as far as theirs are still there."""
    filters = {"label": [f"{RUN_LABEL}={run_id}", _CONTAINER_LABEL]}
    found = {}
    for each in client.api.containers(all=True, filters=filters):
        labels = each["Labels"]
        name, container = labels[_NODE_LABEL], labels[_CONTAINER_LABEL]
        try:
            client.api.inspect_container(container)
        except NotFound:
            continue
        found[name] = ComposeNode(name, frozenset(), container, each["Id"], client)
    return found
