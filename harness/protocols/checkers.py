"""Checkers: from one run's history to what is wrong with it, in words that round no share to
nothing, or to everything."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    NamedTuple,
    Protocol,
    TypeVar,
    get_args,
    get_type_hints,
    runtime_checkable,
)

from harness.protocols.explanations import Explanation
from harness.protocols.runs import Bounds, Deliveries, Facts, Ints, Operations, Reads, Texts, Writes

if TYPE_CHECKING:
    import pyarrow as pa

Number = int | float | None
"""A count, or a rate or a time; `None` where there is nothing to count or to divide by."""


VALID, INVALID, UNKNOWN = "valid", "invalid", "unknown"
"""The verdicts."""


class _Doubts(NamedTuple):
    """The kinds of doubts, by what they are about."""

    failed: str = "failed"  # the harness or the setup broke
    interrupted: str = "interrupted"  # the user ended it
    vacuous: str = "vacuous"  # nothing was put to the test, so nothing could have been found
    unproven: str = "unproven"  # a requested fault is not proven
    unmet: str = "unmet"  # a step continued although its condition never held
    incomplete: str = "incomplete"  # not all of the evidence is there, or not all was read back
    replicas: str = "replicas"  # not every replica was in sync at the end
    starved: str = "starved"  # the load was not what the plan requests
    deleted: str = "deleted"  # the log begins above 0
    not_yet_visible: str = "not_yet_visible"  # acknowledged writes may stand beyond what was read
    readers: str = "readers"  # readers disagree, or only one of them saw a counter-example
    client: str = "client"  # clients that are processes of the user's broke their protocol
    undecided: str = "undecided"  # a checker reached its bound before it had an answer
    checker: str = "checker"  # a checker raised, or its process died


DOUBTS: Final = _Doubts()

OUTCOME_DOUBTS: Final = frozenset(
    {DOUBTS.not_yet_visible, DOUBTS.readers, DOUBTS.undecided, DOUBTS.client}
)
"""Doubts that depend on the outcome of operations: they do not make a run ineligible for
statistics."""


def counted(number: int, words: str) -> str:
    """A sentence about so many: `{n}` is the number, and of `[is|are]` the first stands for one."""
    chosen = re.sub(r"\[([^|\]]*)\|([^\]]*)\]", r"\1" if number == 1 else r"\2", words)
    return chosen.format(n=f"{number:,}")


def percent(share: float) -> str:
    """A number from 0 on as a percentage; it reads 0 % or 100 % only if it is exactly that. The
    rate of unacknowledged success may be more than 1."""
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    room = min(100 * share, abs(100 - 100 * share))
    return f"{100 * share:.{max(1, 1 - _magnitude(room))}f} %"


def points(difference: float) -> str:
    """A difference of two shares in percentage points, with its sign; it reads 0 only if it is
    exactly that."""
    if not difference:
        return "0"
    value = 100 * difference
    return f"{value:+.{max(1, -_magnitude(abs(value)))}f}".replace("-", "−")


def _magnitude(value: float) -> int:
    """The power of ten of the first significant digit."""
    return math.floor(math.log10(value))


class Statement(NamedTuple):
    """A counter-example, by the count that holds it or by its kind, or a doubt, by its kind of
    `DOUBTS`: a name for programs, and a sentence without a full stop for people."""

    name: str
    sentence: str


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """What one checker reports about one run.

    counts            at least `attempted` and `acknowledged`: writes that were begun, that ended
                      ok. Those that result.json has for a log (`lost` and so on) as int from 0 on;
                      others as int, float or `None`. 64 bits hold each int
    rates             shares of those counts, where the checker has any
    findings          one row per anomaly, with `run_id`, `kind` and further columns, or `None`;
                      where there may be very many, the first of each kind
    counter_examples  one is enough for `invalid`
    doubts            what keeps the run from being `valid`; also for an `invalid` run
    all_well          the sentence of a `valid` run, without a full stop
    details           what else a page shows, as JSON
    explanations      why each record was skipped, or processed again
    lost              the lost writes, where findings do not have them as a log's have: `value`,
                      `partition`, `offset`, `invoke_ns`, `complete_ns`; `state`: "aborted" where
                      the log has it, and not as committed

    A checker reports what it has found itself: `vacuous` if nothing was put to its test,
    `incomplete` if it needs something that was not read. Judging adds what applies to every run:
    unproven faults, missing evidence, a starved load. A result that breaks this contract gives
    the run the doubt `checker`, as does one that counts none of the writes of the history.
    """

    counts: Mapping[str, Number]
    rates: Mapping[str, float | None] = field(default_factory=dict)
    findings: pa.Table | None = None
    counter_examples: tuple[Statement, ...] = ()
    doubts: tuple[Statement, ...] = ()
    all_well: str = "nothing was found"
    details: Mapping[str, Any] = field(default_factory=dict)
    explanations: tuple[Explanation, ...] = ()
    lost: pa.Table | None = None


@dataclass(frozen=True, kw_only=True)
class PrimaryFinding:
    """What a checker primarily looks for. Statistics over many runs count the runs that have it.
    (In documents such runs are `lossy` and of the class `loss`, whatever it is.)

    counter_examples  the names of the counter-examples that are it; `None`: each of any name
    noun              "lost writes": as in "runs with lost writes"
    head              "lost": above shares of runs
    """

    counter_examples: tuple[str, ...] | None = None
    noun: str = "counter-examples"
    head: str = "invalid"

    def is_in(self, counter_examples: Iterable[str]) -> bool:
        """Whether one of a run's counter-examples, by name, is this finding."""
        names = set(counter_examples)
        return bool(names if self.counter_examples is None else names & {*self.counter_examples})


