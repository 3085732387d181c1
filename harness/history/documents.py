"""result.json and run.json as typed documents, for every stage that reads a stored run.

Fields are only ever added, so each field that an earlier ackloss did not write has a default that
means "not recorded": `None`, or empty. Fields that this ackloss does not know are ignored. A field
of the wrong type makes a document unusable: it may have been edited, and a guess would be counted.

Counts and rates are defined here once. `Rates.of` computes the rates of the 2013 experiment.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import orjson
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from harness.errors import HistoryError
from harness.history.run_folder import RunDir
from harness.models import LOG, MODELS
from harness.plan.model import Yours
from harness.protocols.checkers import rates
from harness.protocols.explanations import DELIVERY_CAUSES
from harness.protocols.runs import DONE, FAILED, INT64, Conduct, HasProof
from harness.protocols.systems import Unsupported
from harness.wrong_values import expected, first_of

Integer = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""As large as the columns of tables are."""
Count = Annotated[Integer, Field(ge=0)]
Interval = tuple[float, float]


def _known_model(name: str) -> str:
    if name not in MODELS:
        raise ValueError(f"no model that this ackloss knows: {', '.join(MODELS)}")
    return name


def _known_verdict(name: str) -> str:
    if name not in VERDICTS:
        raise ValueError(f"no verdict that this ackloss knows: {', '.join(VERDICTS)}")
    return name


def _within_64_bits(number: float | None) -> float | None:
    if isinstance(number, int) and number not in INT64:
        raise ValueError("expected a number that 64 bits hold")
    return number


_LEADERS_SHOWN: Final = 8
"""Of more partitions only the number is reported."""

VERDICTS: Final = ("valid", "invalid", "unknown")
VerdictName = Annotated[str, AfterValidator(_known_verdict)]
ModelName = Annotated[str, AfterValidator(_known_model)]
AnyCount = Annotated[int | float | None, AfterValidator(_within_64_bits)]
"""What a checker counts in its own words."""

KILLED: Final = "killed"
"""The state of a run whose process ended without noting how; no run.json holds it."""
_ENDED: Final = (DONE, FAILED, "interrupted")

CONCLUSIVE: Final = ("valid", "invalid")
"""The verdicts with which it is known how many writes were lost."""

LOST_KINDS: Final = ("lost", "deleted")
"""The kinds of findings that `counts.lost` counts."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How many values of a run ended in each way. A count that is absent is 0, but `swapped`, which
    is then not known."""

    attempted: Count = 0
    acknowledged: Count
    sent: Count = 0
    failed: Count = 0
    unknown: Count = 0
    survivors: Count = 0
    lost: Count
    unacknowledged_found: Count = 0
    failed_found: Count = 0
    unknown_found: Count = 0
    duplicates: Count = 0
    duplicates_acknowledged: Count = 0
    duplicates_unknown: Count = 0
    unexpected: Count = 0
    not_yet_visible: Count = 0
    deleted: Count = 0
    swapped: Count | None = None
    lost_unacknowledged: Count = 0

    @property
    def lost_acknowledged(self) -> int:
        """The lost values that were acknowledged: with some checks a value that was read, and later
        is not, is lost although it was not acknowledged."""
        return self.lost - self.lost_unacknowledged


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Shares of a run's counts; `None` where the denominator is 0."""

    ack: float | None = None
    loss: float | None = None
    unacknowledged_success: float | None = None
    failed_success: float | None = None
    unknown_success: float | None = None
    unacknowledged_success_of_unacknowledged: float | None = None

    @classmethod
    def of(cls, counts: Counts) -> Rates:
        """The three rates of the 2013 experiment; then unacknowledged success by how the client
        saw the write end, and as a share of all attempts without acknowledgement."""
        acknowledged = counts.acknowledged
        return cls(
            **rates(counts.attempted, acknowledged, counts.lost, counts.unacknowledged_found),
            failed_success=counts.failed_found / acknowledged if acknowledged else None,
            unknown_success=counts.unknown_found / acknowledged if acknowledged else None,
        )


@dataclass(frozen=True, kw_only=True)
class Availability:
    """What clients saw of the cluster; `None` where nothing was measured."""

    longest_gap_s: float | None = None
    fault_s: float | None = None
    recovered: bool | None = None
    recovery_s: float | None = None
    refused: Count | None = None
    unknown: Count | None = None
    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None
    lateness_p99_ms: float | None = None


