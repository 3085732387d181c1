"""Systems under test: the base class of targets, with a default for all that only some can do."""

from __future__ import annotations

import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from harness.errors import HarnessFailure
from harness.plan import Plan
from harness.plan.model import OwnKey
from harness.protocols.explanations import Explanation, Fact, Removed
from harness.protocols.faults import Vocabulary
from harness.protocols.groups import Consumers, GroupSettings, Record
from harness.protocols.nodes import (
    Access,
    Cluster,
    End,
    Finding,
    Ingredients,
    Lever,
    Member,
    Node,
    NodeSpec,
    NodeView,
    PartitionView,
    Range,
    RunCluster,
    UndoRecord,
)
from harness.protocols.operations import Client
from harness.protocols.runs import Promises

if TYPE_CHECKING:
    import pyarrow as pa

    from harness.protocols.clock import RunClock

PlanOf = TypeVar("PlanOf", bound=Plan, contravariant=True)
"""The plan as a target declares it."""

Say = Callable[[str], None]
"""Shows one line to the user; called from any thread."""

BallastChanges = Callable[..., Sequence[PartitionView] | None]
"""Called with `timeout_s`: the partitions whose leader or leader epoch differ from what it returned
the last time, `None` if the node does not answer."""

JSON: TypeAlias = "str | int | float | bool | list[JSON] | dict[str, JSON] | None"

EXEC: Final = "exec"
"""`workload.client` of a plan whose clients are processes of the user's: `ackloss run --client CMD`
runs one of CMD for each client, and they speak lines of JSON (docs/how-to/any-client.md)."""

COMMAND: Final = "a command of the user's"
"""What writes in such a plan, until its processes report it."""


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


@dataclass(frozen=True, kw_only=True)
class LogLines:
    """Which lines of nodes' logs a page shows: those that are dated and contain `relevant` and not
    `internal`.

    `events`: what a line means in a few words, the most telling first; the first that is found in
    the line counts. The words may name groups of the pattern, and `node`, which logged it; a group
    `p` is the partition."""

    relevant: re.Pattern[bytes]
    internal: re.Pattern[bytes]
    events: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, file: Traversable) -> LogLines:
        """Those of a table in TOML, with lists of patterns: `relevant` in any case where it says
        so."""
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        case = re.IGNORECASE if table.get("any_case") else re.NOFLAG
        return cls(
            relevant=re.compile("|".join(table["relevant"]).encode(), case),
            internal=re.compile("|".join(table["internal"]).encode()),
            events=tuple((pattern, words) for pattern, words in table["events"]),
        )


@dataclass(frozen=True, kw_only=True)
class SettingHelp:
    """A setting of a system or of its clients. `place`: the table of a plan that sets it;
    `refused`: why no plan may; `names`: what each client library calls it. `since`, `last`: the
    first and the last version that has it."""

    name: str
    level: str
    place: str
    values: str
    default: str
    since: str | None
    last: str | None
    names: Mapping[str, str]
    refused: str | None
    secret: bool
    help: str

    @property
    def versions(self) -> str:
        """The versions that have it, in words."""
        if self.last is None:
            return f"{self.since}+" if self.since else ""
        return self.last if self.last == self.since else f"{self.since} to {self.last}"


