"""Systems under test: targets, what they report about themselves, what only some of them can do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

from harness.plan import Plan
from harness.protocols.nodes import Cluster, Ingredients, Node, NodeSpec
from harness.protocols.operations import Client
from harness.protocols.promises import Promises

if TYPE_CHECKING:
    import pyarrow as pa

PlanOf = TypeVar("PlanOf", bound=Plan, contravariant=True)
"""The plan as a target declares it."""


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
    were read, each from the first to the one after the last, if these were not all (`ReadsRanges`).
    """

    partition: int
    log_start_offset: int | None
    end_offset: int | None
    position: int | None
    leader: str | None
    leader_epoch: int | None
    members: tuple[str, ...]
    complete: bool
    error: str | None = None
    ranges: tuple[Range, ...] | None = None


class Target(Protocol[PlanOf]):
    """The system under test: its nodes, how it comes up, and its clients."""

    plugin: ClassVar[str]
    plan: ClassVar[type[Plan]]
    """Its plan: a subclass with the sections and keys that are its own. Its properties `partitions`
    and `replicas` are those of this system (1 each, unless it overrides them)."""
    models: ClassVar[frozenset[str]]
    """The names of the models whose operations its clients serve (`harness.models`)."""
    starters: ClassVar[Mapping[str, str]] = {}
    """What `ackloss new` lets its user choose from: by name the rest of [target] and further
    sections of a plan, as TOML with comments, up to the first keys of [workload]."""

    @abstractmethod
    def check(self, plan: PlanOf) -> None:
        """Raise PlanError for what this system cannot do or a plan may not request."""
        ...

    @abstractmethod
    def bring_up(self, cluster: Cluster, plan: PlanOf, *, timeout_s: float) -> None:
        """Wait until every node has joined and what the workload writes to is fully replicated.

        Raises TimeoutError that names what is missing.
        """
        ...

    @abstractmethod
    def effective(self, cluster: Cluster, plan: PlanOf) -> dict[str, Any]:
        """Settings and features as the cluster itself reports them (`{"settings": {"broker": {...},
        ...}, "features": {...}}`), and `warnings` about what it cannot report, if there are any.
        Settings are in groups; a system without features leaves them out. It may add in the same
        groups: `origins`, who decided what neither the plan nor a default does, and `shortened`,
        the system's own time-outs where those in force are shorter.

        Raises PlanError when one that the plan requests is unknown to it or differs, TimeoutError
        when a node does not report it.
        """
        ...

    @abstractmethod
    def promises(self, plan: Mapping[str, Any], effective: Mapping[str, Any]) -> Promises:
        """What is promised for the operations of a run, from its plan.json and its effective
        settings. Pure; also used for stored runs.

        Raises KeyError, TypeError or ValueError for documents that are not a run's.
        """
        ...

    @abstractmethod
    def requested(self, plan: PlanOf) -> dict[str, Any]:
        """What the plan requests, in the groups of `effective`."""
        ...

    @abstractmethod
    def client(self, cluster: Cluster, plan: PlanOf) -> Client:
        """A client for the workload."""
        ...

    @abstractmethod
    def writer(self, plan: PlanOf) -> str:
        """The client library that writes, and its version."""
        ...

    @abstractmethod
    def readers(self, plan: PlanOf) -> tuple[str, str]:
        """What can read everything: the first reader, and the second opinion, which reads where the
        first one found something that breaks a promise. Python packages, or words for what differs
        between the two."""
        ...

    @abstractmethod
    def read_all(
        self, cluster: Cluster, plan: PlanOf, *, reader: str, timeout_s: float
    ) -> tuple[pa.Table, list[End]]:
        """Read every partition from its start to its end with the named client library.

        The table has the columns of `harness.history.READS` but `run_id`, and `reader` in each row;
        `time_ns` is on the monotonic clock, not yet counted from the run's start. There is an `End`
        for each partition: one that cannot be read has an `error`, and nothing is raised. Nodes may
        still be starting when this is called: it tries again, for `timeout_s` at most.
        """
        ...


