"""A kind of cluster: processes of this machine, each at its own loopback address.

It has one lever, `process`: enough to kill nodes and to start them again. Its processes die with
the process of ackloss (PR_SET_PDEATHSIG), and `ackloss clean` removes the folders of a dead one, so
nothing of a run that was killed stays.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from ackloss.plugins import (
    NODE_DATA,
    Completed,
    Cost,
    ImageRef,
    Ingredients,
    Lever,
    Node,
    NodeOutline,
    NodeSpec,
    Order,
    ProcessState,
    Provider,
    RunCluster,
    Target,
    all_levers,
    scratch,
    specs_of,
)

FIRST = ipaddress.IPv4Address("127.128.0.0")
NODES_AT_MOST = 8
NONE = Ingredients(image=ImageRef(reference="none", id=""))


@dataclass(frozen=True)
class Local(Provider):
    """Processes of this machine: no Docker, no rights, and only kills."""

    plugin: ClassVar[str] = "local"

    @property
    def levers(self) -> Sequence[str]:
        """Signals that end a process."""
        return ("process",)

    def runs(self, target: type[Target[Any]]) -> bool:
        """Targets that state the commands of their nodes."""
        return target.does("prepare")

    def outline(self, order: Order) -> list[NodeOutline]:
        """The nodes, at the addresses that they would have."""
        addresses = addresses_of(order)
        return [
            NodeOutline(
                name=spec.name,
                roles=spec.roles,
                address=addresses[spec.name],
                command=" ".join(spec.argv),
                files=tuple(spec.files),
            )
            for spec in specs_of(order, NONE, addresses)
        ]

    def cost(self, order: Order, *, kept: bool) -> Cost:
        """A process for each node."""
        memory_mb = order.plan.target.memory_mb * len(addresses_of(order))
        return Cost(memory_mb=memory_mb, seconds=order.plan.workload.duration_s + 2)

    def cluster(self, order: Order, run_id: str, say: Callable[[str], None]) -> RunCluster:
        """Processes that are not started yet."""
        return LocalCluster(run_id, order)


def addresses_of(order: Order) -> dict[str, str]:
    """The loopback addresses of the nodes: no two processes of ackloss have the same."""
    first = FIRST + os.getpid() % 2**20 * NODES_AT_MOST
    return {name: str(first + n) for n, name in enumerate(order.target.names(order.plan))}


@dataclass(eq=False)
class LocalCluster(RunCluster):
    """The processes of one run, each in its own folder below a temporary one. One thread
    starts them all, because a process dies with the thread that started it."""

    run_id: str
    order: Order
    folder: TemporaryDirectory[str] = field(default_factory=scratch)
    starter: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    nodes: dict[str, LocalNode] = field(default_factory=dict)

    @property
    def levers(self) -> Mapping[str, Lever[Any]]:
        return {"process": all_levers(self.nodes)["process"]}

    def start(self) -> None:
        """Write the files of each node and start its process."""
        addresses = addresses_of(self.order)
        for spec in specs_of(self.order, NONE, addresses):
            folder = Path(self.folder.name) / spec.name
            node = LocalNode(spec, addresses[spec.name], folder, self.starter)
            node.put(spec.files)
            node.start()
            self.nodes[spec.name] = node

    def output(self, node: Node) -> bytes:
        """What the process has printed."""
        return self.nodes[node.name].printed.read_bytes()

    def down(self) -> list[str]:
        """Kill the processes and remove their folders."""
        for node in self.nodes.values():
            node.end()
        self.starter.shutdown()
        self.folder.cleanup()
        return list(self.nodes)


@dataclass(eq=False)
class LocalNode(Node):
    """One process. Paths below `NODE_DATA` in its command mean its folder."""

    spec: NodeSpec
    at: str
    folder: Path
    starter: ThreadPoolExecutor
    child: subprocess.Popen[bytes] | None = None
    times: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def roles(self) -> frozenset[str]:
        return self.spec.roles

    @property
    def address(self) -> str:
        return self.at

    @property
    def printed(self) -> Path:
        """The file of what the process prints."""
        return self.folder.with_suffix(".out")

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        """Run a command on this machine."""
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
        return Completed(done.returncode, done.stdout + done.stderr)

    def run(self, argv: Sequence[str], *, timeout_s: float = 30) -> Completed:
        """The same: a process has no image."""
        return self.admin(argv, timeout_s=timeout_s)

    def pid(self) -> int | None:
        """Of the process, while it runs."""
        return self.child.pid if self.child and self.process().running else None

    def put(self, files: Mapping[str, bytes]) -> None:
        """Write files below the folder."""
        for name, content in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(content)

    def get(self, name: str) -> dict[str, bytes]:
        """See `harness.protocols.Node`."""
        place = self.folder / name
        if place.is_file():
            return {place.name: place.read_bytes()}
        files = (file for file in place.rglob("*") if file.is_file())
        return {str(file.relative_to(place)): file.read_bytes() for file in files}

    def start(self) -> None:
        """Start the process unless it runs."""
        if self.pid() is None:
            self.starter.submit(self._start).result()

    def _start(self) -> None:
        argv = [part.replace(NODE_DATA, str(self.folder)) for part in self.spec.argv]
        with self.printed.open("ab") as printed:
            self.child = subprocess.Popen(
                [sys.executable if argv[0] == "python3" else argv[0], *argv[1:]],
                cwd=self.folder,
                env={**os.environ, **self.spec.env},
                stdout=printed,
                stderr=printed,
                preexec_fn=die_with_parent,
            )
        self.times.append(datetime.now(UTC).isoformat())

    def process(self) -> ProcessState:
        """Whether the process runs; else how it ended."""
        assert self.child is not None
        code = self.child.poll()
        if code is None:
            return ProcessState(running=True, started_at=self.times[-1])
        return ProcessState(
            running=False,
            exit_code=128 - code if code < 0 else code,
            started_at=self.times[-1],
            finished_at=datetime.now(UTC).isoformat(),
        )

    def end(self) -> None:
        """Kill the process and wait for its end."""
        if self.child is not None:
            self.child.kill()
            self.child.wait()


def die_with_parent() -> None:
    """In a new process: ask the kernel to kill it when the thread that started it has ended."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
