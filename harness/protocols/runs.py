"""One run as a checker sees it: facts that are small, and rows as numpy columns.

Null numbers are NULL; texts are codes into a list of names, null is -1. Times are nanoseconds since
the run's start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt
import orjson
from pydantic import PositiveInt, TypeAdapter, ValidationError

from harness.errors import HistoryError

# What clients that are processes of the user's (`workload.client = "exec"`) did in a run.


class _Kinds(NamedTuple):
    """How a process can violate the protocol."""

    lie: str = "lie"  # a line that it may not write, or an answer to no request
    flood: str = "flood"  # a line, or a log, beyond every limit
    hang: str = "hang"  # it says nothing, or does not end
    death: str = "death"  # it ended by itself, or did not start
    blocked: str = "blocked"  # it left an operation without an answer, and answered others


INCIDENTS: Final = _Kinds()
T = TypeVar("T")


def _stored(kind: type[T], name: str, document: Mapping[str, Any]) -> T:
    """What a key of run.json holds. Raises ValueError, which names what is wrong."""
    try:
        return TypeAdapter(kind).validate_json(orjson.dumps(document), strict=True)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        place = ".".join(map(str, (name, *wrong["loc"])))
        raise ValueError(f"{place} is {wrong['input']!r}") from error


@dataclass(frozen=True, kw_only=True)
class Incident:
    """One thing that client `client` did, `at_s` seconds after the run's start."""

    client: int
    at_s: float
    kind: str
    what: str


