"""The progress of a campaign: the state of every run, from the campaign's journal."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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


@dataclass
class Progress:
    """The state of a campaign; `workers` and `ended` are of the last session.

    A run whose state is `begun` is in progress, or broke off together with its process.
    """

    runs: dict[str, Run] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    sessions: int = 0
    started: str | None = None
    ended: str | None = None
    workers: int | None = None

    def finished(self) -> set[tuple[str, int]]:
        """Cells and repetitions that are not repeated."""
        return {
            (run.cell, run.repetition)
            for run in self.runs.values()
            if run.state in ("done", "failed")
        }

    def lossy_cells(self) -> tuple[str, ...]:
        """The names of the cells in which a run was `invalid`."""
        lossy = (run.cell for run in self.runs.values() if run.verdict == "invalid")
        return tuple(dict.fromkeys(lossy))

    def shared_runs(self) -> set[str]:
        """The ids of the runs that cells of the campaign shared."""
        return {run for run, cell in map(parts_of, self.runs) if cell}

    def in_state(self, state: str) -> list[Run]:
        return [run for run in self.runs.values() if run.state == state]

    def _add(self, entry: Entry) -> None:
        match entry:
            case SessionBegun():
                self.sessions += 1
                self.started = self.started or entry.at
                self.ended, self.workers = None, entry.workers
            case SessionEnded():
                self.ended = entry.why
            case Remark():
                self.said.append(entry.what)
            case RunBegun():
                self.runs[entry.run_id] = Run(
                    entry.run_id, entry.cell, entry.repetition, entry.worker, entry.shared
                )
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
        """Set how a run ended; a run whose begin is not in the journal is ignored."""
        if (run := self.runs.get(entry.run_id)) is not None:
            self.runs[run.run_id] = replace(
                run, state=entry.type, verdict=verdict, seconds=seconds, error=error
            )


def read_progress(path: Path) -> Progress:
    """The progress that a journal records; empty if there is no journal."""
    progress = Progress()
    for entry in read_journal(path):
        progress._add(entry)
    return progress
