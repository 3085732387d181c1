"""Nodes and clusters: where the system under test runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from harness.protocols.faults import Lever


@dataclass(frozen=True)
class Completed:
    """What a command on a node did."""

    exit_code: int
    output: str


@dataclass(frozen=True, kw_only=True)
class ProcessState:
    """The target's process on a node. `exit_code` is null while it runs."""

    running: bool
    exit_code: int | None = None
    started_at: str | None = None
    finished_at: str | None = None


@runtime_checkable
class Node(Protocol):
    """A host of the system under test: everything that levers and targets do goes through here."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def roles(self) -> frozenset[str]:
        """What it is: a combined node has the roles `broker` and `controller`."""
        ...

    @property
    @abstractmethod
    def address(self) -> str: ...

    @abstractmethod
    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        """Run a command with network-admin and signal rights over the node (never in the target's
        own container, which need not have any tools)."""
        ...

    @abstractmethod
    def run(self, argv: Sequence[str], *, timeout_s: float = 30) -> Completed:
        """Run a command where the target's process runs, with its image's files."""
        ...

    @abstractmethod
    def pid(self) -> int | None:
        """The target's process, as `admin` commands see it; null when it does not run."""
        ...

    @abstractmethod
    def put(self, files: Mapping[str, bytes]) -> None:
        """Write files below the node's data folder; names are relative to it."""
        ...

    @abstractmethod
    def get(self, name: str) -> dict[str, bytes]:
        """A file, or all files of a folder, below the node's data folder."""
        ...

    @abstractmethod
    def start(self) -> None:
        """Start the target's process again after it has died; nothing when it runs."""
        ...

    @abstractmethod
    def process(self) -> ProcessState:
        """The state of the target's process."""
        ...


@dataclass(frozen=True, kw_only=True)
class ImageRef:
    """An image that holds the target: what was asked for, its id, its digest where it has one."""

    reference: str
    id: str
    digest: str | None = None
    version: str | None = None


@dataclass(frozen=True, kw_only=True)
class NodeSpec:
    """What a node is to be: the target's process and the files it starts with.

    `files` are written below the node's data folder (`NODE_DATA` where the process runs), `mounts`
    are read-only host paths of ackloss' own cache. With `data_mb`, the folder `STORED` is a disk of
    its own of that size.
    """

    name: str
    roles: frozenset[str]
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    mounts: Mapping[Path, str] = field(default_factory=dict)
    memory_mb: int = 512
    data_mb: int | None = None


@dataclass(frozen=True, kw_only=True)
class Ingredients:
    """What all nodes of a target need and what took long to make: made once, kept by the cache.

    `files` by name and `mounts` (host path to path inside) mean what the target makes of them.
    """

    image: ImageRef
    files: Mapping[str, bytes] = field(default_factory=dict)
    mounts: Mapping[Path, str] = field(default_factory=dict)


CLIENT_ROLE = "client"
"""The role of nodes that hold a client: in the cluster's network, and no part of the system."""

NODE_DATA = "/var/lib/ackloss"
STORED = "data"
"""The folder below `NODE_DATA` in which a target stores what clients write; its own log, and what
ackloss keeps, lie beside it."""


@runtime_checkable
class Cluster(Protocol):
    """The nodes of one run, by name in the order in which the target named them, and the levers
    that this kind of cluster offers."""

    @property
    @abstractmethod
    def nodes(self) -> Mapping[str, Node]: ...

    @property
    @abstractmethod
    def levers(self) -> Mapping[str, Lever[Any]]:
        """The levers over these nodes by name. The names do not depend on the nodes: a plan that
        needs another lever is refused before anything starts."""
        ...


def with_role(cluster: Cluster, role: str) -> list[Node]:
    """The nodes of a cluster that have this role."""
    return [node for node in cluster.nodes.values() if role in node.roles]