class Target(ABC, Generic[PlanOf]):
    """The system under test: its nodes, how it comes up, and its clients.

    A target overrides what is special about it. Where nothing sensible can be a default, such as
    the nodes of a cluster, the core asks `does` whether a target has the method. A system that is a
    server on each node inherits `harness.servers.ServerSystem`, which needs less.
    """

    plugin: ClassVar[str]
    plan: ClassVar[type[Plan]]
    """Its plan: a subclass with the sections and keys that are its own. Its properties `partitions`
    and `replicas` are those of this system (1 each, unless it overrides them)."""
    models: ClassVar[frozenset[str]]
    """The names of the models whose operations its clients serve (`harness.models`)."""
    up_within_s: ClassVar[float] = 180.0
    """How long its nodes may take to come up, on a busy machine."""
    observed_every_s: ClassVar[float] = 0.2
    """How long the observer waits after a node's answer: more, where a query costs it much."""
    observed_within_s: ClassVar[float] = 1.0
    """How long the observer waits for a node's answer: more, where the node waits for others."""
    starters: ClassVar[Mapping[str, str]] = {}
    """What `ackloss new` lets its user choose from: by name the rest of [target] and further
    sections of a plan, as TOML with comments, up to the first keys of [workload]."""
    libraries: ClassVar[tuple[str, ...]] = ()
    """The client libraries among which its plans choose by `workload.client`, without `EXEC`."""
    packages: ClassVar[tuple[str, ...]] = ()
    """The Python packages of its clients, whose versions `ackloss version` shows."""
    cell_keys: ClassVar[tuple[str, ...]] = ()
    """The keys of a plan that a cell of a run may change (`harness.plan.model`), dotted, with all
    that is below them. None: the system cannot hold several objects that share nothing but the
    cluster, such as the topics of a log. With the plan of a cell every method of the target is
    about that cell's object alone."""
    own_levers: ClassVar[frozenset[str]] = frozenset()
    """The names of its own levers, for what only this system can do."""
    record_types: ClassVar[Mapping[str, type[UndoRecord]]] = {}
    """The undo records of its own levers that the core does not have, by the lever's name. Another
    process undoes what a journal holds by them: a field that is added later needs a default."""
    default_version: ClassVar[str] = ""
    """The version that `ackloss prepare` makes unless another is named."""
    settings_files: ClassVar[Mapping[str, str]] = {}
    """The options of `ackloss run`, without dashes in front, that name the user's own settings
    files in the system's own format, each with its help."""
    setting_keys: ClassVar[Mapping[str, str]] = {}
    """The settings that have their own key in a plan, by name."""
    settings_places: ClassVar[Mapping[str, str]] = {}
    """The table of a plan that each group of settings is in (`requested`)."""
    sampler: ClassVar[str] = ""
    """The log, among `logs`, to which a sampler of the target's own writes the node's metrics
    (`harness.history.metrics`)."""
    alarms: ClassVar[Path | None] = None
    """The published alarm rules about these metrics, a TOML file (`checkers.judging.alarms`)."""
    causes: ClassVar[Mapping[str, str]] = {}
    """Why it may lose writes: the causes of `explain`, each with a sentence for its page."""
    defects: ClassVar[frozenset[str]] = frozenset()
    """Those of them that the system promises cannot happen."""

    @classmethod
    def does(cls, method: str) -> bool:
        """Whether it overrides a method that only some targets have."""
        return getattr(cls, method) is not getattr(Target, method)

    # Plans and settings.

    def check(self, plan: PlanOf) -> None:
        """Raise PlanError for what this system cannot do or a plan may not request."""
        return

    def warnings(self, plan: PlanOf) -> list[str]:
        """What a plan may request but probably does not intend: one sentence each, with the key
        first."""
        return []

    def unsupported(self, plan: PlanOf) -> list[Unsupported]:
        """What the plan requests and its version does not honour. Pure: nothing is started or
        queried."""
        return []

    def vocabulary(self) -> Vocabulary:
        """Its own selectors and conditions."""
        return Vocabulary(owner=self.plugin)

    def requested(self, plan: PlanOf) -> dict[str, Any]:
        """What the plan requests, in the groups of `effective`."""
        return {"settings": {}}

    def effective(self, cluster: Cluster, plan: PlanOf) -> dict[str, Any]:
        """Settings and features as the cluster itself reports them (`{"settings": {"broker": {...},
        ...}, "features": {...}}`), and `warnings` about what it cannot report, if there are any.
        Settings are in groups; a system without features leaves them out. It may add in the same
        groups: `origins`, who decided what neither the plan nor a default does, and `shortened`,
        the system's own time-outs where those in force are shorter.

        Raises PlanError when one that the plan requests is unknown to it or differs, TimeoutError
        when a node does not report it.
        """
        read = any(self.requested(plan)["settings"].values())
        return {
            "settings": {},
            "warnings": ["settings: not compared: this target cannot read them"] if read else [],
        }

    @abstractmethod
    def promises(self, plan: Mapping[str, Any], effective: Mapping[str, Any]) -> Promises:
        """What is promised for the operations of a run, from its plan.json and its effective
        settings. Pure; also used for stored runs.

        Raises KeyError, TypeError or ValueError for documents that are not a run's.
        """

    # Nodes. What runs in containers overrides `names`, `prepare` and `nodes`; what runs on hosts
    # `names`, `for_hosts` and `nodes`.

    def names(self, plan: PlanOf) -> list[str]:
        """The names of the nodes of a cluster for this plan."""
        raise NotImplementedError

    def prepare(self, plan: PlanOf, say: Say) -> Ingredients:
        """Build or find the image and everything else that nodes need; what takes long is reported
        by `say`.

        Raises PlanError (no such version), EnvironmentFailure (cannot be built or pulled).
        """
        raise NotImplementedError

    def for_hosts(self, plan: PlanOf, say: Say) -> Ingredients:
        """Fetch or build, on this machine, everything that hosts need to run it without an image
        (`Ingredients.folders`, `programs`); what takes long is reported by `say`.

        Raises PlanError for what hosts cannot run, EnvironmentFailure when it cannot be built.
        """
        raise NotImplementedError

    def nodes(
        self, plan: PlanOf, ingredients: Ingredients, addresses: Mapping[str, str]
    ) -> list[NodeSpec]:
        """The nodes of a cluster for this plan, `addresses` by node name. Pure. A dry run calls it
        too, with only the image in `ingredients`."""
        raise NotImplementedError

    def programs(self, plan: PlanOf) -> Mapping[str, PlanOf]:
        """What the plan's faults make of nodes, by name such as a version: the plan by which
        `prepare` and `nodes` then give a node its program. What it stores stays. Pure.

        Raises PlanError where no path leads there.
        """
        return {}

    def has_program(self, node: Node, plan: PlanOf) -> tuple[bool, str]:
        """Whether a node reports itself that it has the program of this plan, one of `programs`,
        and what it reports, a sentence."""
        raise NotImplementedError

    def running(self, node: Node, plan: PlanOf) -> str | None:
        """The versions of a node's servers and of what manages them, as their programs print them;
        `None`: only that of the image is known."""
        return None

    def levers(self, cluster: Cluster, plan: PlanOf) -> Mapping[str, Lever[Any]]:
        """Its own levers on this cluster by name, and those of the cluster to which it adds what it
        knows (how it stores, for instance), which replace the cluster's."""
        return {}

    @abstractmethod
    def bring_up(self, cluster: Cluster, plan: PlanOf, *, timeout_s: float) -> None:
        """Wait until every node has joined and what the workload writes to is fully replicated.

        Raises TimeoutError that names what is missing.
        """

    def to_restart(self, cluster: Cluster, plan: PlanOf) -> Sequence[str]:
        """The nodes that its manual tells an operator to restart, all at once, where a cluster has
        not recovered by itself although its replicas were waited for before the final read."""
        return ()

    def observe(self, node: Node, plan: PlanOf, *, timeout_s: float) -> NodeView | None:
        """Who leads, as this node alone reports it; `None` if it does not answer."""
        raise NotImplementedError

    def observe_cells(
        self, node: Node, plans: Sequence[PlanOf], *, timeout_s: float
    ) -> Sequence[NodeView | None]:
        """This node's view of the object of each cell's plan, in one look: what a run queries."""
        return [self.observe(node, plan, timeout_s=timeout_s) for plan in plans]

    def ballast(self, node: Node, plan: PlanOf) -> BallastChanges | None:
        """How this node is queried for who leads each of the partitions that only weigh on the
        cluster, which may be very many; `None`: there are none, or it does not know them."""
        return None

    def metrics(self, node: Node, plan: PlanOf, *, timeout_s: float) -> Mapping[str, float]:
        """What the node reports of itself, by the names of Prometheus' series; it is queried twice
        a second. Raises whatever it likes when the node does not answer."""
        raise NotImplementedError

    def logs(self, node: Node) -> dict[str, bytes]:
        """The node's log files worth keeping, by name."""
        return {}

    def copying(
        self, nodes: Sequence[Node], plans: Sequence[PlanOf], folder: Path, clock: RunClock
    ) -> AbstractContextManager[None]:
        """While it is entered, what nodes' logs lose is copied below a run's folder, into those
        of nodes, as it vanishes; `plans`: of the cells. No verdict rests on it."""
        return nullcontext()

    # Clients and readers.

    @abstractmethod
    def client(self, cluster: Cluster, plan: PlanOf) -> Client:
        """A client for the workload."""

    def why_no_crashes(self, plan: PlanOf) -> str | None:
        """Why this plan's clients cannot crash one by one, as far as that is known before anything
        starts."""
        return None

    def connection(self, cluster: Cluster, plan: PlanOf, number: int) -> Mapping[str, JSON]:
        """What a process of the user's that is client `number`, from 1, needs to know: addresses,
        names, settings. It is written to the run folder, so it holds no secret."""
        raise NotImplementedError

    def answers_within_s(self, plan: PlanOf) -> float:
        """How long an operation of such a process may take with the settings of the plan, in
        seconds; one that is not answered by then is blocked."""
        raise NotImplementedError

    def consumers(
        self, cluster: RunCluster, plan: PlanOf, group: GroupSettings, record: Record
    ) -> Consumers:
        """The consumers of a group; none is started yet. For the model `group`."""
        raise NotImplementedError

    def writer(self, plan: PlanOf) -> str:
        """The client library that writes, and its version."""
        return f"ackloss' client of {self.plugin}"

    def readers(self, plan: PlanOf) -> tuple[str, ...]:
        """What can read everything: the first reader, and the second opinion, which reads where the
        first one found something that breaks a promise. Python packages, or words for what differs
        between the two. The same twice for a system none of whose models has a final read. More
        than two are replicas, each of which is read in every run."""
        return self.writer(plan), self.writer(plan)

    def read_all(
        self, cluster: Cluster, plan: PlanOf, *, reader: str, timeout_s: float
    ) -> tuple[pa.Table, list[End]]:
        """Read every partition from its start to its end with the named client library.

        The table has the columns of `harness.history.READS` but `run_id`, and `reader` in each row;
        `time_ns` is on the monotonic clock, not yet counted from the run's start. There is an `End`
        for each partition: one that cannot be read has an `error`, and nothing is raised. Nodes may
        still be starting when this is called: it tries again, for `timeout_s` at most.
        """
        raise HarnessFailure(f"{self.plugin} serves no model that has a final read")

    def read_ranges(
        self,
        cluster: Cluster,
        plan: PlanOf,
        *,
        reader: str,
        ranges: Mapping[int, Sequence[Range]],
        timeout_s: float,
    ) -> tuple[pa.Table, list[End]]:
        """Read only what a counter-example depends on: these ranges of each partition (in order,
        apart from each other). Determines with the named library itself where the partition ends:
        as `read_all`, with the same `ranges` in each `End`, which is complete when every offset of
        them that has a record was read without an error, and `position` is the end that the library
        reached. A second reader that has no such method reads everything.
        """
        raise NotImplementedError

    # Cells and clusters that serve several runs.

    def of_cell(self, plan: PlanOf, name: str, number: int) -> Plan:
        """The plan of the cell with this name, the nth from 0, on a separate object. Pure.

        Raises PlanError for what cells cannot share.
        """
        raise NotImplementedError

    def cluster_key(self, plan: PlanOf) -> str | None:
        """Equal for plans that may be run on the same cluster, one after the other; `None`: it
        serves one run."""
        return None

    def fresh(self, plan: PlanOf, number: int) -> Plan:
        """The plan for the nth run on a cluster: nothing of it was there before."""
        raise NotImplementedError

    def forget(self, cluster: Cluster, plans: Sequence[PlanOf]) -> None:
        """Remove what a run has left: of each of its cells' plans, or of its own plan. Raises
        HarnessFailure if that fails."""
        return

    def reached_by(self, access: Access) -> GuestTarget[Any]:
        """The target on a cluster that ackloss did not start. Opens no connection.

        Raises PlanError for properties that it does not know, or that some of its client libraries
        do not have."""
        raise NotImplementedError

    # Pages: pure, and used for stored runs too.

    def log_lines(self) -> LogLines | None:
        """The lines of its nodes' logs that report elections and lost data."""
        return None

    def explain(self, folder: Path, lost: pa.Table) -> Sequence[Explanation]:
        """Why the acknowledged writes of `lost` were lost, from the evidence in the folder of a
        run or of one of its cells: each value in one explanation at most. What is in none is
        unexplained, with the facts that there are. `lost` has the columns of the checker's findings
        (`value`, `partition`, `offset`, `invoke_ns`, `complete_ns` ...), one row a write. With a
        column `state` the times are not those of an acknowledgement: "absent", those of a
        transaction; "delivered", when a consumer got it that the log lacks at the end.
        """
        return ()

    def coordinators(self, folder: Path) -> Sequence[Fact]:
        """Who was elected when to lead the partition that keeps the commits of a run's group, or of
        that of one of its cells, in order of time; nothing where no log says it."""
        return ()

    def removed(self, folder: Path) -> Removed | None:
        """What `copying` has left in the folder of a run or of one of its cells; `None` where it
        was not tried."""
        return None

    def size(self, plan: Mapping[str, Any]) -> list[str]:
        """The size of the cluster in words: `3 nodes`, `replication factor 3`."""
        return []

    def stored_request(self, plan: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """The settings that a plan.json requests, in the groups of `requested` and in the order in
        which a page shows them."""
        return {}

    def decisive(self) -> Sequence[tuple[str, str]]:
        """The settings that decide most losses, as group and key: the sentence under a headline
        names them, at their defaults too."""
        return ()

    # What the command line offers for it.

    def check_version(self, version: str, *, key: str) -> None:
        """Raise PlanError for a version that cannot be tested."""
        return

    def prepare_version(self, version: str, say: Say) -> str | None:
        """Build what runs of this version need, unless it exists; report what takes long. The
        versions that servers will have, where they are not `version`."""
        raise NotImplementedError

    def made(self, version: str) -> dict[str, bool]:
        """Whether each thing that is made once for a version exists, by its name for `ackloss
        doctor`."""
        return {}

    def listed_settings(self) -> Sequence[SettingHelp]:
        """All settings of the system, for `ackloss list settings`."""
        return ()

    def own_keys(self, plan: PlanOf, option: str, file: Path) -> list[OwnKey]:
        """Every key of a settings file, by the option that names it: `used` with its value and the
        keys of a plan that it sets, or why it is not. Raises PlanError for a file that cannot be
        read."""
        raise NotImplementedError

    def real_timeouts(self, plan: PlanOf) -> list[OwnKey]:
        """The system's own time-outs, where a plan or ackloss has shorter ones."""
        return []

    def same_key(self, plan: PlanOf, parts: tuple[str, ...]) -> tuple[str, ...]:
        """The name that `own_keys` has for a key of a plan that may be written in several ways."""
        return parts

    def reacts_within_s(self, plan: PlanOf) -> float:
        """How long, with the plan's time-outs, until what a fault leads to has happened."""
        return 0.0


class GuestTarget(Target[PlanOf]):
    """A target on a cluster that ackloss did not start: it creates its own objects there, and
    removes them."""

    @abstractmethod
    def adapted(self, document: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """A plan's document for this cluster: without what only concerns our own clusters, and with
        names for our objects that no other run uses. Also a sentence for each key that is left out.
        """

    @abstractmethod
    def objects(self, plan: PlanOf) -> tuple[str, ...]:
        """The names of what `Target.bring_up` will create there. Pure."""

    @abstractmethod
    def members(self, plan: PlanOf, *, timeout_s: float) -> list[Member]:
        """The nodes, as the cluster reports them.

        Raises EnvironmentFailure when it cannot be reached, or cannot do what the plan requests."""

    @abstractmethod
    def checkup(self, *, timeout_s: float) -> Sequence[Finding]:
        """Whether the cluster can be reached, who its nodes are, and whether our objects may be
        created there. Creates none."""

    @abstractmethod
    def remove(self, objects: tuple[str, ...], *, dry_run: bool) -> list[str]:
        """Remove these objects of ours, as far as they exist; returns what was removed, or would
        be.

        Raises EnvironmentFailure when the cluster cannot be reached, HarnessFailure when something
        remains."""

    @abstractmethod
    def ours(self) -> list[str]:
        """The names of all objects there that any ackloss created. Raises EnvironmentFailure."""

    @abstractmethod
    def close(self) -> None:
        """End its connections."""