LOST_WRITES: Final = PrimaryFinding(counter_examples=("lost",), noun="lost writes", head="lost")
"""That of checkers which look for lost acknowledged writes."""


@dataclass(frozen=True)
class Count:
    """A count of a checker, or a kind of its findings: pages, tables, the command line and the lake
    use these words.

    name     of the count in result.json, or of the kind of finding
    label    "skipped": what it is called, beside its number
    meaning  "acknowledged records that were skipped": what is counted; says more than the label
    of       the count that it is a share of: statistics over many runs show that share
    among    the counts that it is a part of together, where only a headline shows the share
    proves   a counter-example is counted here under another name
    """

    name: str
    label: str
    meaning: str = ""
    of: str = ""
    among: tuple[str, ...] = ()
    proves: bool = False


def counter_examples(
    counts: Iterable[Count], numbers: Mapping[str, Number]
) -> tuple[Statement, ...]:
    """Those above 0, in the words of their meaning, and their share of what they are among."""
    found = list[Statement]()
    for each in counts:
        if number := numbers.get(each.name):
            whole = sum(numbers.get(name) or 0 for name in each.among)
            share = f" of {whole:,} ({percent(number / whole)})" if whole else ""
            found.append(Statement(each.name, f"{each.meaning}: {number:,}{share}"))
    return tuple(found)


def findings_table(row: type[Any], rows: Iterable[Any], *, run_id: str) -> pa.Table:
    """Findings as a table: `run_id`, then a column for each field of the NamedTuple `row`, the
    first of which is `kind`: int or str, null only where its type has None. Of a field's name a
    last underscore is left out."""
    import pyarrow as pa

    columns = [pa.field("run_id", pa.string(), nullable=False)]
    for name, of in get_type_hints(row).items():
        types = get_args(of) or (of,)
        column = pa.int64() if int in types else pa.string()
        columns.append(pa.field(name.removesuffix("_"), column, nullable=type(None) in types))
    schema = pa.schema(columns)
    found = [dict(zip(schema.names, (run_id, *each), strict=True)) for each in rows]
    made = [pa.RecordBatch.from_pylist(found, schema=schema)] if found else []
    return pa.Table.from_batches(made, schema=schema)  # of no rows Arrow makes one without pandas


