"""The nouns of ackloss and their contracts: the first file to read.

    plan     one TOML file: target, settings, workload, fault schedule, checks, seed
    node     a host; in Docker a pod of two containers (a holder and the target's own)
    cluster  nodes and the levers that work on them
    lever    changes one thing on a node, can undo it, and can prove it
    nemesis  decides which levers to pull, on which nodes; knows no iptables
    target   the system under test: its files, how it starts, who leads, its clients
    workload what the clients do: generators of operations, without network or clock
    op       an invoke, completed by ok (surely happened), fail (surely did not) or info (unknown)
    checker  a pure function from histories to findings

Protocols are small, and an ability that only some have is a protocol of its own. A plug-in is a
frozen dataclass in `nemeses/`, `workloads/`, `targets/` or `checkers/` that has a class variable
`plugin`, its name in plans. Its fields are its options (unit last in their names), its docstring is
its help text. There is no list to edit.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa

    from harness.plan import Plan

# --- operations -------------------------------------------------------------------------------
# Plain tuples: flat out, hundreds of thousands are made a second, and a named tuple takes five
# times as long to make and four times as long to take apart.

Invoke = tuple[str, int, int, str | None]
"""What a process wants to do next: (f, value, partition, key). Workloads yield these."""

OK, FAIL, INFO = "ok", "fail", "info"

Completion = tuple[str, int | None, str | None, str | None]
"""How an operation ended: (type, offset, error, node); `type` is ok (surely happened), fail (surely
did not) or info (unknown), `error` the name of what was answered."""


def invoke(f: str, value: int, partition: int, key: str | None = None) -> Invoke:
    """An Invoke with its parts named."""
    return f, value, partition, key


def completion(
    type_: str, offset: int | None = None, error: str | None = None, node: str | None = None
) -> Completion:
    """A Completion with its parts named."""
    return type_, offset, error, node


Script = Generator[Invoke, Completion, None]


@runtime_checkable
class Workload(Protocol):
    """Pure scripts: one generator per process, `completion = yield invoke(...)`.

    Scripts never sleep, never read a clock and never draw from anything but what they are given:
    rate, time limit, crash and replacement of a process belong to the interpreter. When an
    operation ends in info, its process is retired, and the same script is played on by a new
    process, old + `processes`: so whatever a script counts goes on counting.
    """

    plugin: ClassVar[str]

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        """The script of one of the first processes, 0 <= `process` < `processes`. Values that it
        writes are unique over all scripts of a run."""
        ...


Done = Callable[[int, Completion], None]
"""Told the process and how its operation ended."""


class Client(Protocol):
    """A client of the system under test that many processes share; one thread calls all of it.

    Each operation that was taken is completed exactly once, from inside `poll` or `close`.
    """

    def submit(self, process: int, op: Invoke) -> bool:
        """Begin an operation. False: the client's queue is full, nothing was attempted, poll."""
        ...

    def poll(self, timeout_s: float, done: Done) -> None:
        """Complete what has been answered; waits at most `timeout_s` for the first answer."""
        ...

    def close(self, timeout_s: float, done: Done) -> None:
        """Wait for what is in flight, then complete the rest as info, and disconnect."""
        ...


# --- nodes and clusters -----------------------------------------------------------------------


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
    def name(self) -> str: ...

    @property
    def roles(self) -> frozenset[str]:
        """What it is: a combined node has the roles `broker` and `controller`."""
        ...

    @property
    def address(self) -> str: ...

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        """Run a command with network-admin and signal rights over the node (never in the target's
        own container, which need not have any tools)."""
        ...

    def run(self, argv: Sequence[str], *, timeout_s: float = 30) -> Completed:
        """Run a command where the target's process runs, with its image's files."""
        ...

    def pid(self) -> int | None:
        """The target's process, as `admin` commands see it; null when it does not run."""
        ...

    def put(self, files: Mapping[str, bytes]) -> None:
        """Write files below the node's data folder; names are relative to it."""
        ...

    def get(self, name: str) -> dict[str, bytes]:
        """A file, or all files of a folder, below the node's data folder."""
        ...

    def start(self) -> None:
        """Start the target's process again after it has died; nothing when it runs."""
        ...

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


NODE_DATA = "/var/lib/ackloss"
STORED = "data"
"""The folder below `NODE_DATA` in which a target stores what clients write; its own log, and what
ackloss keeps, lie beside it."""


@runtime_checkable
class Cluster(Protocol):
    """Nodes of one run, by name in the order in which the target named them."""

    @property
    def nodes(self) -> Mapping[str, Node]: ...


def with_role(cluster: Cluster, role: str) -> list[Node]:
    """The nodes of a cluster that have this role."""
    return [node for node in cluster.nodes.values() if role in node.roles]


# --- faults -----------------------------------------------------------------------------------

Token = dict[str, Any]


@dataclass(frozen=True)
class Proof:
    """A probe's answer: does the fault hold (or no longer), and in sentences, how that was seen."""

    proven: bool
    evidence: list[str]


@runtime_checkable
class Lever(Protocol):
    """The mechanism that changes one thing on a node.

    A token is JSON data, enough to undo and probe the act without any memory of this process.
    """

    name: ClassVar[str]

    def apply(self, token: Token) -> None:
        """Do it. The token was written to the journal before this call."""
        ...

    def undo(self, token: Token) -> None:
        """Undo it; harmless when it is not in force."""
        ...

    def probe(self, token: Token, *, applied: bool) -> Proof:
        """Show that it is in force (`applied`), or that it no longer is."""
        ...

    def residue(self, node: Node) -> list[str]:
        """What of this lever is in force on a node, in sentences: none on an unfaulted one."""
        ...


