"""Nodes, levers and clusters: where the system under test runs, the mechanisms that change one
thing on a node, how a cluster is reached that is not ours, and what nodes report about who leads.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import (
    IO,
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    get_args,
    runtime_checkable,
)

from pydantic import ConfigDict, StringConstraints

from harness.errors import HarnessFailure
from harness.protocols.clock import Clock, RealClock

# No access to a cluster is ever part of a plan, since a plan may come from a stranger: the command
# line names the file.


@dataclass(frozen=True)
class Secret:
    """A value that is never written anywhere: its text is shown only to code that requests it by
    name."""

    _text: str = field(repr=False)

    def reveal(self) -> str:
        """The value itself, for a client library."""
        return self._text

    def __str__(self) -> str:
        return "(secret)"


@dataclass(frozen=True, kw_only=True)
class Access:
    """How a cluster is reached: the file that names it, the bootstrap servers (host:port), the
    properties of clients by name, and those whose values are secret."""

    file: Path
    addresses: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Member:
    """A node of such a cluster, as the cluster itself names it; `number`, where it has one.
    `address` is the host:port at which clients find it."""

    name: str
    roles: frozenset[str]
    address: str
    number: int | None = None


class Status(StrEnum):
    """`warn`: runs work, but something is scarce or has not been created yet."""

    OK = "ok"
    MISSING = "missing"
    OLD = "old"
    WARN = "warn"

    @property
    def prevents_runs(self) -> bool:
        """Whether a finding with this status must be corrected first."""
        return self in (Status.MISSING, Status.OLD)


@dataclass(frozen=True)
class Finding:
    """The result of one check of this machine; `fix` is the command that corrects what is wrong."""

    name: str
    status: Status
    detail: str
    fix: str | None = None


@dataclass(frozen=True, kw_only=True)
class PartitionView:
    """What one node reports about one partition, the subject of an observation. Nodes are named; no
    leader: `None`. `members` are in sync, and so are `unnamed` more, of which the node does not
    know which they are; `None`: nor how many. The first of the replicas is the preferred leader."""

    partition: int
    leader: str | None
    leader_epoch: int
    members: tuple[str, ...]
    replicas: tuple[str, ...] = ()
    unnamed: int | None = 0

    @property
    def in_sync(self) -> int | None:
        """How many are in sync; `None` where the node does not know."""
        return None if self.unnamed is None else len(self.members) + self.unnamed


@dataclass(frozen=True, kw_only=True)
class NodeView:
    """One node's answer: the partitions it knows, and the controller, if it knows.

    `authority`: it stores what was decided, where others only have received it. `coordination`: the
    partition in which the run's group keeps what it has committed; its leader coordinates it.
    """

    answered_by: str
    partitions: tuple[PartitionView, ...] = ()
    coordination: PartitionView | None = None
    controller: str | None = None
    controller_epoch: int | None = None
    authority: bool = False


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What all nodes of the cluster together report: per partition the answer with the highest
    leader epoch, no matter which node gave it; the controller by the highest controller epoch.
    Nodes that did not answer are missing from `answered`."""

    time_ns: int
    partitions: Mapping[int, PartitionView] = field(default_factory=dict)
    coordination: PartitionView | None = None
    controller: str | None = None
    answered: frozenset[str] = frozenset()


class Range(NamedTuple):
    """Offsets of a partition: the first one, and the one after the last."""

    first: int
    behind: int


@dataclass(frozen=True, kw_only=True)
class End:
    """How far one partition was read, and its ends before and after. `members` were in sync then.
    `error`: why it is not `complete`, one sentence; `None` where it is. `ranges`: the offsets that
    were read, each from the first to the one after the last, if these were not all.
    """

    partition: int
    log_start_offset: int | None = None
    end_offset: int | None = None
    position: int | None = None
    leader: str | None = None
    leader_epoch: int | None = None
    members: tuple[str, ...] = ()
    complete: bool = False
    error: str | None = None
    ranges: tuple[Range, ...] | None = None


@dataclass(frozen=True)
class Completed:
    """What a command on a node did."""

    exit_code: int
    output: str


@dataclass(frozen=True, kw_only=True)
class ProcessState:
    """The target's process on a node. `exit_code` is null while it runs, and 128 + the signal that
    ended it, as shells and containers report it."""

    running: bool
    exit_code: int | None = None
    started_at: str | None = None
    finished_at: str | None = None


@dataclass(frozen=True, kw_only=True)
class OwnConnection:
    """The connection by which the harness works on a node, as the node sees it: from the address
    `peer`, to its own TCP port `port`."""

    peer: str
    port: int


