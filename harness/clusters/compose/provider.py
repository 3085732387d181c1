"""`cluster.kind = "compose"`: a compose project of the user's, named by `--cluster FILE`.

Load, observation and final read are by clients, as on any cluster of the user's. Faults are made by
a container of ours beside each of theirs. What ackloss has not made it does not remove.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from harness.clusters.external import External, Reached, access_of, read_cluster_file, system_of
from harness.errors import AcklossError, EnvironmentFailure, PlanError, nearest
from harness.machine import state
from harness.protocols import Access, Finding, GuestTarget, Order, RunCluster, Status

# The file that names a compose project of the user's, and the compose file that it names.
#
#     kind = "compose"
#     file = "docker-compose.yml"
#     bootstrap = ["127.0.0.1:9092"]
#
#     [services]
#     server-1 = { node = 1 }
#     server-2 = { node = 2 }
#
# The compose file is read only to refuse early what cannot be: Docker says what is there.

KIND: Final = "compose"
_PROJECT: Final = r"^[a-z0-9][a-z0-9_-]{0,127}$"
_SERVICE: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
_ROLE: Final = r"^[a-z][a-z0-9-]{0,31}$"
_MOST_BYTES: Final = 4 << 20


class Service(BaseModel):
    """A service that is a node."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    roles: list[Annotated[str, StringConstraints(pattern=_ROLE)]] = Field(
        default_factory=list,
        description="Its roles. Without any, it is one of those that the system itself reports.",
    )
    node: int | None = Field(
        None, ge=0, description="Its number in the system; by default found by its address."
    )


class ComposeFile(Reached):
    """The complete file."""

    kind: Literal["compose"] = Field(description="A compose project of yours.")
    file: Path = Field(description="The compose file, relative to this file.")
    project: str | None = Field(
        None, pattern=_PROJECT, description="The project's name; by default as compose makes it."
    )
    start: bool = Field(False, description="true: ackloss starts it, and stops it afterwards.")
    services: dict[Annotated[str, StringConstraints(pattern=_SERVICE)], Service] = Field(
        min_length=1, max_length=64, description="Which services are nodes."
    )


@dataclass(frozen=True, kw_only=True)
class Named:
    """A project as a file names it. `file` is that file, `compose` the compose file."""

    file: Path
    compose: Path
    project: str
    content: ComposeFile


def read_named(path: Path) -> Named:
    """The project that a file names. Raises PlanError that says which key is wrong."""
    content = read_cluster_file(path, ComposeFile)
    compose = (path.resolve().parent / content.file.expanduser()).resolve()
    document = _compose_document(compose, path)
    _check_services(content, document, compose, path)
    project = content.project or _project_of(document, compose)
    if not re.fullmatch(_PROJECT, project):
        raise PlanError(
            "is missing, and the compose file's folder gives no name",
            file=str(path),
            key="project",
            hint="name the project as `docker compose ls` shows it",
        )
    return Named(file=path, compose=compose, project=project, content=content)