@runtime_checkable
class Looks(Protocol):
    """A lever that must know how things stand before it changes them."""

    def look(self, token: Token) -> Token:
        """The token with what was found, as it will be journalled; raises nothing expected."""
        ...


class Act(NamedTuple):
    """One pull of a lever: its name and the token that says what."""

    lever: str
    token: Token


Select = Callable[[str], Sequence[Node]]


@runtime_checkable
class Nemesis(Protocol):
    """The policy of a fault family: turns chosen nodes into pulls of levers.

    Applying, journalling, proving and undoing the acts is done in one place for all families
    (`harness.faults`); so a nemesis holds no state, and healing needs no memory.
    """

    plugin: ClassVar[str]

    def available(self, cluster: Cluster) -> str | None:
        """Null, or why this fault cannot be made on this cluster."""
        ...

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:
        """The acts that this fault consists of, on these nodes; they are done all at once.

        `select` resolves a further selector (`role:controller`) in the same situation.
        """
        ...


FAKETIME = "faketime"
"""A need: the target's process starts with libfaketime in it (see `harness.levers.clock`)."""

BOUNDED_DISK = "bounded disk"
"""A need: what the target stores lies on a small disk of its own (see `harness.levers.full`)."""


@runtime_checkable
class Needs(Protocol):
    """A nemesis whose fault cannot be made on a node that was not started for it."""

    @property
    def needs(self) -> frozenset[str]:
        """By name, what nodes must have from their start (see `harness.preparing`)."""
        ...


# --- systems under test -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PartitionView:
    """What one node says of one partition. Nodes are named; null leader: none. The first of the
    replicas is the preferred leader."""

    partition: int
    leader: str | None
    leader_epoch: int
    isr: tuple[str, ...]
    replicas: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NodeView:
    """One node's answer: the partitions it knows, and the controller, if it can tell."""

    answered_by: str
    partitions: tuple[PartitionView, ...] = ()
    controller: str | None = None
    controller_epoch: int | None = None


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What the cluster as a whole says of itself: per partition the answer with the highest leader
    epoch, whoever gave it; the controller by the highest controller epoch. `asked` nodes that did
    not answer are missing from `answered`."""

    time_ns: int
    partitions: Mapping[int, PartitionView] = field(default_factory=dict)
    controller: str | None = None
    answered: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class End:
    """How far one partition was read, and what stood at its end before and after."""

    partition: int
    log_start_offset: int | None
    end_offset: int | None
    position: int | None
    leader: str | None
    leader_epoch: int | None
    isr: tuple[str, ...]
    complete: bool


class Target(Protocol):
    """The system under test: its nodes, how it comes up, and its clients."""

    plugin: ClassVar[str]

    def check(self, plan: Plan) -> None:
        """Refuse, by PlanError, what this system cannot do or a plan may not ask."""
        ...

    def names(self, plan: Plan) -> list[str]:
        """The names of the nodes of a cluster for this plan."""
        ...

    def prepare(self, plan: Plan, say: Callable[[str], None]) -> Ingredients:
        """Build or find the image and all else that nodes need; what takes long is told to `say`.

        Raises PlanError (no such version), EnvironmentFailure (cannot be built or pulled).
        """
        ...

    def nodes(
        self, plan: Plan, ingredients: Ingredients, addresses: Mapping[str, str]
    ) -> list[NodeSpec]:
        """The nodes of a cluster for this plan, `addresses` by node name."""
        ...

    def bring_up(self, cluster: Cluster, plan: Plan, *, timeout_s: float) -> None:
        """Wait until every node has joined, make the topic, wait until its ISR is whole.

        Raises TimeoutError that says what is missing.
        """
        ...

    def effective(self, cluster: Cluster, plan: Plan) -> dict[str, Any]:
        """Settings and features as the cluster itself tells them (`{"broker": {...}, ...}`).

        Raises PlanError when one that the plan asks for is unknown to it or differs.
        """
        ...

    def client(self, cluster: Cluster, plan: Plan) -> Client:
        """A client for the workload."""
        ...

    def readers(self) -> tuple[str, str]:
        """The client libraries that can read everything: the first, and the second opinion."""
        ...

    def read_all(
        self, cluster: Cluster, plan: Plan, *, reader: str, timeout_s: float
    ) -> tuple[pa.Table, list[End]]:
        """Read every partition from its start to its end with the named client library.

        The table has the columns of `harness.history.READS` but `run_id`; `time_ns` is on the
        monotonic clock, not yet counted from the run's start.
        """
        ...


@runtime_checkable
class HasLeaders(Protocol):
    """A target whose nodes can be asked who leads."""

    def observe(self, node: Node, plan: Plan, *, timeout_s: float) -> NodeView | None:
        """This node's own view; null when it does not answer."""
        ...


@runtime_checkable
class HasLogs(Protocol):
    """A target whose nodes keep logs worth keeping."""

    def logs(self, node: Node) -> dict[str, bytes]:
        """The node's log files by name."""
        ...


@runtime_checkable
class Reusable(Protocol):
    """A target whose cluster can serve one run after another."""

    def cluster_key(self, plan: Plan) -> str:
        """Equal for plans that may be played on the same cluster."""
        ...

    def fresh(self, plan: Plan, number: int) -> Plan:
        """The plan for the nth run on a cluster: nothing of it was there before."""
        ...

    def forget(self, cluster: Cluster, plan: Plan) -> None:
        """Remove what a run has left. Raises HarnessFailure when that cannot be."""
        ...


@runtime_checkable
class Spoils(Protocol):
    """A nemesis after which a cluster may not be used again, healed or not."""

    spoils: ClassVar[bool]
