"""The Docker daemon of this machine."""

from __future__ import annotations

import docker
import requests
from docker.errors import DockerException

from harness.errors import EnvironmentFailure

LABEL = "ackloss"
"""Everything that ackloss makes carries this label."""
RUN_LABEL = "ackloss.run"
"""Whose it is: by this label, and no other sign, it is removed."""

DAEMON_TROUBLE = (DockerException, requests.RequestException)
"""What its client raises, refusals and lost connections alike."""


def connect() -> docker.DockerClient:
    """A client of the local Docker daemon. Raises EnvironmentFailure with the cure."""
    try:
        return docker.from_env(version="auto", timeout=120, max_pool_size=32)
    except DockerException as error:
        text = str(error)
        if "Permission denied" in text or "PermissionError" in text:
            raise EnvironmentFailure(
                "this user has no rights to Docker", hint="run as root, or join the group docker"
            ) from error
        raise EnvironmentFailure(
            "Docker does not answer",
            hint="start it with `make setup`, or `ackloss doctor` says why",
        ) from error
