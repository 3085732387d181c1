"""A node in Docker: a pod of an infrastructure container and the target's container."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import docker
from docker.errors import APIError, NotFound

from harness.errors import HarnessFailure
from harness.images.archives import packed, unpacked
from harness.protocols import NODE_DATA, Completed, ProcessState

PID_FILE = f"{NODE_DATA}/pid"


@dataclass(frozen=True)
class DockerNode:
    """One pod. `infra` and `container` (the target's) are container ids; `infra_pid` is the process
    of the infrastructure container on the host."""

    name: str
    roles: frozenset[str]
    address: str
    infra: str
    container: str
    infra_pid: int
    client: docker.DockerClient = field(repr=False)

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        """Run a command of the infrastructure image in the pod's namespaces.

        By nsenter from the host, which takes a tenth of the time of an exec; by exec where nsenter
        is not allowed.
        """
        if not _can_enter(self.infra_pid):
            return self._exec(self.infra, argv)
        enter = ["nsenter", "-t", str(self.infra_pid), "-n", "-p", "-m", "--", *argv]
        try:
            done = subprocess.run(
                enter, capture_output=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            return Completed(124, f"no answer within {timeout_s:g} s")
        return Completed(done.returncode, (done.stdout + done.stderr).decode(errors="replace"))

    def run(self, argv: Sequence[str], *, timeout_s: float = 30) -> Completed:  # noqa: ARG002
        """Run a command in the target's own container. Raises HarnessFailure when it is not
        running."""
        return self._exec(self.container, argv)

    def _exec(self, container: str, argv: Sequence[str]) -> Completed:
        api = self.client.api
        try:
            created = api.exec_create(container, list(argv))
            output = api.exec_start(created["Id"])
            code = api.exec_inspect(created["Id"])["ExitCode"]
        except APIError as error:  # its process has ended, and the container with it
            raise HarnessFailure(f"{self.name}: {error.explanation or error}") from error
        return Completed(code if code is not None else -1, output.decode(errors="replace"))

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
        state = self.client.api.inspect_container(self.container)["State"]
        running = bool(state["Running"])
        return ProcessState(
            running=running,
            exit_code=None if running else int(state["ExitCode"]),
            started_at=state["StartedAt"],
            finished_at=state["FinishedAt"],
        )


def _can_enter(pid: int) -> bool:
    return os.geteuid() == 0 and Path(f"/proc/{pid}/ns/net").exists()
