"""A node in Docker: a pod of an infrastructure container and the target's container."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, NotFound

from harness.errors import HarnessFailure
from harness.machine.files import packed, unpacked
from harness.protocols import NODE_DATA, Completed, Node, OwnDisk, ProcessState

# Commands in containers and in their namespaces, and what Docker reports of their processes.

_INFRA_CAPABILITIES = ["NET_ADMIN", "NET_RAW", "KILL", "SYS_PTRACE", "DAC_OVERRIDE"]


def infra_host_config(client: docker.DockerClient, *, mem_limit: str, **where: Any) -> Any:
    """What an infrastructure container may do: administer the namespaces that it has (`where`), and
    nothing more."""
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
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return Completed(124, f"no answer within {timeout_s:g} s")
    return Completed(done.returncode, (done.stdout + done.stderr).decode(errors="replace"))


def can_enter(pid: int) -> bool:
    """Whether this process may enter the namespaces of that one."""
    return os.geteuid() == 0 and Path(f"/proc/{pid}/ns/net").exists()


def execute(
    client: docker.DockerClient, container: str, argv: Sequence[str], *, node: str
) -> Completed:
    """Run a command in a container. Raises HarnessFailure, which names the node, when it does not
    run."""
    api = client.api
    try:
        created = api.exec_create(container, list(argv))
        output = api.exec_start(created["Id"])
        code = api.exec_inspect(created["Id"])["ExitCode"]
    except APIError as error:  # its process has ended, and the container with it
        raise HarnessFailure(f"{node}: {error.explanation or error}") from error
    return Completed(code if code is not None else -1, output.decode(errors="replace"))


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
        self.client.api.start(self.container)

    def pid(self) -> int | None:
        """The process id of the target, as the pod numbers processes."""
        if not self.process().running:
            return None
        text = self.admin(["cat", PID_FILE]).output.strip()
        return int(text) if text.isdigit() else None

    def process(self) -> ProcessState:
        return process_of(self.client, self.container)