@runtime_checkable
class ReadsRanges(Protocol[PlanOf]):
    """A target whose second reader can read parts of a partition: what a counter-example depends
    on. Without this it reads everything."""

    @abstractmethod
    def read_ranges(
        self,
        cluster: Cluster,
        plan: PlanOf,
        *,
        reader: str,
        ranges: Mapping[int, Sequence[Range]],
        timeout_s: float,
    ) -> tuple[pa.Table, list[End]]:
        """Read these ranges of each partition (in order, apart from each other), and determine with
        the named library itself where the partition ends: as `read_all`, with the same `ranges` in
        each `End`, which is complete when every offset of them that has a record was read without
        an error, and `position` is the end that the library reached.
        """
        ...


@runtime_checkable
class RunsInContainers(Protocol[PlanOf]):
    """A target whose nodes are processes in containers, or on hosts: commands, files, an image."""

    @abstractmethod
    def names(self, plan: PlanOf) -> list[str]:
        """The names of the nodes of a cluster for this plan."""
        ...

    @abstractmethod
    def prepare(self, plan: PlanOf, say: Callable[[str], None]) -> Ingredients:
        """Build or find the image and everything else that nodes need; what takes long is reported
        by `say`.

        Raises PlanError (no such version), EnvironmentFailure (cannot be built or pulled).
        """
        ...

    @abstractmethod
    def nodes(
        self, plan: PlanOf, ingredients: Ingredients, addresses: Mapping[str, str]
    ) -> list[NodeSpec]:
        """The nodes of a cluster for this plan, `addresses` by node name. Pure. A dry run calls it
        too, with only the image in `ingredients`."""
        ...


@runtime_checkable
class RunsOnHosts(Protocol[PlanOf]):
    """A target whose nodes are processes on hosts, without an image."""

    @abstractmethod
    def names(self, plan: PlanOf) -> list[str]:
        """See `RunsInContainers`."""
        ...

    @abstractmethod
    def for_hosts(self, plan: PlanOf, say: Callable[[str], None]) -> Ingredients:
        """Fetch or build, on this machine, everything that the hosts need (`Ingredients.folders`,
        `programs`); what takes long is reported to `say`.

        Raises PlanError for what hosts cannot run, EnvironmentFailure when it cannot be built.
        """
        ...

    @abstractmethod
    def nodes(
        self, plan: PlanOf, ingredients: Ingredients, addresses: Mapping[str, str]
    ) -> list[NodeSpec]:
        """See `RunsInContainers`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Unsupported:
    """One thing that a plan requests and this version of the system does not honour.

    `key` is the plan's, `what` one sentence without a final full stop, `source` where its reason is
    documented. Not `forcible`: there is nothing that could be run.
    """

    key: str
    what: str
    source: str
    forcible: bool = True

    def __str__(self) -> str:
        return f"{self.key}: {self.what} ({self.source})"


@runtime_checkable
class Limited(Protocol[PlanOf]):
    """A target whose versions do not all honour the same settings."""

    @abstractmethod
    def unsupported(self, plan: PlanOf) -> list[Unsupported]:
        """What the plan requests in vain. Pure: nothing is started or queried."""
        ...


@runtime_checkable
class Warns(Protocol[PlanOf]):
    """A target that knows what a plan may request but probably does not intend."""

    @abstractmethod
    def warnings(self, plan: PlanOf) -> list[str]:
        """One sentence each, with the key first."""
        ...


@runtime_checkable
class HasLeaders(Protocol[PlanOf]):
    """A target whose nodes can be queried for who leads."""

    @abstractmethod
    def observe(self, node: Node, plan: PlanOf, *, timeout_s: float) -> NodeView | None:
        """This node's own view; null if it does not answer."""
        ...


@runtime_checkable
class HasLogs(Protocol):
    """A target whose nodes keep logs worth keeping."""

    @abstractmethod
    def logs(self, node: Node) -> dict[str, bytes]:
        """The node's log files by name."""
        ...


@runtime_checkable
class Reusable(Protocol[PlanOf]):
    """A target whose cluster can serve one run after another."""

    @abstractmethod
    def cluster_key(self, plan: PlanOf) -> str | None:
        """Equal for plans that may be run on the same cluster; null: it serves one run."""
        ...

    @abstractmethod
    def fresh(self, plan: PlanOf, number: int) -> Plan:
        """The plan for the nth run on a cluster: nothing of it was there before."""
        ...

    @abstractmethod
    def forget(self, cluster: Cluster, plans: Sequence[PlanOf]) -> None:
        """Remove what a run has left: of each of its cells' plans, or of its own plan. Raises
        HarnessFailure if that fails."""
        ...
