"""A node in Docker: a pod of a holder, which owns the namespaces, and the target's container."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import docker
from docker.errors import APIError, NotFound

from harness.errors import HarnessFailure
from harness.protocols import NODE_DATA, Completed, ProcessState

PID_FILE = f"{NODE_DATA}/pid"


@dataclass(frozen=True)
class DockerNode:
    """One pod. `holder` and `container` are container ids, `holder_pid` its process on the host."""

    name: str
    roles: frozenset[str]
    address: str
    holder: str
    container: str
    holder_pid: int
    client: docker.DockerClient = field(repr=False)

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        """Run a command of the holder's image in the pod's namespaces.

        From the host by nsenter, which costs a tenth of an exec; by exec where that is not allowed.
        """
        if not _can_enter(self.holder_pid):
            return self._exec(self.holder, argv)
        enter = ["nsenter", "-t", str(self.holder_pid), "-n", "-p", "-m", "--", *argv]
        try:
            done = subprocess.run(
                enter, capture_output=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            return Completed(124, f"no answer within {timeout_s:g} s")
        return Completed(done.returncode, (done.stdout + done.stderr).decode(errors="replace"))

    def run(self, argv: Sequence[str], *, timeout_s: float = 30) -> Completed:  # noqa: ARG002
        """Run a command in the target's own container (an exec, so it must be running: otherwise
        HarnessFailure)."""
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
        self.client.api.put_archive(self.holder, NODE_DATA, packed(files))

    def get(self, name: str) -> dict[str, bytes]:
        """A file, or all files of a folder, by their names below that folder; absent: none."""
        try:
            stream, _ = self.client.api.get_archive(self.holder, f"{NODE_DATA}/{name}")
        except NotFound:
            return {}
        found = {}
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as archive:
            for member in archive:
                if member.isfile() and (content := archive.extractfile(member)) is not None:
                    _, _, inner = member.name.partition("/")
                    found[inner or member.name] = content.read()
        return found

    def start(self) -> None:
        """Start the target's process again; nothing when it runs."""
        self.client.api.start(self.container)

    def pid(self) -> int | None:
        """The target's process in the pod's own numbering."""
        if not self.process().running:
            return None
        text = self.admin(["cat", PID_FILE]).output.strip()
        return int(text) if text.isdigit() else None

    def process(self) -> ProcessState:
        """The state of the target's process as Docker tells it."""
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


def packed(files: Mapping[str, bytes]) -> bytes:
    """Files as a tar archive with the folders that they need."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        folders: set[str] = set()
        for name, content in files.items():
            for parent in reversed(Path(name).parents[:-1]):
                if str(parent) not in folders:
                    folders.add(str(parent))
                    folder = tarfile.TarInfo(str(parent))
                    folder.type, folder.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(folder)
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
