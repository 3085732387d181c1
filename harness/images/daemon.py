"""The Docker daemon of this machine, and one command in a throw-away container of an image, without
network or rights.

The container is registered like a run, so that `ackloss clean` finds what a killed process left.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import docker
import requests
from docker.errors import APIError, DockerException, NotFound, create_api_error_from_http_exception

from harness import failures
from harness.errors import AcklossError, EnvironmentFailure, HarnessFailure
from harness.images.keeping import kept
from harness.images.recipe import FILES
from harness.machine import state
from harness.machine.files import packed, unpacked
from harness.machine.state import cache_dir
from harness.protocols import ImageRef

LABEL = "ackloss"
"""Everything that ackloss makes carries this label."""
RUN_LABEL = "ackloss.run"
"""The run that an object belongs to: objects are found and removed by this label alone."""

DAEMON_TROUBLE = (DockerException, requests.RequestException)
"""What Docker's client raises, for refused requests and lost connections alike."""


class NoDocker(EnvironmentFailure, requests.RequestException):
    """The daemon did not answer a request."""


def explanation(error: Exception) -> str:
    """Why Docker's client has failed."""
    return str(getattr(error, "explanation", None) or error)


@contextmanager
def refusals(
    what: str, kind: type[AcklossError] = HarnessFailure, *, hint: str | None = None
) -> Iterator[None]:
    """Raise HarnessFailure, with `what` and why, for what Docker refuses within."""
    try:
        yield
    except APIError as error:
        raise kind(f"{what}: {explanation(error)}", hint=hint) from error


def executed(
    api: docker.APIClient, container: str, argv: Sequence[str], *, user: str = ""
) -> tuple[int, str]:
    """The exit code (-1 where Docker knows none) and the output of a command in a container. Raises
    APIError where it does not run.

    Not by `exec_start` of docker-py, which reads the connection's socket past what is buffered with
    the response's header: on a busy machine the output of a short command is lost
    (docker/docker-py#2042).
    """
    created = api.exec_create(container, list(argv), user=user)["Id"]
    url = f"{api.base_url}/v{api.api_version}/exec/{created}/start"
    answer = api.post(url, json={"Detach": False, "Tty": False}, timeout=api.timeout)
    try:
        answer.raise_for_status()
    except requests.HTTPError as error:
        create_api_error_from_http_exception(error)
    rest, output = answer.content, b""
    while rest:  # frames: the stream's number, three zeros, the length
        end = 8 + int.from_bytes(rest[4:8], "big")
        output, rest = output + rest[8:end], rest[end:]
    code = api.exec_inspect(created)["ExitCode"]
    return -1 if code is None else int(code), output.decode(errors="replace")


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
    send = client.api.send

    def answered(*request: Any, **options: Any) -> requests.Response:
        try:
            return send(*request, **options)
        except requests.RequestException as error:
            raise NoDocker(
                f"Docker does not answer: {failures.what(error)}",
                hint="if it stays, restart Docker, then run `ackloss clean`",
            ) from error

    client.api.send = answered  # type: ignore[method-assign]
    return client


class DockerInfo(NamedTuple):
    """What the Docker daemon reports about itself."""

    version: str
    storage: str
    root: Path


def docker_info() -> DockerInfo:
    """Ask the Docker daemon. Raises EnvironmentFailure when it does not answer."""
    found = connect().info()
    return DockerInfo(found["ServerVersion"], found["Driver"], Path(found["DockerRootDir"]))


_STOP_S = 60