class Place(Protocol):
    """A file or folder of a node that this machine reads: a `Path`, or as one."""

    @property
    def parent(self) -> Place: ...

    @property
    def stem(self) -> str: ...

    def __truediv__(self, name: str, /) -> Place: ...

    def glob(self, pattern: str, /) -> Iterable[Place]: ...

    def open(self, mode: Literal["rb"], /) -> IO[bytes]: ...


class Node(ABC):
    """A host of the system under test: all that levers and targets do there goes through it.

    `roles` is what it is: a combined node has the roles `broker` and `controller`.
    """

    if TYPE_CHECKING:  # fields or properties, as each kind of node has them

        @property
        @abstractmethod
        def name(self) -> str: ...

        @property
        @abstractmethod
        def roles(self) -> frozenset[str]: ...

        @property
        @abstractmethod
        def address(self) -> str: ...

    @abstractmethod
    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        """Run a command with network-admin and signal rights over the node (never in the target's
        own container, which need not have any tools)."""

    @abstractmethod
    def run(self, argv: Sequence[str], *, timeout_s: float = 30) -> Completed:
        """Run a command where the target's process runs, with its image's files."""

    @abstractmethod
    def pid(self) -> int | None:
        """The target's process, as `admin` commands see it; `None` if it does not run."""

    @abstractmethod
    def put(self, files: Mapping[str, bytes]) -> None:
        """Write files below the node's data folder; names are relative to it."""

    @abstractmethod
    def get(self, name: str) -> dict[str, bytes]:
        """A file below the node's data folder, by its last name, or all files of a folder, by their
        names below that folder; empty when there is none."""

    @abstractmethod
    def start(self) -> None:
        """Start the target's process again after it has died; nothing if it runs."""

    @abstractmethod
    def process(self) -> ProcessState:
        """The state of the target's process."""

    def why_not(self, record: UndoRecord) -> str | None:
        """None, or why an act such as the record's is not done to this node, whatever its lever
        can do."""
        return None

    def send_signal(self, signal: str, pid: int) -> None:
        """Send its process KILL or TERM; whatever supervises it does not start it again. Raises
        HarnessFailure if it still runs and the signal was refused."""
        sent = self.admin(["kill", f"-{signal}", str(pid)])
        if sent.exit_code and self.process().running:
            raise HarnessFailure(f"{self.name}: the signal was refused: {sent.output.strip()}")

    def begin(self, argv: Sequence[str], *, count: int) -> None:
        """Start a command so many times where the target's process runs, and do not wait for its
        end. Raises HarnessFailure."""
        begun = self.run(["/bin/sh", "-c", _DETACHED, "sh", str(count), *argv])
        if begun.exit_code:
            what = begun.output.strip()[:300]
            raise HarnessFailure(f"{self.name}: a command could not be started: {what}")

    def processes(self) -> frozenset[int] | None:
        """The processes that are the node's, where `admin` commands see others too."""
        return None

    def here(self, name: str) -> Place | None:
        """Where this machine reads a folder below the node's data folder, whether or not the node's
        process lives; `None` where it cannot."""
        return None

    @property
    def own_disk(self) -> OwnDisk | None:
        """The disk on which it stores, if that can lose power."""
        return None

    @property
    def own_connection(self) -> OwnConnection | None:
        """How the harness works on it, if that is through the same network that faults cut: no
        fault may cut this connection, or it could not be healed. By port, so that a lost connection
        can be made again. Raises HarnessFailure when the node does not report it."""
        return None

    @property
    def clients_address(self) -> str | None:
        """Where clients on this machine come from, as the node sees them; `None`: not known. By
        default its gateway, the address of this machine in the node's network."""
        routes = self.admin(["ip", "-4", "route", "show", "default"]).output
        match = re.search(r"default via (\d+\.\d+\.\d+\.\d+)", routes)
        return match[1] if match else None


