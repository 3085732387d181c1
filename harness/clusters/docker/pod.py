"""A node in Docker: a pod of an infrastructure container and the target's container."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import docker
from docker.errors import NotFound

from harness.clusters.docker.container import can_enter, enter, execute, process_of
from harness.images.archives import packed, unpacked
from harness.protocols import NODE_DATA, Completed, Node, OwnDisk, ProcessState

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
        """Run a command of the infrastructure image in the pod's namespaces.

        By nsenter from the host, which takes a tenth of the time of an exec; by exec where nsenter
        is not allowed.
        """
        if not can_enter(self.infra_pid):
            return execute(self.client, self.infra, argv, node=self.name)
        return enter(self.infra_pid, ("-n", "-p", "-m"), argv, timeout_s=timeout_s)

    def run(self, argv: Sequence[str], *, timeout_s: float = 30) -> Completed:
        """Run a command in the target's own container. Raises HarnessFailure when it is not
        running."""
        return execute(self.client, self.container, argv, node=self.name)

    def put(self, files: Mapping[str, bytes]) -> None:
        """Write files below the node's data folder."""
        self.client.api.put_archive(self.infra, NODE_DATA, packed(files))

    def get(self, name: str) -> dict[str, bytes]:
        """A file, or all files of a folder, by their names below that folder; empty when absent."""
        try:
            stream, _ = self.client.api.get_archive(self.infra, f"{NODE_DATA}/{name}")
        except NotFound:
            return {}
        files = unpacked(b"".join(stream))
        return {path.partition("/")[2] or path: content for path, content in files}

    def start(self) -> None:
        """Start the target's process; does nothing when it is running."""
        self.client.api.start(self.container)

    def pid(self) -> int | None:
        """The process id of the target, as the pod numbers processes."""
        if not self.process().running:
            return None
        text = self.admin(["cat", PID_FILE]).output.strip()
        return int(text) if text.isdigit() else None

    def process(self) -> ProcessState:
        """The state of the target's process, from Docker."""
        return process_of(self.client, self.container)
