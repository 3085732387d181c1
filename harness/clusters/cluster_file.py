"""The file that says how a cluster of the user's is reached. Named on the command line, never in a
plan, since a plan may come from a stranger.

    kind = "external"
    system = "kafka"
    bootstrap = ["broker-1.example.com:9093"]

    [client]
    "security.protocol" = "SASL_SSL"
    "sasl.password" = { env = "KAFKA_PASSWORD" }    # or { file = "kafka.password" }

Which properties there are is the target's to say. The file holds no secret: it says where one is.
Kinds of cluster may have further keys: their model inherits `Reached`.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from harness.errors import EnvironmentFailure, PlanError
from harness.plan.explanations import explain
from harness.protocols import Access, Secret

_EXAMPLE: Final = "docs/how-to/external.md has an example"
_ADDRESS: Final = r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?):\d{1,5}$"
_PROPERTY: Final = r"^[a-z][a-z0-9._-]{0,127}$"
_MOST_BYTES: Final = 65536


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Reference(_Table):
    """Where a value is that may not be in a settings file."""

    env: str | None = Field(None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="A variable.")
    file: Path | None = Field(None, description="A file; a last line break is not part of it.")

    @model_validator(mode="after")
    def _one(self) -> Reference:
        if (self.env is None) == (self.file is None):
            raise ValueError("names either an environment variable, env, or a file, file")
        return self


class Reached(_Table):
    """How a cluster of the user's is reached, of whatever kind."""

    system: str | None = Field(
        None, description="The system that it is, a plug-in in targets/; by default plans' own."
    )
    bootstrap: list[Annotated[str, StringConstraints(pattern=_ADDRESS)]] = Field(
        min_length=1, max_length=64, description="The bootstrap servers: HOST:PORT."
    )
    client: dict[
        Annotated[str, StringConstraints(pattern=_PROPERTY)], str | int | bool | Reference
    ] = Field(default_factory=dict, description="Properties of clients, secrets by reference.")


ReachedT = TypeVar("ReachedT", bound=Reached)


def kind_in(path: Path) -> object:
    """The kind that a file names, whatever else is in it; `None`: it names none. Raises
    PlanError."""
    return _document(path).get("kind")


def read_cluster_file(path: Path, model: type[ReachedT]) -> ReachedT:
    """The content of a file. Raises PlanError that says which key is wrong."""
    document = _document(path)
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise _explained(error, model, document, path) from error


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PlanError(
            f"the cluster file cannot be read: {error}", file=str(path), hint=_EXAMPLE
        ) from error


def _explained(
    error: ValidationError, model: type[Reached], document: dict[str, Any], path: Path
) -> PlanError:
    """The first finding in words that quote no value of a property: it may be a secret."""
    first = error.errors(include_url=False)[0]
    client = document.get("client")
    if first["loc"][:1] == ("bootstrap",) and first["type"] == "string_pattern_mismatch":
        where = f"bootstrap.{first['loc'][1]}"
        what = f"{first['input']!r} is not an address with a port"
        return PlanError(what, file=str(path), key=where, hint="write it as HOST:PORT")
    if first["loc"][:1] != ("client",) or not isinstance(client, dict):
        return explain(error, model, file=str(path))
    name = str(first["loc"][1]) if len(first["loc"]) > 1 else ""
    wrong = "is neither text, number, true or false, nor { env = ... } or { file = ... }"
    if not re.fullmatch(_PROPERTY, name):
        wrong = "is not the name of a property"
    return PlanError(wrong, file=str(path), key=f'client."{name}"', hint=_EXAMPLE)


def access_of(content: Reached, path: Path) -> Access:
    """How the cluster is reached, with the secrets that the file refers to.

    Raises EnvironmentFailure for a secret that is not there.
    """
    folder = path.resolve().parent
    properties = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in content.client.items()
        if not isinstance(value, Reference)
    }
    secrets = {
        name: _secret(value, folder, path, key=f'client."{name}"')
        for name, value in content.client.items()
        if isinstance(value, Reference)
    }
    return Access(
        file=path, addresses=tuple(content.bootstrap), properties=properties, secrets=secrets
    )


def _secret(reference: Reference, folder: Path, path: Path, *, key: str) -> Secret:
    if reference.env is not None:
        if not (text := os.environ.get(reference.env)):
            raise EnvironmentFailure(
                f"the environment variable {reference.env} is not set",
                file=str(path),
                key=key,
                hint=f"export {reference.env}, or name a file",
            )
        return Secret(text)
    assert reference.file is not None
    place = folder / reference.file.expanduser()
    try:
        with place.open("rb") as file:
            text = file.read(_MOST_BYTES).decode().removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise EnvironmentFailure(
            f"the secret in {place} cannot be read: {why}", file=str(path), key=key
        ) from error
    if not text:
        raise EnvironmentFailure(f"the secret in {place} is empty", file=str(path), key=key)
    return Secret(text)