_DETACHED = (
    'n=$1; shift; while [ $n -gt 0 ]; do "$@" < /dev/null > /dev/null 2>&1 & n=$((n-1)); done'
)


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A file: its length, and the bytes that it takes on the disk or is to take."""

    size_bytes: int
    allocated_bytes: int


@dataclass(frozen=True, kw_only=True)
class PowerLoss:
    """What a loss of power did to a disk: its files by path before and after, and a file of ours,
    of which `canary_synced` of `canary_written` bytes had been fsynced, and `canary_left` are
    left."""

    device: str
    before: Mapping[str, Stored]
    after: Mapping[str, Stored]
    canary_synced: int
    canary_written: int
    canary_left: int


class OwnDisk(Protocol):
    """A disk that holds only what one node stores, and can lose power: what was not fsynced is then
    gone."""

    @abstractmethod
    def why_not(self) -> str | None:
        """None, or why it may not lose power: it is not the node's, or not ours."""

    @abstractmethod
    def flush(self) -> None:
        """Have all that was written so far on the disk."""

    @abstractmethod
    def lose_power(self, fault: str) -> None:
        """Lose what was not fsynced, once for each fault. No process may have a file open there.
        Raises HarnessFailure."""

    @abstractmethod
    def power_loss(self, fault: str) -> PowerLoss | None:
        """What a fault did; `None` if it has done nothing."""

    @abstractmethod
    def power_losses(self) -> list[str]:
        """The faults that have done something and were not undone."""

    @abstractmethod
    def restore(self, fault: str) -> None:
        """Make the disk usable, and forget what the fault did; harmless if it did nothing."""

    @abstractmethod
    def written_back_s(self) -> tuple[float, float]:
        """How old a write is, in seconds, when the system writes it back by itself: at the
        earliest, and at the latest."""


@dataclass(frozen=True, kw_only=True)
class ImageRef:
    """An image that holds the target: what was requested, its id, its digest where it has one."""

    reference: str
    id: str
    digest: str | None = None
    version: str | None = None


@dataclass(frozen=True, kw_only=True)
class NodeSpec:
    """What a node is to be: the target's process and the files it starts with.

    `files` are written below the node's data folder (`NODE_DATA` where the process runs), `mounts`
    are read-only host paths of ackloss' own cache. With `data_mb`, the folder `STORED` is a disk of
    its own of that size, in memory; with `own_disk_mb`, one that can lose power (`OwnDisk`).
    `ports` are the TCP ports on which it will listen. `beside` is the command of a second process
    with the same files and rights, which is not part of the system: it lives on when the first one
    dies, and is not paused with it. A command that `changes_user` begins as root, gives a folder to
    another user and goes on as that one: it keeps the `capabilities` for that, others none.
    """

    name: str
    roles: frozenset[str]
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    mounts: Mapping[Path, str] = field(default_factory=dict)
    memory_mb: int = 512
    data_mb: int | None = None
    own_disk_mb: int | None = None
    ports: Sequence[int] = ()
    beside: Sequence[str] = ()
    changes_user: bool = False

    @property
    def capabilities(self) -> list[str]:
        """The capabilities of Linux that its process keeps, in lower case, without `CAP_`."""
        return ["chown", "setuid", "setgid"] if self.changes_user else []


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """How a version of a system is laid out on a host where an administrator installed it.

    folder   what a node needs of it, below its home
    inside   where the system's process sees that folder: one of `Ingredients.folders`
    named    a regular expression for the name of a file in it; its group is the version
    """

    folder: str
    inside: str
    named: str


@dataclass(frozen=True, kw_only=True)
class Ingredients:
    """What all nodes of a target need and what takes long to build: built once, kept in the cache.

    `files` by name and `mounts` (host path to path inside) mean what the target makes of them. If
    nodes are hosts and not made from an image, `folders` are what the image would hold, as local
    folders by where the process sees them, and `programs` what hosts must have, each with the
    Debian package that contains it. `distribution`: it can be used as it is installed there.
    """

    image: ImageRef
    files: Mapping[str, bytes] = field(default_factory=dict)
    mounts: Mapping[Path, str] = field(default_factory=dict)
    folders: Mapping[Path, str] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    distribution: Distribution | None = None


CLIENT_ROLE = "client"
"""The role of nodes that hold a client: in the cluster's network, but not part of the system."""

NODE_DATA = "/var/lib/ackloss"
STORED = "data"
"""The folder below `NODE_DATA` in which a target stores what clients write; its own log, and what
ackloss keeps, are beside it."""


NodeNames = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._,-]*$")]
FaultId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]


