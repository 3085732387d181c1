"""The append-only journal of a campaign, `journal.jsonl`: one JSON object a line.

Every line is on disk before what it announces happens. So after any crash the journal says which
runs are finished (they are never repeated) and which began and broke off (they are repeated).

    {"type": "session", "workers", "plan_hash", "repetitions", "at"} a process begins to run it
    {"type": "begun",   "cell", "repetition", "run_id", "worker", "shared", "at"}
    {"type": "done",    "run_id", "verdict", "seconds", "at"}        executed and judged
    {"type": "failed",  "run_id", "error", "at"}                     the harness failed, not Kafka
    {"type": "broken",  "run_id", "why", "at"}                       broke off, to be repeated
    {"type": "said",    "what", "at"}                                a remark for the report
    {"type": "ended",   "why", "at"}                                 the session is over

`shared` is equal for the cells of one run, and null for a run of one cell. `plan_hash` is that of
the campaign; `repetitions` are those to which `resume --repetitions` raised it, else null.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from harness.errors import HistoryError, disk_errors
from harness.faults.journal import append, end_last_line, lines
from harness.history.run_folder import parts_of
from harness.wrong_values import expected, first_of, shown


@dataclass(frozen=True)
class Run:
    """One run of a cell. `state` is begun, done, failed or broken; `shared` is equal for the cells
    that shared a run, and `None` for a cell that ran alone."""

    run_id: str
    cell: str
    repetition: int
    worker: int
    shared: str | None = None
    state: str = "begun"
    verdict: str | None = None
    seconds: float | None = None
    error: str | None = None
    begun_at: str = ""
    ended_at: str = ""

    def lasted_s(self, now: datetime) -> float:
        """How long it took, with the start of its cluster, or has taken until now."""
        end = datetime.fromisoformat(self.ended_at) if self.ended_at else now
        return (end - datetime.fromisoformat(self.begun_at)).total_seconds()

    @property
    def execution(self) -> str:
        """The run that the cells share, or this one."""
        return self.shared or self.run_id

    @property
    def is_finished(self) -> bool:
        """Whether it is not repeated."""
        return self.state in ("done", "failed")


@dataclass
class Progress:
    """The state of a campaign; `workers` and `ended` are of the last session, `plan_hash` is of the
    first one that has it, `raised` are the repetitions of the last one that raised them.

    A run whose state is `begun` is in progress, or broke off together with its process.
    `ended_runs` counts those that are not repeated; `executions` has the run ids of all cells of
    an execution.
    """

    runs: dict[str, Run] = field(default_factory=dict)
    executions: dict[str, list[str]] = field(default_factory=dict)
    ended_runs: int = 0
    said: list[str] = field(default_factory=list)
    sessions: int = 0
    started: str | None = None
    ended: str | None = None
    workers: int | None = None
    plan_hash: str | None = None
    raised: int | None = None

    def is_over(self, execution: str) -> bool:
        """Whether all cells of an execution have ended."""
        return "begun" not in self._states(execution)

    def is_judged(self, execution: str) -> bool:
        """Whether all cells of an execution have ended, one of them with a verdict."""
        return self.is_over(execution) and "done" in self._states(execution)

    def _states(self, execution: str) -> set[str]:
        return {run.state for run in self.of_execution(execution)}

    @property
    def executed(self) -> int:
        """The runs that ended: one that cells shared counts once."""
        return len({run.execution for run in self.runs.values() if run.is_finished})

    def finished(self) -> set[tuple[str, int]]:
        """Cells and repetitions that are not repeated."""
        return {(run.cell, run.repetition) for run in self.runs.values() if run.is_finished}

    def lossy_cells(self) -> tuple[str, ...]:
        """The names of the cells in which a run was `invalid`."""
        lossy = (run.cell for run in self.runs.values() if run.verdict == "invalid")
        return tuple(dict.fromkeys(lossy))

    def shared_runs(self) -> set[str]:
        """The ids of the runs that cells of the campaign shared."""
        return {run for run, cell in map(parts_of, self.runs) if cell}

    def of_execution(self, execution: str) -> list[Run]:
        """The runs of its cells."""
        return [self.runs[run_id] for run_id in self.executions[execution]]

    def in_state(self, state: str) -> list[Run]:
        return [run for run in self.runs.values() if run.state == state]

    def add(self, entry: Entry) -> None:
        """Take in the next entry of the journal."""
        match entry:
            case SessionBegun():
                self.sessions += 1
                self.started = self.started or entry.at
                self.ended, self.workers = None, entry.workers
                self.plan_hash = self.plan_hash or entry.plan_hash
                self.raised = entry.repetitions or self.raised
            case SessionEnded():
                self.ended = entry.why
            case Remark():
                self.said.append(entry.what)
            case RunBegun():
                run = Run(**entry.model_dump(exclude={"at"}), begun_at=entry.at)
                self.runs[run.run_id] = run
                self.executions.setdefault(run.execution, []).append(run.run_id)
            case RunDone():
                self._end(entry, verdict=entry.verdict, seconds=entry.seconds)
            case RunFailed():
                self._end(entry, error=entry.error)
            case RunBroken():
                self._end(entry, error=entry.why)

    def _end(self, entry: RunDone | RunFailed | RunBroken, **how: Any) -> None:
        """Set how a run ended. One that broke off before its begin was on disk counts nowhere."""
        if (run := self.runs.get(entry.run_id)) is not None:
            ended = replace(run, state=entry.type, ended_at=entry.at, **how)
            self.runs[run.run_id] = ended
            self.ended_runs += ended.is_finished


def read_progress(path: Path) -> Progress:
    """The progress that a journal records; empty if there is no journal."""
    progress = Progress()
    for entry in read_journal(path):
        progress.add(entry)
    return progress


COPY_AGAIN: Final = "copy the campaign's folder again"
"""What to do about files that only a damaged or incomplete copy has."""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _of_a_run(run_id: str) -> str:
    if not _RUN_ID.fullmatch(run_id):
        raise ValueError("not the id of a run, such as 20260102-030405-a3f901")
    return run_id


_RUN_ID: Final = re.compile(r"[A-Za-z0-9][\w-]*(\.[A-Za-z0-9]([\w.-]*[\w-])?)?", re.ASCII)
RunId = Annotated[str, AfterValidator(_of_a_run)]
"""It names a folder below the campaign's runs, and leads to no other: runs are copied and deleted
by it."""


class Entry(BaseModel):
    """A line of the journal, written at the time `at`. Strict, so that "3" is not a number."""

    model_config = ConfigDict(frozen=True, strict=True)

    type: ClassVar[str]
    at: str = Field(default_factory=_now)


class SessionBegun(Entry):
    type: ClassVar[str] = "session"
    workers: int | None = None
    plan_hash: str | None = None
    repetitions: Annotated[int, Field(ge=1)] | None = None


class RunBegun(Entry):
    type: ClassVar[str] = "begun"
    cell: str
    repetition: Annotated[int, Field(ge=0)]
    run_id: RunId
    worker: int
    shared: RunId | None = None


class RunDone(Entry):
    type: ClassVar[str] = "done"
    run_id: RunId
    verdict: str | None = None
    seconds: float | None = None


class RunFailed(Entry):
    type: ClassVar[str] = "failed"
    run_id: RunId
    error: str | None = None


class RunBroken(Entry):
    type: ClassVar[str] = "broken"
    run_id: RunId
    why: str | None = None


class Remark(Entry):
    type: ClassVar[str] = "said"
    what: str


class SessionEnded(Entry):
    type: ClassVar[str] = "ended"
    why: str


_TYPES: Final[Mapping[str, type[Entry]]] = {
    each.type: each
    for each in (SessionBegun, RunBegun, RunDone, RunFailed, RunBroken, Remark, SessionEnded)
}


class Journal:
    """Appends entries to a campaign's journal; each is on disk when the call returns. Raises
    EnvironmentFailure if the file cannot be written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with disk_errors("cannot write the campaign's journal", self._path):
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            end_last_line(path, self._fd)

    def write(self, entry: Entry) -> None:
        """Append one entry. Raises EnvironmentFailure when the disk rejects it."""
        line = orjson.dumps({"type": entry.type, **entry.model_dump()}) + b"\n"
        with disk_errors("cannot write the campaign's journal", self._path):
            append(self._fd, line)

    def close(self) -> None:
        os.close(self._fd)