@dataclass(frozen=True, kw_only=True)
class FaultResult(HasProof):
    """One fault of the run: when it was in force, and whether it is proven. `begun_s` and `control`
    are not in the results of older versions, which call a control proven."""

    id: str
    proven: bool
    nemesis: str = ""
    from_s: float | None = None
    to_s: float | None = None
    nodes: tuple[str, ...] = ()
    met: bool | None = None
    evidence: tuple[str, ...] = ()
    touched: Integer | None = None
    ops_begun: Integer | None = None
    ops_acknowledged: Integer | None = None
    claimed: bool = False
    control: bool = False
    begun_s: float | None = None
    unproven: str = ""


@dataclass(frozen=True, kw_only=True)
class LostSpan:
    """The lost writes of one client, numbered from 1, or of all clients (`None`). The intervals
    run from the first lost write to the last, in seconds since the run's start."""

    client: int | None
    lost: Count
    begun_s: Interval | None = None
    acknowledged_s: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class ErrorCodes:
    """How many writes failed, or ended unknown, with each error code."""

    failed: Mapping[str, Count] = field(default_factory=dict)
    unknown: Mapping[str, Count] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MetLeader:
    """A fault: who led while it was in force, and whether it met one of them; `met` is `None` if no
    leader is known. `partitions`: those whose leader it met (`None`: of the only one), and
    `moved_to` who led them next while it was in force; `None`: not recorded."""

    fault: str
    leaders: tuple[str, ...] = ()
    met: bool | None = None
    partitions: tuple[Integer, ...] | None = None
    moved_to: tuple[str, ...] | None = None

    @property
    def sentence(self) -> str | None:
        """Which leaders it met, in words; `None` if that is not known."""
        if self.met is None:
            return None
        names = [f"p{each}" for each in self.partitions or ()]
        more = len(names) - _LEADERS_SHOWN
        shown = ", ".join(names[:_LEADERS_SHOWN]) + (f" and {more} more" if more > 0 else "")
        text = "met the leader" + ("" if self.met and not shown else f" of: {shown or 'none'}")
        if self.moved_to is None or not (self.met or self.moved_to):
            return text
        return f"{text}; led next by {', '.join(self.moved_to) or 'no other'}"


@dataclass(frozen=True, kw_only=True)
class _Judged:
    """What is said of a run, and of each cell of one that holds several; see `RunResult`."""

    verdict: VerdictName
    counts: Counts
    reason: str | None = None
    counter_examples: tuple[str, ...] | None = None
    doubts: tuple[str, ...] | None = None
    eligible: bool | None = None
    complete: bool | None = None
    rates: Rates = Rates()
    causes: Mapping[str, Count] = field(default_factory=dict)
    unexplained: Count | None = None
    not_examined: Count | None = None
    survivable: Count | None = None
    leaders: tuple[MetLeader, ...] | None = None

    @property
    def leader_met(self) -> bool | None:
        """Whether any fault met a leader; `None` if that is not known."""
        known = [each.met for each in self.leaders or () if each.met is not None]
        return any(known) if known else None


@dataclass(frozen=True, kw_only=True)
class CellResult(_Judged):
    """One cell of a run that holds several. `overrides`: the keys of the plan that it changes."""

    name: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    expect: str | None = None
    leaders: tuple[MetLeader, ...] = ()

    @property
    def met_by(self) -> tuple[str, ...]:
        """The faults that met who led it."""
        return tuple(each.fault for each in self.leaders if each.met)