@dataclass(frozen=True, kw_only=True)
class UndoRecord:
    """What one act did: enough for any process to undo and to probe it, after any crash.

    Each lever has its own record type, a frozen dataclass whose fields are the keys in the journal:
    those of the core are in `harness.faults.records`, others are declared by the target that has
    the lever (`Target.record_types`). `node` is where the act is done (several names, joined by
    commas, if one act is for all of them). A nemesis leaves out `fault`, the id of the plan's step,
    and `seed`, the plan's: both are filled in before the record is journalled. `counts`: its lever
    counts what of the system meets an act (`Proof.met`), so without it nothing is proven.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    counts: ClassVar[bool] = False
    permanent: ClassVar[bool] = False
    """Nothing undoes it, so no step may heal it."""

    node: NodeNames
    fault: FaultId = ""
    seed: int = 0

    @classmethod
    def is_control(cls, document: Mapping[str, Any]) -> bool:  # noqa: ARG003
        """Whether an act with this record, as the journal holds it, changes nothing: it passes on
        all that it meets, so that runs with a fault can be compared with runs without one."""
        return False


RecordT = TypeVar("RecordT", bound=UndoRecord)


@dataclass(frozen=True)
class Proof:
    """What a probe saw: whether the fault is in force (or no longer is), and sentences that state
    how this was observed.

    `met` counts what the fault has done to the system since it was applied, in the lever's own unit
    (packets, milliseconds ...), without what the probe itself sent or did. It is None if the
    mechanism acts on the system itself: a process that is gone needs no further evidence.
    `claimed`: an operator states that it is so, and nothing proves it.
    """

    proven: bool
    evidence: list[str]
    met: int | None = None
    claimed: bool = False


class Lever(ABC, Generic[RecordT]):
    """The mechanism that changes one thing on a node, can undo it, and can prove both."""

    name: ClassVar[str]
    record_type: ClassVar[type[UndoRecord]]
    """By default the one in brackets: of `Lever[NetRecord]` it is `NetRecord`."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for base in () if "record_type" in vars(cls) else getattr(cls, "__orig_bases__", ()):
            for of in get_args(base):
                if isinstance(of, type) and issubclass(of, UndoRecord):
                    cls.record_type = of

    def unavailable(self, node: Node, record: RecordT) -> str | None:
        """None, or why an act such as the record's cannot be done on this node. The record is an
        example: what a nemesis learns only when it acts (peers, a pid) may be missing."""
        return None

    def prepare(self, node: Node) -> None:
        """Prepare a node whose process was just started, before any client connects to it; nothing
        if it is already prepared. Only nodes of plans with such a fault are. Raises
        HarnessFailure."""
        return

    def capture_prior_state(self, record: RecordT) -> RecordT:
        """The record with the state that was found, as it will be journalled: what the lever must
        know to undo or to prove its change. What cannot be determined is recorded as unknown: this
        raises no expected failure."""
        return record

    def give_up(self) -> None:
        """Stop waiting for something outside before a fault begins: the load is over. From any
        thread."""
        return

    @abstractmethod
    def apply(self, record: RecordT) -> None:
        """Make the change. The record is in the journal before this call."""

    @abstractmethod
    def undo(self, record: RecordT) -> None:
        """Undo the change; harmless when it is not in force."""

    @abstractmethod
    def probe(self, record: RecordT, *, applied: bool) -> Proof:
        """Observe whether the change is in force (`applied`), or whether it no longer is."""

    def leftover_state(self, node: Node) -> list[str]:
        """What of this lever is in force on a node, in sentences; empty on an unfaulted node."""
        return []


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


def with_role(cluster: Cluster, role: str) -> list[Node]:
    """The nodes of a cluster that have this role."""
    return [node for node in cluster.nodes.values() if role in node.roles]


class RunCluster(ABC):
    """The cluster of a run. It does not exist before `start`; `down` removes it.

    run_id  of the run
    nodes   by name, in the order in which the target named them
    clock   on which everything in the run waits
    image   that holds the system, if there is one
    """

    clock: Clock = RealClock()

    if TYPE_CHECKING:  # fields or properties, as each kind of cluster has them

        @property
        @abstractmethod
        def run_id(self) -> str: ...

        @property
        @abstractmethod
        def nodes(self) -> Mapping[str, Node]: ...

    @property
    def image(self) -> ImageRef | None:
        """None, unless a kind of cluster has one."""
        return None

    @property
    @abstractmethod
    def levers(self) -> Mapping[str, Lever[Any]]:
        """See `Cluster`."""

    @abstractmethod
    def start(self) -> None:
        """Create and start the nodes; the system is not up yet. Raises EnvironmentFailure."""

    @abstractmethod
    def down(self) -> list[str]:
        """Remove everything of this cluster, no matter how far `start` got; returns the names of
        what was removed. Raises HarnessFailure if something remains."""

    def output(self, node: Node) -> bytes | None:
        """What the process of a node has printed; `None` if that is not kept."""
        return None

    def keep(self) -> None:
        """Have it continue without this process, where it would otherwise end with it."""
        return

    def when_lost(self, tell: Callable[[str], None]) -> None:
        """Have `tell` called with a sentence, from another thread, when a host is lost for good."""
        return
