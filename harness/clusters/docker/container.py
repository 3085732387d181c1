"""Commands in containers and in their namespaces, and what Docker reports of their processes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError

from harness.errors import HarnessFailure
from harness.protocols import Completed, ProcessState

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