@dataclass(frozen=True)
class OneOff:
    """A container of one command, with its files in `FILES`; removed when its `with` ends."""

    container: str
    client: docker.DockerClient = field(repr=False)

    def wait(self, *, limit_s: int) -> int:
        """The command's exit code. Raises TimeoutError."""
        try:
            return int(self.client.api.wait(self.container, timeout=limit_s)["StatusCode"])
        except requests.RequestException as error:
            raise TimeoutError(f"did not finish within {limit_s} s") from error

    def running(self) -> bool:
        """Whether the command is still running."""
        return bool(self.client.api.inspect_container(self.container)["State"]["Running"])

    def output(self) -> str:
        return bytes(self.client.api.logs(self.container)).decode(errors="replace")

    def run(self, argv: Sequence[str]) -> tuple[int, str]:
        """Run another command while the first one runs: its exit code and output."""
        return executed(self.client.api, self.container, argv, user="0:0")

    def stop(self) -> int:
        """End the command (SIGTERM) and wait for it; its exit code."""
        self.client.api.stop(self.container, timeout=_STOP_S)
        return self.wait(limit_s=_STOP_S)

    def read(self, path: str) -> bytes | None:
        """A file of the container, running or not; `None` when there is none."""
        try:
            stream, _ = self.client.api.get_archive(self.container, path)
        except NotFound:
            return None
        return next((content for _, content in unpacked(b"".join(stream))), None)


@contextmanager
def one_off(
    image: str,
    argv: Sequence[str],
    *,
    files: Mapping[str, bytes] | None = None,
    mounts: Mapping[Path, str] | None = None,
) -> Iterator[OneOff]:
    """Start `argv` in a container of `image` and remove it afterwards.

    `files` are written to `FILES`; `mounts` are read-only. The only network is loopback.
    Raises EnvironmentFailure when Docker refuses.
    """
    client, name = connect(), f"oneoff-{uuid.uuid4().hex[:8]}"
    what = "a container could not be used: Docker reports"
    with state.registered(name, cache_dir()):
        try:
            with refusals(what, EnvironmentFailure):
                container = _create(client, name, image, argv, mounts or {})
                try:
                    client.api.put_archive(container, FILES, packed(files or {}))
                    client.api.start(container)
                    yield OneOff(container, client)
                finally:
                    client.api.remove_container(container, force=True, v=True)
        finally:
            state.forget(name)


def output_of(image: str, argv: Sequence[str], *, mounts: Mapping[Path, str] | None = None) -> str:
    """What such a command prints."""
    with one_off(image, argv, mounts=mounts) as command:
        command.wait(limit_s=60)
        return command.output()


def _create(
    client: docker.DockerClient,
    name: str,
    image: str,
    argv: Sequence[str],
    mounts: Mapping[Path, str],
) -> str:
    api = client.api
    created = api.create_container(
        image,
        entrypoint=[argv[0]],
        command=list(argv[1:]),
        user="0:0",
        name=f"ackloss-{name}",
        hostname="localhost",  # the only name that resolves without a network
        labels={LABEL: "1", RUN_LABEL: name},
        working_dir="/",
        host_config=api.create_host_config(
            network_mode="none",
            binds=[f"{host}:{inside}:ro" for host, inside in mounts.items()],
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            mem_limit="1g",
            pids_limit=1024,
        ),
    )
    return str(created["Id"])


# libfaketime, copied once out of the infrastructure image, for nodes of any image.

_NAME = "libfaketimeMT.so.1"
_COPY_S = 30


def libfaketime(infra_image_id: str) -> bytes:
    """The library's content, from the cache after the first time. Raises EnvironmentFailure."""

    def read() -> bytes:
        # to a fixed path first: its own depends on the machine's architecture
        copy = ["sh", "-c", f"cp /usr/lib/*/faketime/{_NAME} {FILES}"]
        with one_off(infra_image_id, copy) as copying:
            copying.wait(limit_s=_COPY_S)
            content = copying.read(f"{FILES}/{_NAME}")
            if content is None:
                why = copying.output().strip()[:200]
                raise EnvironmentFailure(f"the infrastructure image has no libfaketime: {why}")
            return content

    image = ImageRef(reference="infra", id=infra_image_id)
    return kept(image, _NAME, "", read).read_bytes()