@dataclass(frozen=True, kw_only=True)
class Conduct:
    """What the processes of the user's did in one run, as run.json and result.json hold it.

    command    the command line of `--client`
    software   the library and its version, as the processes report it
    started    how many processes were started, restarts included
    lies, floods, hangs, deaths, blocked   how often each of `INCIDENTS` happened
    late       blocked operations that were answered after all; they are a part of `blocked`
    ended      operations that were in flight in a process that ended, and so are unknown
    incidents  the first of them
    """

    command: tuple[str, ...] = ()
    software: str = ""
    started: int = 0
    lies: int = 0
    floods: int = 0
    hangs: int = 0
    deaths: int = 0
    blocked: int = 0
    late: int = 0
    ended: int = 0
    incidents: tuple[Incident, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How often each kind of incident happened, by the names of the fields."""
        return {name: getattr(self, name) for name in COUNTED}

    @property
    def clean(self) -> bool:
        """Whether they kept to the protocol, lived, and answered everything."""
        return not any(self.counts.values())

    @property
    def sentence(self) -> str:
        """What they did, in words; for clean ones, that they kept to the protocol."""
        counts = self.counts.items()
        found = [f"{n:,} {COUNTED[name]}{'s' if n > 1 else ''}" for name, n in counts if n]
        return ", ".join(found) or "kept to the protocol"

    def document(self) -> dict[str, Any]:
        """As run.json holds it."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """From run.json; fields of later versions are ignored. Raises ValueError for a malformed
        document."""
        return _stored(cls, "clients", document)


COUNTED: Final = {
    "lies": "lie",
    "floods": "flood",
    "hangs": "hang",
    "deaths": "death",
    "blocked": "blocked operation",
}
"""The fields of `Conduct` that count incidents, with the words for one."""


@dataclass(frozen=True, kw_only=True)
class Promises:
    """What a target's settings promise the operations of a run: what checkers hold it to.

    model         the name of the operations' model (`harness.models`)
    acknowledges  an `ok` acknowledges a write; where false it says only that the write was sent
    once          a write is stored at most once, however often its client sends it
    deletes       the plan lets the system delete what it acknowledged (retention, clocks)
    partitions    how many logs the values are spread over, numbered from 0
    replicas      how many replicas of each are in sync when all are
    clients       how many real clients the processes share
    producers     process p sends through client p modulo this, which sends in the order in which
                  writes begin; 0: each process sends by itself, one write after the other
    ordered       what one producer sends to a partition is stored in the order of its sending
    readers_are_replicas  each reader of the final read reads its own replica: two complete
                  ones that differ contradict the system, and not a client library
    """

    model: str = "log"
    acknowledges: bool = True
    once: bool = False
    deletes: bool = False
    partitions: PositiveInt = 1
    replicas: PositiveInt = 1
    clients: PositiveInt = 1
    producers: int = 0
    ordered: bool = False
    readers_are_replicas: bool = False

    def document(self) -> dict[str, Any]:
        """As run.json holds it."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """From run.json; fields of later versions are ignored. Raises ValueError for a value of
        another type, and for a number of nothing: all of no replicas are always in sync."""
        return _stored(cls, "promises", document)


DONE: Final = "done"
"""The state of a run that came to its end."""

FAILED: Final = "failed"
"""The state of a run that could not."""

Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bits = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

INT64: Final = range(-(2**63), 2**63)
NULL: Final = -(2**63)


class _Marks(NamedTuple):
    """What a row states about an operation: that it began, how it ended, or that it was read."""

    invoked: int = 1
    ok: int = 2
    fail: int = 4
    info: int = 8
    read: int = 16


MARKS: Final = _Marks()
"""The values of a column `mark`, bits that add up. They are numbers: `"ok"`, as a completion has
it, equals none of them."""

INVOKED, OK, FAIL, INFO, READ = MARKS


class Texts(NamedTuple):
    """A column of text: `names[code]`, or null where the code is -1."""

    codes: Int32s
    names: list[str]

    @classmethod
    def nulls(cls, rows: int) -> Self:
        """So many rows without a text."""
        return cls(np.full(rows, -1, np.int32), [])

    def places(self, names: Sequence[str]) -> Ints:
        """The place of each text in `names`, which holds all of them; -1 for null."""
        place = {name: number for number, name in enumerate(names)}
        return np.array([*(place[name] for name in self.names), -1], np.int64)[self.codes]

    def isin(self, names: Iterable[str]) -> Bools:
        """Which rows hold one of `names`."""
        wanted = set(names)
        return np.array([*(name in wanted for name in self.names), False])[self.codes]

    def objects(self) -> npt.NDArray[np.object_]:
        """The column as Python strings, `None` for null."""
        return np.array([*self.names, None], dtype=object)[self.codes]


class Bounds(NamedTuple):
    """How many rows there are at most, whether any may have a key, and between which integers their
    values are."""

    rows: int
    keyed: bool
    least: int
    most: int

    @classmethod
    def none(cls) -> Self:
        """Of no rows."""
        return cls(0, False, 0, -1)

    @classmethod
    def of(cls, things: Iterable[tuple[Texts, Ints]]) -> Self:
        """Of all these keys and values."""
        rows, keyed = 0, False
        least, most = 2**63, -(2**63)
        for key, value in things:
            if len(value):
                rows += len(value)
                least, most = min(least, int(value.min())), max(most, int(value.max()))
                keyed = keyed or bool((key.codes >= 0).any())
        return cls(rows, keyed, least, most) if rows else cls.none()


class Writes(NamedTuple):
    """Rows of HISTORY that are writes: one for each that was begun, and one for how it ended, in
    the order of the history. `mark` is one of MARKS: invoked, ok, fail or info."""

    key: Texts
    value: Ints
    mark: Bits
    process: Ints
    partition: Ints
    offset: Ints
    error: Texts
    intended_ns: Ints
    time_ns: Ints

    @property
    def delay_ns(self) -> Ints:
        """From the instant at which the write was due: to its answer, this is its latency; to its
        invocation, the lateness of the load generator. Counted from the due time, a stall cannot
        hide behind clients that wait for it (coordinated omission)."""
        return self.time_ns - self.intended_ns


class Lists(NamedTuple):
    """A column of lists: row i holds `values[starts[i]:starts[i + 1]]`; `present` where it has a
    list at all."""

    starts: Ints
    values: Ints
    present: Bools


class Operations(NamedTuple):
    """Rows of HISTORY but the nemesis', two for each operation as in `Writes`. `place` is the index
    in the history."""

    place: Ints
    f: Texts
    key: Texts
    value: Ints
    expected: Ints
    result: Ints
    elements: Lists
    mark: Bits
    process: Ints
    partition: Ints
    offset: Ints
    node: Texts
    error: Texts
    intended_ns: Ints
    time_ns: Ints

    def returned(self, row: int, *, file: str | None) -> Ints:
        """The list that the ok read of a row returned. Raises HistoryError where it has none."""
        lists = self.elements
        if not lists.present[row]:
            raise HistoryError(
                f"the ok read at {self.place[row]} has no list of elements",
                file=file,
                key="elements",
                hint="record what each ok read returned; an empty set is an empty list",
            )
        return lists.values[lists.starts[row] : lists.starts[row + 1]]


class Reads(NamedTuple):
    """Rows of READS: records that a reader returned; several readers may return the
    same."""

    reader: Texts
    key: Texts
    value: Ints
    partition: Ints
    offset: Ints


class Deliveries(NamedTuple):
    """Rows of DELIVERIES: what the consumers of a group did (`harness.protocols.groups`)."""

    f: Texts
    begun_ns: Ints
    time_ns: Ints
    mark: Bits
    consumer: Texts
    life: Ints
    member: Texts
    generation: Ints
    partition: Ints
    offset: Ints
    value: Ints
    node: Texts
    error: Texts


class HasProof:
    """The proof of a fault in a word, as the terminal, pages and figures call it."""

    from_s: float | None
    proven: bool
    claimed: bool
    control: bool

    @property
    def proof(self) -> str:
        """Whether it is proven to have been in force; a control was, and changed nothing."""
        if self.proven or self.control:
            return "proven" if self.proven else "control"
        if self.from_s is None:
            return "never in force"
        return "claimed, not proven" if self.claimed else "NOT PROVEN"

    @property
    def doubtful(self) -> bool:
        """Whether it was in force as far as its acts tell, and that is not proven."""
        return self.from_s is not None and not self.proven and not self.control


@dataclass(frozen=True, kw_only=True)
class FaultWindow(HasProof):
    """One fault as result.json and the page show it; times in seconds since the run's start.

    `from_s` is null when the fault was skipped or never came into force, `to_s` when it was never
    seen to heal. `begun_s` is when its first act was begun: before `from_s`, by as long as its acts
    took; null when it was skipped or had no act. `met` is null for a step that waited for nothing.
    `proven` holds only if every probe, while it was in force and after it was healed, confirmed it,
    and it affected something of the system: `touched` is how much, in the unit of its lever (null:
    its lever does not count). `claimed`: an operator states that it was in force, and nothing
    proves it. `control`: it passed everything on, as its probes confirm, so it proves nothing.
    `unproven`: why it is not proven although it was in force; empty if it is.
    """

    id: str
    nemesis: str
    from_s: float | None
    to_s: float | None
    nodes: list[str]
    met: bool | None
    proven: bool
    evidence: list[str]
    why: str
    touched: int | None = None
    claimed: bool = False
    control: bool = False
    begun_s: float | None = None
    unproven: str = ""


class Gaps(NamedTuple):
    """What is missing or not as it was written, one sentence each; false if nothing is.

    `history`: operations may be missing: counts of writes are lower bounds, and a value that is
    read although it was never written proves nothing. `reads`: records may be missing: no write
    counts as lost. `other`: the plan, the run's metadata or its journal of faults. `aside`: node
    logs and observations, on which no verdict depends: reported, but not a doubt.
    """

    history: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """All that a verdict must not ignore, each once."""
        return tuple(dict.fromkeys((*self.history, *self.reads, *self.other)))

    def __bool__(self) -> bool:
        return bool(self.sentences)


class Verified(NamedTuple):
    """Ranges of offsets, each from the first to the one after the last, that a reader read without
    an error, up to the end that the partition's complete readers reached."""

    reader: str
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class PartitionEnd:
    """How far one partition was read.

    `read_to` is the first offset that was not read, `log_start` the first that still was there;
    None where no reader knew. `readers`: those that read it to its end without an error; only what
    they read shows what is there. `complete`: there is one, or the history itself is the reader;
    `whole`: and every replica was in sync then. `error`: why no reader was complete, where known.
    `verified`: what other readers read of it, and not all: only `ranges` of offsets.
    """

    partition: int
    log_start: int | None = None
    read_to: int | None = None
    complete: bool
    whole: bool
    readers: tuple[str, ...] = ()
    error: str | None = None
    verified: tuple[Verified, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ScriptedFault:
    """One step of the plan that requests a fault. `may_skip`: it has `else = "skip"`."""

    id: str
    may_skip: bool = False


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One run: where its rows are, and everything else that its verdict depends on.

    `starved`: why the load was not what was requested; `forced`: what it requested of a version
    that does not honour it. `timed`: rows have times. `one_reader`: a history from
    outside, whose only read is its own; in a run, two libraries must agree on a counter-example.
    `drawn`: the requested faults were drawn at random. `gaps`: what is missing from its folder.
    `outside`: the file of a history from outside, which has no `folder`. `simulated`: nothing real
    was tested. `final_from_ns`: operations that were due from then on belong to the workload's
    final scripts, and not to the load; None where it has none. `clients`: what clients that are
    processes of the user's did; None if there are none. `texts`: what numbers of
    micro-operations stand for (`harness.models.micro_ops`). `replicated`: by partition, whether
    every replica was in sync at the end (as the nodes said when the final read began, or its
    complete readers as they ended), None where no node says; of a system whose nodes say nothing of
    it, empty. `holders`: the nodes that hold the data, as far as nodes say it. `attempted`: how
    many operations the run counted itself; `rows`: how many its history and its reads have; None of
    a history from outside. `footers`: those of its Parquet files that were opened before and are
    few enough to be kept.
    """

    run_id: str
    folder: Path | None = None
    outside: Path | None = None
    history: tuple[Path, ...]
    reads: tuple[Path, ...]
    deliveries: tuple[Path, ...] = ()
    ends: tuple[PartitionEnd, ...]
    plan: str | None = None
    seed: int | None = None
    promises: Promises = field(default_factory=Promises)
    state: str = DONE
    error: str | None = None
    starved: str | None = None
    forced: tuple[str, ...] = ()
    faults: tuple[ScriptedFault, ...] = ()
    drawn: bool = False
    windows: tuple[FaultWindow, ...] = ()
    timed: bool = True
    one_reader: bool = False
    gaps: Gaps = field(default_factory=Gaps)
    replicated: Mapping[int, bool | None] = field(default_factory=dict)
    holders: frozenset[str] = frozenset()
    simulated: bool = False
    texts: tuple[str, ...] = ()
    final_from_ns: int | None = None
    timings: Mapping[str, float | None] = field(default_factory=dict)
    clients: Conduct | None = None
    attempted: int | None = None
    rows: int | None = None
    footers: Mapping[Path, Any] = field(default_factory=dict, repr=False)

    @property
    def source(self) -> str:
        """What an error about its rows names as their file."""
        return str(self.folder or self.outside or self.run_id)

    @property
    def read_whole(self) -> bool:
        """Whether every partition was read to its end."""
        return self.promises.partitions > 0 and all(
            any(end.partition == partition and end.complete for end in self.ends)
            for partition in range(self.promises.partitions)
        )
