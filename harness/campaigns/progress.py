"""A campaign's append-only journal, and what it tells of the campaign.

Every line is on disk before what it announces happens, so after any crash it tells which runs were
finished (they are never repeated) and which were begun and broke off (they are played again).

    {"type": "session", "pid", "workers", "at"}                      a process begins to run it
    {"type": "begun",   "cell", "repetition", "run_id", "worker", "at"}
    {"type": "done",    "run_id", "verdict", "seconds", "at"}        played and judged
    {"type": "failed",  "run_id", "error", "at"}                     the harness failed, not Kafka
    {"type": "broken",  "run_id", "why", "at"}                       broke off, to be played again
    {"type": "said",    "what", "at"}                                what else a reader should know
    {"type": "ended",   "why", "at"}                                 the session is over
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from harness.errors import EnvironmentFailure
from harness.faults.journal import entries


@dataclass(frozen=True)
class Run:
    """One run of a campaign, as far as it came. `state` is begun, done, failed or broken."""

    run_id: str
    cell: str
    repetition: int
    worker: int
    state: str = "begun"
    verdict: str | None = None
    seconds: float | None = None
    error: str | None = None


@dataclass(frozen=True)
class Progress:
    """What a journal tells; `workers` is of the last session. A run that was begun and about which
    nothing more was written is under way, or broke off with its process."""

    runs: dict[str, Run] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    sessions: int = 0
    started: str | None = None
    ended: str | None = None
    workers: int | None = None

    def finished(self) -> set[tuple[str, int]]:
        """Cells and repetitions that are not played again."""
        return {
            (run.cell, run.repetition)
            for run in self.runs.values()
            if run.state in ("done", "failed")
        }

    def lossy_cells(self) -> tuple[str, ...]:
        """The names of the cells in which a run was `invalid`."""
        lossy = (run.cell for run in self.runs.values() if run.verdict == "invalid")
        return tuple(dict.fromkeys(lossy))

    def in_state(self, state: str) -> list[Run]:
        return [run for run in self.runs.values() if run.state == state]


class Journal:
    """Appends lines to a campaign's journal; each is on disk when the call returns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        whole = path.read_bytes()
        os.ftruncate(self._fd, whole.rfind(b"\n") + 1)  # the next line must not join half a one

    def write(self, kind: str, **fields: Any) -> None:
        """Append one line. Raises EnvironmentFailure when the disk takes it not."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = orjson.dumps({"type": kind, **fields, "at": at}) + b"\n"
        try:
            before = os.fstat(self._fd).st_size
            try:
                written = os.write(self._fd, line)
                if written < len(line):
                    raise OSError(28, "No space left on device")
                os.fsync(self._fd)
            except OSError:
                os.ftruncate(self._fd, before)  # half a line would be glued to the next one
                raise
        except OSError as error:
            raise EnvironmentFailure(
                f"cannot write the campaign's journal: {error.strerror}", file=str(self._path)
            ) from error

    def close(self) -> None:
        os.close(self._fd)


def read_progress(path: Path) -> Progress:
    """What a journal tells; a last line that a crash has cut off is left out."""
    return progress_of(entries(path))


def _worker(entry: dict[str, Any]) -> int:
    """The worker of a `begun` line; journals of earlier versions call it a lane."""
    return int(entry["worker"] if "worker" in entry else entry["lane"])


def progress_of(lines: Iterable[dict[str, Any]]) -> Progress:
    """What the lines of a journal tell."""
    runs: dict[str, Run] = {}
    said: list[str] = []
    sessions, started, ended, workers = 0, None, None, None
    for entry in lines:
        kind, run = entry["type"], runs.get(entry.get("run_id", ""))
        if kind == "session":
            sessions, started, ended = sessions + 1, started or entry["at"], None
            workers = entry.get("workers", entry.get("lanes"))
        elif kind == "begun":
            cell, repetition = entry["cell"], entry["repetition"]
            runs[entry["run_id"]] = Run(entry["run_id"], cell, repetition, _worker(entry))
        elif kind == "said":
            said.append(entry["what"])
        elif kind == "ended":
            ended = entry["why"]
        elif run is not None and kind in ("done", "failed", "broken"):
            runs[run.run_id] = Run(
                run.run_id,
                run.cell,
                run.repetition,
                run.worker,
                kind,
                entry.get("verdict"),
                entry.get("seconds"),
                entry.get("error") or entry.get("why"),
            )
    return Progress(runs, said, sessions, started, ended, workers)