def read_journal(path: Path) -> Iterator[Entry]:
    """The entries of a journal, without a last line that a crash has cut off and without types that
    this version does not know. Raises HistoryError for any other line that is damaged, for an entry
    that lacks a field, or has one of another type, and for a run that is done or failed and never
    began."""
    begun: set[str] = set()
    for number, line in lines(path):
        if line is None:  # without it a run would be missing, and nothing would show
            raise HistoryError(
                "is not an entry of a journal: the line is damaged",
                file=f"{path}:{number}",
                hint=COPY_AGAIN,
            )
        entry_type = _TYPES.get(line["type"])
        if entry_type is None:
            continue
        entry = _read(entry_type, line, f"{path}:{number}")
        if isinstance(entry, RunBegun):
            begun.add(entry.run_id)
        if isinstance(entry, RunDone | RunFailed) and entry.run_id not in begun:
            raise HistoryError(
                f"ends the run {entry.run_id}, and no line before says that it began",
                file=f"{path}:{number}",
                hint=COPY_AGAIN,
            )
        yield entry


def _read(entry_type: type[Entry], line: Mapping[str, object], place: str) -> Entry:
    try:
        return entry_type.model_validate(line)
    except ValidationError as error:
        findings = first_of(error.errors(include_url=False))
        key, given = findings[0]["loc"][0], findings[0]["input"]
        what = f"{key} is {shown(given)}: {expected(findings)}"
        if findings[0]["type"] == "missing":
            what = f"an entry {entry_type.type!r} lacks a field: {key}"
        raise HistoryError(what, file=place, hint=COPY_AGAIN) from error