@dataclass(frozen=True, kw_only=True)
class CheckRecord:
    """What one checker reports. `counts` and `rates` use its names; `details` is what a page shows
    besides."""

    name: str
    verdict: str
    counts: Mapping[str, AnyCount] = field(default_factory=dict)
    rates: Mapping[str, float | None] = field(default_factory=dict)
    counter_examples: tuple[tuple[str, str], ...] = ()
    doubts: tuple[tuple[str, str], ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """What became of an alarm rule in a run, in seconds from its start; `why_not`: why it was not
    evaluated.

    held_s   when its condition first held
    fired_s  when it fires: the median over the phases of the scrape in which it does
    chance   the share of phases in which it does
    before_first_loss_s  how long before the first write that is lost was acknowledged; negative:
             after it
    """

    rule: str
    source: str
    held_s: float | None = None
    fired_s: float | None = None
    chance: float | None = None
    before_first_loss_s: float | None = None
    why_not: str | None = None

    @property
    def fires(self) -> bool:
        """In at least half of the phases."""
        return (self.chance or 0.0) >= 0.5


@dataclass(frozen=True, kw_only=True)
class DoubleEntry:
    """What nodes' logs lost during a run (`double_entry`): so many different
    `records`, some of them `foreign`, of so many `writes`. Of these some are `lost`, others `found`
    elsewhere in the final log, others were `unacknowledged`, or lie behind what could be read
    (`not_visible`); what is `left_over` contradicts itself, the first values are in `left`.
    `lost_unseen`: lost writes that no log was seen to lose; `not_copied`: what was not copied, and
    why."""

    records: Count
    foreign: Count
    writes: Count
    lost: Count
    found: Count
    unacknowledged: Count
    left_over: Count
    lost_unseen: Count
    not_visible: Count = 0
    left: tuple[int, ...] = ()
    not_copied: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """One sentence without its full stop."""
        if not self.records:
            return "no log was seen to lose a record"
        noun = "a record" if self.records == 1 else f"{self.records:,} records"
        said = (
            f"logs lost {noun} of {self.writes:,} writes: {self.lost:,} lost, {self.found:,} found "
            f"elsewhere, {self.unacknowledged:,} never acknowledged, {self.left_over:,} left over"
        )
        said += f", {self.not_visible:,} not yet visible" if self.not_visible else ""
        return said + (f"; {self.foreign:,} records are not ours" if self.foreign else "")


@dataclass(frozen=True, kw_only=True)
class NotLost:
    """Writes that are not lost, and not as their client knew them: found though never acknowledged
    (`kind` unacknowledged), or found more than once (duplicate). All ended alike: as `type` with
    `error`, while these `faults` were in force between their begin and their end. `across_epochs`:
    whether copies of one were written by several leaders; `None` where it is not known. Or records
    that a group of consumers skipped (skipped), or processed again (reprocessed), for one `cause`:
    explanations.json has the chains of events."""

    kind: str
    writes: Count
    type: str = ""
    cause: str | None = None
    error: str | None = None
    faults: tuple[str, ...] = ()
    across_epochs: bool | None = None

    @property
    def in_words(self) -> str:
        """One sentence without its full stop."""
        if self.cause is not None:
            return f"{self.writes:,} {self.kind}: {DELIVERY_CAUSES.get(self.cause, self.cause)}"
        ends = {"ok": "acknowledged", "fail": "refused", "info": "without an outcome"}
        how = ends.get(self.type, self.type) + (f" ({self.error})" if self.error else "")
        said = f"{self.writes:,} found more than once" if self.kind == "duplicate" else ""
        said = f"{said}, {how}" if said else f"{self.writes:,} found, {how} for the client"
        if self.across_epochs is not None:
            leader = "another leader" if self.across_epochs else "the same leader"
            said += f", written again by {leader}"
        within = f"while {', '.join(self.faults)} was in force" if self.faults else "under no fault"
        return f"{said}, {within}"


@dataclass(frozen=True, kw_only=True)
class RunResult(_Judged):
    """result.json: the verdict of one run and the numbers that it depends on.

    `doubts`, `counter_examples`, `eligible`, `complete` and `lost_spans` are `None` in documents of
    versions that did not record them. `counts` are those of the model `log`; for another model they
    hold how writes ended, and `checks` holds further counts. `simulated`: nothing real was tested.
    `clients`: what clients that are processes of the user's did. `leaders`: who led during each
    fault; `None` for a run that holds cells, which have their own, and where it was not recorded.
    `cautions`: what the verdict does not say, though a reader may take it to. `causes`: why writes
    were lost, each with how many; `unexplained`: the lost ones that nothing explains, `None` where
    it was not asked; `not_examined`: those without a cause of a run without any log of a server;
    `survivable`: those that a node had which was up and was not elected, so that
    electing the longest log would have kept them. `removed`: what nodes' logs lost, `None` where
    it was not copied. `alarms`: which published rules would have fired; `no_alarms`: why that is
    not known.
    """

    run_id: str | None = None
    plan: str | None = None
    seed: Integer | None = None
    model: ModelName = LOG.name
    simulated: bool = False
    checks: tuple[CheckRecord, ...] = ()
    gaps: tuple[str, ...] = ()
    forced: tuple[str, ...] = ()
    availability: Availability = Availability()
    errors: ErrorCodes = ErrorCodes()
    lost_spans: tuple[LostSpan, ...] | None = None
    faults: tuple[FaultResult, ...] = ()
    timings: Mapping[str, float | None] = field(default_factory=dict)
    clients: Conduct | None = None
    cells: tuple[CellResult, ...] = ()
    cautions: tuple[str, ...] = ()
    removed: DoubleEntry | None = None
    not_lost: tuple[NotLost, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    no_alarms: str | None = None

    @property
    def alarmed(self) -> int | None:
        """How many published rules fire; `None` where none was evaluated."""
        return sum(each.fires for each in self.alarms) if self.alarms else None

    def __repr__(self) -> str:
        return f"<RunResult {self.run_id}: {self.plan}, {self.verdict}: {self.reason}>"

    def met_by(self, fault: str) -> str | None:
        """Which leaders a fault met, in words; of a run with cells, the cells whose leader it met.
        `None` if that is not known."""
        if not self.cells:
            own = (each.sentence for each in self.leaders or () if each.fault == fault)
            return next(own, None)
        known = {
            cell.name: each.met
            for cell in self.cells
            for each in cell.leaders
            if each.fault == fault and each.met is not None
        }
        met = ", ".join(name for name, met in known.items() if met)
        return f"met the leader of: {met or 'none'}" if known else None


@dataclass(frozen=True, kw_only=True)
class AskedAndEffective:
    """Settings as the plan requests them and as the cluster reports them, by group and key; who
    decided those that are not defaults (not recorded by earlier versions), and the system's own
    value of time-outs that are shorter."""

    asked: Mapping[str, Any] = field(default_factory=dict)
    effective: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    shortened: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def short_timeouts(self) -> str | None:
        """In a sentence, that time-outs are shorter than the system's own."""
        keys = [key for of_group in self.shortened.values() for key in of_group]
        if not keys:
            return None
        return (
            f"{len(keys)} time-outs are shorter than the system's own, so times without "
            "acknowledgements are too; --real-timeouts runs with the system's"
        )


@dataclass(frozen=True, kw_only=True)
class NodeRecord:
    """One node of the cluster that served the run."""

    name: str
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class InSync:
    """Who was in sync with the leader of a partition when the run's end began. `in_sync`: how many,
    of `replicas`; `None` where no node that answered knows. `nodes`: those that hold it."""

    partition: int
    leader: str | None = None
    members: tuple[str, ...] = ()
    in_sync: int | None = None
    replicas: int
    nodes: tuple[str, ...] = ()

    @property
    def every(self) -> bool | None:
        """Whether there was a leader, and all replicas in sync; `None` where that is not known."""
        if self.in_sync is None:
            return None
        return self.leader is not None and self.in_sync >= self.replicas


@dataclass(frozen=True, kw_only=True)
class LoadRecord:
    """Whether the load generator kept to the plan, and why not."""

    starved: bool = False
    why: str | None = None


@dataclass(frozen=True, kw_only=True)
class PromisesRecord:
    """What the system under test promised; the model of operations is that of its history."""

    model: ModelName = LOG.name


@dataclass(frozen=True, kw_only=True)
class ClusterRecord:
    """The cluster that served the run; several runs of a campaign may share one."""

    id: str | None = None


@dataclass(frozen=True, kw_only=True)
class CellOf:
    """Which cell of which run this is, and the keys of the plan that it changes."""

    run_id: str
    name: str
    overrides: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CampaignOf:
    """Which cell of which campaign this is, and the number of its repetition, from 0. A run that
    holds several of the campaign's cells names none: its own cells do."""

    name: str
    repetition: int
    cell: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunProcess:
    """The process that runs a plan. `started_s`: its start, since a number is given again."""

    host: str
    pid: int
    started_s: float

    @classmethod
    def own(cls) -> RunProcess:
        """This process."""
        import psutil  # an executor of Spark reads such documents, and has none

        started_s = psutil.Process().create_time()
        return cls(host=platform.node(), pid=os.getpid(), started_s=started_s)

    @property
    def is_gone(self) -> bool:
        """Whether it has ended; False where it cannot be known, on another machine."""
        import psutil

        try:
            started_s = psutil.Process(self.pid).create_time()
        except psutil.NoSuchProcess:
            return self.host == platform.node()
        return self.host == platform.node() and abs(started_s - self.started_s) > 1


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """run.json: the metadata of a run, as far as the run got."""

    run_id: str | None = None
    state: str | None = None
    simulated: bool = False
    wall_time: str | None = None
    seed: Integer | None = None
    plan_file: str | None = None
    command: tuple[str, ...] = ()
    versions: Mapping[str, str | None] = field(default_factory=dict)
    image: Mapping[str, str | None] = field(default_factory=dict)
    settings: AskedAndEffective = AskedAndEffective()
    features: AskedAndEffective = AskedAndEffective()
    nodes: tuple[NodeRecord, ...] = ()
    timings: Mapping[str, float | None] = field(default_factory=dict)
    load: LoadRecord = LoadRecord()
    in_sync: tuple[InSync, ...] | None = None
    cluster: ClusterRecord = ClusterRecord()
    cell: CellOf | None = None
    campaign: CampaignOf | None = None
    promises: PromisesRecord = PromisesRecord()
    forced: tuple[Unsupported, ...] = ()
    yours: Yours = field(default_factory=Yours)
    warnings: tuple[str, ...] = ()
    error: str | None = None
    process: RunProcess | None = None

    @property
    def own_client(self) -> str | None:
        """The command of the user's client, as `ackloss run --client` got it."""
        following = dict(zip(self.command, self.command[1:], strict=False))
        return following.get("--client")


class ForeignDocument(HistoryError):
    """A document that no version of ackloss writes: it lacks a field that all of them write."""


Document = TypeVar("Document", RunResult, StoredRun)

_RESULT: Final = TypeAdapter(RunResult)
_RUN: Final = TypeAdapter(StoredRun)


def read_result(rundir: RunDir) -> RunResult:
    """The result of a run. Raises HistoryError if it is absent, damaged, or not what a check
    writes."""
    return result_of(rundir.read_json(rundir.result), file=rundir.result)


def read_run(rundir: RunDir) -> StoredRun:
    """The metadata of a run. Raises HistoryError if it is absent, damaged, or not what a run
    writes. The state of one whose process ended without a word is KILLED."""
    run = _validated(_RUN, rundir.read_json(rundir.run), rundir.run)
    if run.state in _ENDED or run.process is None or not run.process.is_gone:
        return run
    return replace(run, state=KILLED)


def result_of(document: Mapping[str, Any], *, file: Path | None = None) -> RunResult:
    """A parsed result.json. Raises HistoryError, which names the field that cannot be used."""
    if not _counts_losses(document):
        document = _with_lost(document)
        cells = document.get("cells")
        if isinstance(cells, list):
            document["cells"] = [_with_lost(e) if isinstance(e, dict) else e for e in cells]
    return _validated(_RESULT, document, file)


def _with_lost(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document whose counts state that nothing was lost if they do not mention losses."""
    counts = document.get("counts")
    named = {"counts": {"lost": 0, **counts}} if isinstance(counts, dict) else {}
    return {**document, **named}


def _counts_losses(document: Mapping[str, Any]) -> bool:
    """Whether the counts of a result are those of the checker of a log, as those of an earlier
    version are, and not of another: they are those of the first check."""
    checks = document.get("checks")
    first = checks[0] if isinstance(checks, list) and checks else {"name": LOG.check}
    name = first.get("name") if isinstance(first, dict) else None
    return document.get("model", LOG.name) == LOG.name and name == LOG.check


def _validated(
    adapter: TypeAdapter[Document], document: Mapping[str, Any], file: Path | None
) -> Document:
    known = {name: value for name, value in document.items() if value is not None}
    try:
        # Strict, so that "3" is not a number; from JSON, so that a list may become a tuple.
        return adapter.validate_json(orjson.dumps(known), strict=True)
    except ValidationError as error:
        findings = first_of(error.errors(include_url=False))
        first = findings[0]
        key, name = ".".join(map(str, first["loc"])), str(file) if file else None
        if first["type"] == "missing":
            what = f"holds something that this ackloss does not write: it lacks {key}"
            raise ForeignDocument(what, file=name) from error
        what = f"{key} is {first['input']!r:.80}: {expected(findings)}"
        raise HistoryError(what, file=name) from error