def _compose_document(compose: Path, path: Path) -> dict[str, Any]:
    import yaml

    def wrong(what: str) -> PlanError:
        hint = "name the compose file of the project"
        return PlanError(f"{compose} {what}", file=str(path), key="file", hint=hint)

    try:
        with compose.open("rb") as file:
            document = yaml.load(file.read(_MOST_BYTES), Loader=_loader())  # noqa: S506
    except OSError as error:
        raise wrong(f"cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise wrong(f"is not a compose file: it is not YAML{where}") from error
    if not isinstance(document, dict) or not isinstance(document.get("services"), dict):
        if isinstance(document, dict) and "include" in document:
            return {**document, "services": {}}
        raise wrong("is not a compose file: it has no section `services`")
    return document


def _loader() -> Any:
    """A safe loader that reads over tags of compose, such as `!reset`."""
    import yaml

    def untagged(loader: Any, _: str, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node)

    own: Any = type("Loader", (yaml.SafeLoader,), {})
    own.add_multi_constructor("!", untagged)
    return own


def _check_services(
    content: ComposeFile, document: dict[str, Any], compose: Path, path: Path
) -> None:
    """Refuse services that are not there, or have no network of their own."""
    known = document["services"]
    for name in content.services:
        if name not in known:
            if "include" in document:
                continue  # it may be in a file that this one includes: Docker knows
            near = nearest(name, list(known))
            raise PlanError(
                f"{compose} has no service {name!r}",
                file=str(path),
                key=f"services.{name}",
                hint=f"did you mean {near!r}?" if near else f"it has: {', '.join(known) or 'none'}",
            )
        mode = known[name].get("network_mode") if isinstance(known[name], dict) else None
        if why := why_no_own_network(str(mode)):
            raise PlanError(f"{name} {why}", file=str(path), key=f"services.{name}", hint=_OWN)
    numbers = [each.node for each in content.services.values() if each.node is not None]
    for name, each in content.services.items():
        if each.node is not None and numbers.count(each.node) > 1:
            raise PlanError(
                f"the number {each.node} is given to several services",
                file=str(path),
                key=f"services.{name}.node",
                hint="leave it out: it is found by the address",
            )


_OWN: Final = "give the service its own network"


def why_no_own_network(mode: str) -> str | None:
    """None, or why a service with this network mode is refused, a predicate."""
    if mode == "host":
        return "has the network of this machine (network_mode host): a cut there would cut it off"
    if mode == "none":
        return "has no network (network_mode none)"
    if mode.startswith(("service:", "container:")):
        return f"shares the network of another (network_mode {mode}): a cut would meet both"
    return None


def _project_of(document: dict[str, Any], compose: Path) -> str:
    """The name that compose gives a project which has none in the command."""
    name = os.environ.get("COMPOSE_PROJECT_NAME") or document.get("name") or compose.parent.name
    return re.sub(r"[^-_a-z0-9]", "", str(name).lower()).lstrip("_-")


@dataclass(frozen=True)
class Compose(External):
    """Containers of your own compose project (`--cluster FILE`): its services are the nodes."""

    plugin: ClassVar[str] = KIND

    def with_file(self, file: Path) -> Compose:
        named = read_named(file)
        return _Compose(system_of(named.content, file), access_of(named.content, file), named)

    @property
    def levers(self) -> Sequence[str]:
        """Those that need nothing of the user's containers but that they run."""
        from harness.clusters.compose.node import levers_over

        return tuple(levers_over({}))

    def why_no_lever(self, lever: str) -> str:
        """Why ackloss does not do this to a container of the user's."""
        from harness.clusters.compose.node import WHY_NOT

        return WHY_NOT.get(lever, f"a project of yours does not offer the lever {lever!r}")

    @property
    def trouble(self) -> tuple[type[Exception], ...]:
        from harness.images.daemon import DAEMON_TROUBLE

        return DAEMON_TROUBLE

    def reach(self) -> None:
        from harness.images.daemon import connect

        self._access()
        connect()

    def require(self, order: Order) -> None:
        """A project that runs, or a command that starts it."""
        from harness.clusters.compose.project import Project, compose_command, no_command
        from harness.images.daemon import connect

        self._access()
        assert self.content is not None
        client = connect()
        if not self.content.content.start:
            Project(client, self.content).containers()
        elif compose_command() is None:
            raise no_command(self.content)

    def checkup(self) -> Sequence[Finding]:
        """Docker; with a file: its project, and what the system in it lets us do."""
        from harness.clusters.docker.checkup import docker_daemon, infra_image

        docker, info = docker_daemon()
        if info is None:
            return (docker,)
        found = [docker, infra_image()]
        if self.content is None:
            fix = "ackloss doctor --cluster FILE"
            return *found, Finding("project", Status.WARN, "none named, none examined", fix)
        project, runs = _examined(self.content)
        return *found, project, *(super().checkup() if runs else ())

    def prepare(self, order: Order, say: Callable[[str], None]) -> None:
        from harness.images.building import infra_image

        infra_image(say)

    def cluster(self, order: Order, run_id: str, say: Callable[[str], None]) -> RunCluster:
        from harness.clusters.compose.cluster import ComposeCluster
        from harness.images.building import infra_image
        from harness.images.daemon import connect

        access, target = self._access(), order.target
        assert isinstance(target, GuestTarget)
        assert self.content is not None
        return ComposeCluster(
            order,
            access,
            target,
            run_id,
            named=self.content,
            client=connect(),
            infra_image=infra_image(say).id,
            say=say,
        )

    def of_others(self, known: set[str]) -> list[str]:
        """What some other ackloss made there, while it runs: else nothing can be queried."""
        if self.content is None or not _examined(self.content)[1]:
            return []
        return super().of_others(known)

    def remove(self, run_id: str, *, dry_run: bool = False) -> list[str]:
        """What a dead run left in force and made, in the project and beside it."""
        from harness.clusters.compose.cluster import leave_as_found, with_roles
        from harness.clusters.compose.node import levers_over
        from harness.images.daemon import connect

        entry: Mapping[str, Any] | None = state.remembered_cluster(KIND, run_id)
        if entry is None:
            return []
        noted = entry
        return leave_as_found(
            connect(),
            run_id,
            lambda: self._remove_objects(noted, run_id, dry_run=dry_run),
            lambda nodes: self._undo_own(
                noted, run_id, partial(with_roles, nodes), levers_over(nodes)
            ),
            dry_run=dry_run,
        )


@dataclass(frozen=True)
class _Compose(Compose):
    """The kind `compose` with its file: not a separate plug-in."""

    system: str
    access: Access
    content: Named


def _examined(named: Named) -> tuple[Finding, bool]:
    """The project, and whether the system in it can be queried now."""
    from harness.clusters.compose.project import Project, compose_command, no_command
    from harness.images.daemon import connect

    what = f"project {named.project}"
    try:
        found = Project(connect(), named).containers()
    except AcklossError as error:
        starts = named.content.start and isinstance(error, EnvironmentFailure)
        if starts and compose_command() is not None:
            return Finding(what, Status.WARN, "does not run; a run starts it and stops it"), False
        wrong = no_command(named) if starts else error
        return Finding(what, Status.MISSING, wrong.what, wrong.hint), False
    return Finding(what, Status.OK, f"runs: {', '.join(found)}"), True
