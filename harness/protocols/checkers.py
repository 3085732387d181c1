"""Checkers: from one run's history to what is wrong with it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    NamedTuple,
    Protocol,
    TypeVar,
    runtime_checkable,
)

from harness.protocols.runs import Facts, Ints, Operations, Reads, Texts, Writes

if TYPE_CHECKING:
    import pyarrow as pa

Number = int | float | None
"""A count, or a rate or a time; `None` where there is nothing to count or to divide by."""


VALID, INVALID, UNKNOWN = "valid", "invalid", "unknown"
"""The verdicts."""


class _Doubts(NamedTuple):
    """The kinds of doubts, by what they are about."""

    failed: str = "failed"  # the harness or the set-up broke
    interrupted: str = "interrupted"  # the user ended it
    vacuous: str = "vacuous"  # nothing was put to the test, so nothing could have been found
    unproven: str = "unproven"  # a fault asked for is not proven
    unmet: str = "unmet"  # a step went on though its condition never held
    incomplete: str = "incomplete"  # not all of the evidence is there, or not all was read back
    replicas: str = "replicas"  # not every replica was in sync at the final read
    starved: str = "starved"  # the load was not what the plan asks for
    deleted: str = "deleted"  # the log begins above 0
    not_yet_visible: str = "not_yet_visible"  # acknowledged writes may stand beyond what was read
    readers: str = "readers"  # readers disagree, or only one of them saw a counter-example
    undecided: str = "undecided"  # a checker reached its bound before it had an answer
    checker: str = "checker"  # a checker raised, or its process died


DOUBTS: Final = _Doubts()

OUTCOME_DOUBTS: Final = frozenset({DOUBTS.not_yet_visible, DOUBTS.readers, DOUBTS.undecided})
"""Doubts that depend on what became of operations: they make no run ineligible for statistics."""


class Statement(NamedTuple):
    """A counter-example, by the count that holds it, or a doubt, by its kind: a name for programs,
    and a sentence without a full stop for people."""

    name: str
    sentence: str


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """What one checker says of one run.

    counts            in the words of result.json; `attempted` and `acknowledged` at least
    rates             shares of those counts, where the checker has any
    findings          one row an anomaly (`run_id`, `kind`, ...), or `None`
    counter_examples  one is enough for `invalid`
    doubts            what keeps the run from being `valid`; of an `invalid` run too
    all_well          the sentence of a `valid` run
    details           what else a page shows, as JSON
    """

    counts: Mapping[str, Number]
    rates: Mapping[str, float | None] = field(default_factory=dict)
    findings: pa.Table | None = None
    counter_examples: tuple[Statement, ...] = ()
    doubts: tuple[Statement, ...] = ()
    all_well: str = "nothing was found"
    details: Mapping[str, Any] = field(default_factory=dict)


class Run(Protocol):
    """One run's facts and rows. Rows come part after part and may be gone over again; each method
    raises HistoryError for a part that cannot be read."""

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """Everything that is small."""
        ...

    @abstractmethod
    def writes(self) -> Iterator[Writes]:
        """The operations that are writes of the run's model."""
        ...

    @abstractmethod
    def operations(self) -> Iterator[Operations]:
        """All operations of the run's model, in the order in which they were recorded."""
        ...

    @abstractmethod
    def reads(self) -> Iterator[Reads]:
        """The records of the final read, of all readers."""
        ...

    @abstractmethod
    def things(self) -> Iterator[tuple[Texts, Ints]]:
        """The keys and values of all writes and records."""
        ...


Shard = TypeVar("Shard")
Part = TypeVar("Part")


@runtime_checkable
class Checker(Protocol[Shard, Part]):
    """A pure function from one run's history to findings, in shards that merge exactly.

    A run is judged by `merge(run, [check(run, shard) for shard in shards(run)])`; shards are
    independent, so that one run can be dealt out to several processes. A shard and its part are
    pickled. What `check` raises makes this run `unknown`, and no other; HistoryError says that the
    run's files cannot be used.
    """

    plugin: ClassVar[str]
    models: ClassVar[frozenset[str]]
    """The names of the models that it judges (`harness.models`)."""

    @abstractmethod
    def shards(self, run: Run) -> Sequence[Shard]:
        """How to divide a run: one shard unless it is too large for one core."""
        ...

    @abstractmethod
    def check(self, run: Run, shard: Shard) -> Part:
        """Judge one shard."""
        ...

    @abstractmethod
    def merge(self, run: Run, parts: Sequence[Part]) -> CheckResult:
        """What all parts say together: the same, however the run was divided."""
        ...
