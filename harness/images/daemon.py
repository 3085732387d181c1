"""The Docker daemon of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import docker
import requests
from docker.errors import DockerException

from harness.errors import EnvironmentFailure

LABEL = "ackloss"
"""Everything that ackloss makes carries this label."""
RUN_LABEL = "ackloss.run"
"""The run that an object belongs to: objects are found and removed by this label alone."""

DAEMON_TROUBLE = (DockerException, requests.RequestException)
"""What Docker's client raises, for refused requests and lost connections alike."""


def connect() -> docker.DockerClient:
    """A client of the local Docker daemon. Raises EnvironmentFailure with the fix."""
    try:
        client = docker.from_env(version="auto", timeout=120, max_pool_size=32)
    except DockerException as error:
        text = str(error)
        if "Permission denied" in text or "PermissionError" in text:
            raise EnvironmentFailure(
                "this user may not use Docker", hint="run as root, or join the group docker"
            ) from error
        raise EnvironmentFailure(
            "Docker does not answer",
            hint="start it with `make setup`; `ackloss doctor` reports what is missing",
        ) from error
    # Else each request reads the environment for proxies, which other threads may be changing.
    client.api.trust_env = False
    return client


@dataclass(frozen=True)
class DockerInfo:
    """What the Docker daemon reports about itself."""

    version: str
    storage: str
    root: Path


def docker_info() -> DockerInfo:
    """Ask the Docker daemon. Raises EnvironmentFailure when it does not answer."""
    reported = connect().info()
    return DockerInfo(
        version=str(reported["ServerVersion"]),
        storage=str(reported["Driver"]),
        root=Path(reported["DockerRootDir"]),
    )
