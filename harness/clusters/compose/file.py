"""The file that names a compose project of the user's, and the compose file that it names.

    kind = "compose"
    file = "docker-compose.yml"
    bootstrap = ["127.0.0.1:9092"]

    [services]
    server-1 = { node = 1 }
    server-2 = { node = 2 }

The compose file is read only to refuse early what cannot be: Docker says what is there.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from harness.clusters.external import Reached, read_cluster_file
from harness.errors import PlanError, nearest

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
    # Else the name that compose gives a project which has none in the command.
    given = os.environ.get("COMPOSE_PROJECT_NAME") or document.get("name") or compose.parent.name
    plain = re.sub(r"[^-_a-z0-9]", "", str(given).lower()).lstrip("_-")
    project = content.project or plain
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