def rates(attempted: int, acknowledged: int, lost: int, found: int) -> dict[str, float | None]:
    """The rates of the loss checker, `None` where there is nothing to divide by: acknowledged
    writes of all, the lost of the acknowledged, and those that were `found` unacknowledged."""
    parts = {
        "ack": (acknowledged, attempted),
        "loss": (lost, acknowledged),
        "unacknowledged_success": (found, acknowledged),
        "unacknowledged_success_of_unacknowledged": (found, attempted - acknowledged),
    }
    return {name: part / whole if whole else None for name, (part, whole) in parts.items()}


ENDED: Final = (
    Count("acknowledged", "acknowledged"),
    Count("failed", "failed"),
    Count("unknown", "unknown"),
)
"""How writes ended."""


class Run(Protocol):
    """One run's facts and rows. Rows come one part after the other and may be read again; each
    method raises HistoryError for a part that cannot be read."""

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """Everything that is small."""

    @abstractmethod
    def writes(self, *, holding: Callable[[Texts, Ints], bool] | None = None) -> Iterator[Writes]:
        """The operations that are writes of the run's model. Parts for whose keys and values
        `holding` is false may be left out; it may be called in another thread."""

    @abstractmethod
    def operations(self) -> Iterator[Operations]:
        """All operations of the run's model, in the order in which they were recorded."""

    @abstractmethod
    def reads(self) -> Iterator[Reads]:
        """The records of the final read, of all readers."""

    @abstractmethod
    def deliveries(self) -> Iterator[Deliveries]:
        """What the consumers of a group did; none if there is no group."""

    @abstractmethod
    def things(self) -> Iterator[tuple[Texts, Ints]]:
        """The keys and values of all writes and records."""

    @abstractmethod
    def bounds(self) -> Bounds:
        """Those of all keys and values, as files state them of their rows. They may be wrong."""


Shard = TypeVar("Shard")
Part = TypeVar("Part")


@runtime_checkable
class Checker(Protocol[Shard, Part]):
    """A pure function from one run's history to findings, in shards that merge exactly.

    A run is judged by `merge(run, [check(run, shard) for shard in shards(run)])`; shards are
    independent, so that one run can be distributed to several processes. A shard and its part are
    pickled. What it raises is a doubt of this run, and of no other; HistoryError means that the
    run's files cannot be used.
    """

    plugin: ClassVar[str]
    models: ClassVar[frozenset[str]]
    """The names of the models that it judges (`harness.models`)."""
    reads_each_node: ClassVar[bool] = False
    """Whether it needs final reads from each node: then no client goes on to another."""
    title: ClassVar[str] = ""
    """Above its section of the page."""
    primary: ClassVar[PrimaryFinding] = PrimaryFinding()
    """By default all counter-examples count the same."""
    counts: ClassVar[tuple[Count, ...]] = ()
    """Its counts and kinds of finding, in the order in which they are shown. What is not declared
    is shown by its name."""
    short: ClassVar[tuple[str, ...]] = ()
    """The names of the few counts that say most; by default all."""

    @abstractmethod
    def shards(self, run: Run) -> Sequence[Shard]:
        """How to divide a run: one shard unless it is too large for one core."""

    @abstractmethod
    def check(self, run: Run, shard: Shard) -> Part:
        """Judge one shard."""

    @abstractmethod
    def merge(self, run: Run, parts: Sequence[Part]) -> CheckResult:
        """The result of all parts together: the same, no matter how the run was divided."""


class OneShard(Checker[None, Part], Protocol[Part]):
    """A checker that reads a run's rows once, in one shard: for what cannot be divided, or is no
    more work than one pass."""

    @abstractmethod
    def gather(self, run: Run) -> Part:
        """What the rows show."""

    @abstractmethod
    def judge(self, run: Run, gathered: Part) -> CheckResult:
        """What follows from it."""

    def shards(self, run: Run) -> Sequence[None]:
        """One."""
        return [None]

    def check(self, run: Run, shard: None) -> Part:
        """Gather."""
        return self.gather(run)

    def merge(self, run: Run, parts: Sequence[Part]) -> CheckResult:
        """Judge what was gathered."""
        (gathered,) = parts
        return self.judge(run, gathered)
