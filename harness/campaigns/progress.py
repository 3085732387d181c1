"""The progress of a campaign: the state of every run, from the campaign's journal."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from harness.campaigns.journal import (
    Entry,
    Remark,
    RunBegun,
    RunBroken,
    RunDone,
    RunFailed,
    SessionBegun,
    SessionEnded,
    read_journal,
)
from harness.history.run_folder import parts_of


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
                run = self.runs[entry.run_id] = Run(
                    entry.run_id,
                    entry.cell,
                    entry.repetition,
                    entry.worker,
                    entry.shared,
                    begun_at=entry.at,
                )
                self.executions.setdefault(run.execution, []).append(run.run_id)
            case RunDone():
                self._end(entry, verdict=entry.verdict, seconds=entry.seconds)
            case RunFailed():
                self._end(entry, error=entry.error)
            case RunBroken():
                self._end(entry, error=entry.why)

    def _end(
        self,
        entry: RunDone | RunFailed | RunBroken,
        *,
        verdict: str | None = None,
        seconds: float | None = None,
        error: str | None = None,
    ) -> None:
        """Set how a run ended. One that broke off before its begin was on disk counts nowhere."""
        if (run := self.runs.get(entry.run_id)) is not None:
            ended = replace(
                run,
                state=entry.type,
                verdict=verdict,
                seconds=seconds,
                error=error,
                ended_at=entry.at,
            )
            self.runs[run.run_id] = ended
            self.ended_runs += ended.is_finished


def read_progress(path: Path) -> Progress:
    """The progress that a journal records; empty if there is no journal."""
    progress = Progress()
    for entry in read_journal(path):
        progress.add(entry)
    return progress
