"""The inventory: the hosts that a user offers, and how they are reached. Named on the command line,
never in a plan, since a plan may come from a stranger.

It holds no secret: a key is a file, one with a passphrase is taken from the user's SSH agent.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from harness.errors import PlanError
from harness.wrong_values import explain

KIND: Final = "ssh"
_NAME: Final = r"^[a-z0-9][a-z0-9-]{0,62}$"
_ADDRESS: Final = r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$"
_USER: Final = r"^[a-z_][a-z0-9_.-]*$"
_PATH: Final = r"^/[A-Za-z0-9._/+-]+$"
_JUMP: Final = re.compile(r"(?:([^@:,]+)@)?([^@:,]+)(?::(\d{1,5}))?")
DIRECT: Final = "none"
"""The `jump` of a host that needs none, where the defaults have one."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Access(_Table):
    """How a host is reached."""

    address: str = Field(pattern=_ADDRESS, description="Name or IPv4 address, for SSH.")
    port: int = Field(22, ge=1, le=65535, description="The port of its SSH server.")
    user: str = Field("root", pattern=_USER, description="The user to log in as.")
    key: Path | None = Field(
        None, description="The private key. Without one, the agent's and those in ~/.ssh."
    )
    agent: bool = Field(False, description="Take keys from the SSH agent, beside `key`.")
    known_hosts: Path = Field(
        Path("~/.ssh/known_hosts"), description="The file with the hosts' public keys."
    )

    @field_validator("key", "known_hosts")
    @classmethod
    def _expanded(cls, path: Path | None) -> Path | None:
        return path.expanduser() if path is not None else None

    @property
    def place(self) -> str:
        """Its address and port, as messages show them."""
        return f"{self.address}:{self.port}"


class HostEntry(Access):
    """One host: it takes one node of a run."""

    name: str = Field(pattern=_NAME, description="Its name in messages.")
    cluster_address: str | None = Field(
        None,
        pattern=_ADDRESS,
        description="The address by which nodes and clients reach it, if not `address`.",
    )
    jump: str | None = Field(
        None,
        description="The jump host that leads to it, as in ProxyJump: [user@]address[:port], the "
        "name of a table `jumps.NAME`, or none.",
    )
    roles: list[str] = Field(
        default_factory=list, description="Only nodes with one of these roles; none: any node."
    )
    sudo: bool = Field(True, description="false: `user` needs no sudo. Ignored for root.")


class Installed(_Table):
    """A system that is already on every host, and is used unchanged."""

    installed: bool = Field(description="true: nothing is uploaded.")
    home: str = Field(description="The folder of its distribution.")
    java_home: str | None = Field(None, description="The folder of its Java, if not in the PATH.")

    @field_validator("home", "java_home")
    @classmethod
    def _plain(cls, path: str | None) -> str | None:
        if path is not None and (not re.fullmatch(_PATH, path) or ".." in path.split("/")):
            raise ValueError(f"{path!r} is not an absolute path")
        return path.rstrip("/") if path is not None else None


class Inventory(_Table):
    """The complete file."""

    hosts: list[HostEntry] = Field(min_length=1, max_length=64)
    jumps: dict[str, Access] = Field(default_factory=dict)
    systems: dict[str, Installed] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Inventory:
        names, places = set[str](), set[tuple[str | None, str]]()
        for number, host in enumerate(self.hosts):
            if host.name in names:
                raise ValueError(f"hosts.{number}.name: {host.name!r} names an earlier host too")
            if (host.jump, host.place) in places:
                raise ValueError(f"hosts.{number}.address: {host.place} is an earlier host's too")
            if why := self._no_jump(host):
                raise ValueError(f"hosts.{number}.jump: {why}")
            names.add(host.name)
            places.add((host.jump, host.place))
        return self

    def _no_jump(self, host: HostEntry) -> str | None:
        """Why the host's jump host cannot be one, if it has one."""
        if host.jump is None:
            return None
        if host.jump not in self.jumps:
            wanted = "[user@]address[:port]"
            return f"{host.jump!r} is neither {wanted} nor a table of jumps; one hop is possible"
        if self.jumps[host.jump].place == host.place:
            return f'it leads through the host itself; jump = "{DIRECT}" is direct'
        return None

    def gateways(self, hosts: Collection[str]) -> frozenset[str]:
        """Those of these hosts that are jump hosts of others of them."""
        chosen = [host for host in self.hosts if host.name in hosts]
        ways = {self.jumps[host.jump].address for host in chosen if host.jump is not None}
        return frozenset(h.name for h in chosen if ways & {h.address, h.cluster_address})


def read_inventory(path: Path) -> Inventory:
    """The inventory in a file. The keys of its table `defaults` hold for every host and jump host
    that does not have them. Raises PlanError that says which key is wrong."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PlanError(
            f"the inventory cannot be read: {error}",
            file=str(path),
            hint="docs/how-to/ssh.md has one",
        ) from error
    try:
        return Inventory.model_validate(_with_defaults(document, path.resolve().parent))
    except ValidationError as error:
        raise explain(error, Inventory, file=str(path)) from error


def _with_defaults(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Every host and jump host with the defaults; paths are relative to the inventory's folder."""
    defaults = document.pop("defaults", {})
    if not isinstance(defaults, dict):
        return {**document, "defaults": defaults}
    access = {key: value for key, value in defaults.items() if key in Access.model_fields}

    def filled(entry: object, with_: dict[str, Any]) -> object:
        if not isinstance(entry, dict):
            return entry
        made = {**with_, **entry}
        for key in ("key", "known_hosts"):
            if isinstance(path := made.get(key), str) and not path.startswith("~"):
                made[key] = str(folder / path)
        return made

    hosts, jumps = document.get("hosts"), document.get("jumps")
    if isinstance(hosts, list):
        document["hosts"] = [filled(host, defaults) for host in hosts]
        jumps = _with_jumps(document["hosts"], {} if jumps is None else jumps)
    if isinstance(jumps, dict):
        document["jumps"] = {name: filled(jump, access) for name, jump in jumps.items()}
    return document


def _with_jumps(hosts: list[Any], jumps: Any) -> Any:
    """The tables of jump hosts with one for each that is only named by its address. A bare word is
    an address where there are no tables whose name it might be, misspelt."""
    made = {}
    for host in hosts:
        if not isinstance(host, dict) or not isinstance(jump := host.get("jump"), str):
            continue
        if jump == DIRECT:
            del host["jump"]
        elif isinstance(jumps, dict) and jump not in jumps and (named := _JUMP.fullmatch(jump)):
            user, address, port = named.groups()
            if user or port or "." in address or not jumps:
                keys = {"address": address, "user": user, "port": int(port) if port else None}
                made[jump] = {key: value for key, value in keys.items() if value is not None}
    return {**jumps, **made} if isinstance(jumps, dict) else jumps
