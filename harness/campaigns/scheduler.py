"""Deals the runs of a campaign out to workers, and goes on whatever happens to one of them.

A worker that dies, or whose run takes longer than its limit, is replaced, and its cluster removed;
its run is a failure of the harness, never a loss. The journal is written before and after each
run. Ctrl-C: workers stop at once and undo what they began; `resume` repeats their runs.
"""

from __future__ import annotations

import itertools
import multiprocessing
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from harness.campaigns.folder import CampaignDir
from harness.campaigns.order import Order, Task
from harness.campaigns.plan import Campaign
from harness.campaigns.progress import Journal, read_progress
from harness.campaigns.worker import Answer, Assignment, Built, Judge, cluster_key, serve
from harness.clusters.docker.removal import remove_run
from harness.errors import AcklossError, EnvironmentFailure, HarnessFailure
from harness.history.run_folder import new_run_id
from harness.images.daemon import connect
from harness.machine import state
from harness.plan import Plan

_TICK_S = 0.5
_STOP_S = 45.0
_ROW_OF_FAILURES = 6
_BROKEN_TIMES = 3
FREE_MB = 1024
"""Below this much free disk no run is begun."""

Said = Callable[[str], None]


class Process(Protocol):
    """What is asked of a worker's process (`multiprocessing.Process`)."""

    @property
    def exitcode(self) -> int | None: ...
    def is_alive(self) -> bool: ...
    def join(self, timeout: float | None = None) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


Start = Callable[[int, Path, Judge], tuple[Process, Connection]]
"""Starts the process of a worker, by its number: the process, and the pipe to it."""


def start_process(number: int, runs: Path, judge: Judge) -> tuple[Process, Connection]:
    """A worker in a process of its own, which shares nothing with this one."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, runs, judge), name=f"worker-{number}")
    process.start()
    theirs.close()
    return process, ours


def remove_cluster(cluster_id: str) -> None:
    """Remove what a worker that is gone has left; what cannot be is left to `ackloss clean`."""
    with state.claimed(cluster_id) as dead, suppress(AcklossError):
        if dead:
            remove_run(connect(), cluster_id)
            state.forget(cluster_id)


@dataclass
class _WorkerProcess:
    number: int
    process: Process
    pipe: Connection
    task: Task | None = None
    run_id: str = ""
    begun_s: float = 0.0
    cluster_id: str | None = None
    fits: str | None = None


@dataclass
class Scheduler:
    """Plays what is left of a campaign. `after` is called with each run's id when it has ended.

    `start`, `remove`, `now_s` and `tick_s` are the world: processes, clusters, time.
    """

    campaign: Campaign
    folder: CampaignDir
    judge: Judge
    workers: int
    stop: threading.Event
    say: Said = lambda _: None
    after: Callable[[str], None] = lambda _: None
    first: tuple[str, ...] = ()
    start: Start = start_process
    remove: Callable[[str], None] = remove_cluster
    now_s: Callable[[], float] = time.monotonic
    tick_s: float = _TICK_S
    _workers: list[_WorkerProcess] = field(default_factory=list)
    _failures: int = 0
    _begun: int = 0
    _broken: dict[tuple[str, int], int] = field(default_factory=dict)
    _paused: bool = False
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def play(self) -> str:
        """Play until everything is done, the budget is spent or `stop` is set: which of these.

        Raises HarnessFailure when one run after another fails. Workers are gone when this returns.
        """
        progress = read_progress(self.folder.journal)
        self._journal = Journal(self.folder.journal)
        for run in progress.in_state("begun"):
            self._journal.write("broken", run_id=run.run_id, why="its process ended")
        fits = {cell.name: cluster_key(cell.bound) for cell in self.campaign.possible}
        self._fits = fits
        self._order = Order(self.campaign.possible, fits, progress.finished(), self.first)
        self._ends_s = self.now_s() + (self.campaign.plan.budget.hours or 1e6) * 3600
        self._journal.write("session", workers=self.workers)
        why = "interrupted"
        try:
            why = self._conduct()
            return why
        finally:
            self._end_workers(at_once=why == "interrupted")
            with suppress(EnvironmentFailure):
                self._journal.write("ended", why=why)
            self._journal.close()

    def _conduct(self) -> str:
        while not self.stop.is_set():
            spent = self._spent()
            if not spent:
                self._deal()
            busy = [worker for worker in self._workers if worker.task is not None]
            if not busy and (spent or not len(self._order)):
                return spent or "finished"
            for pipe in wait([worker.pipe for worker in busy], timeout=self.tick_s):
                self._hear(next(worker for worker in busy if worker.pipe is pipe))
            self._watch_limits()
            if self._failures >= _ROW_OF_FAILURES:
                raise HarnessFailure(
                    f"{self._failures} runs in a row failed: stopped",
                    file=str(self.folder.journal),
                    hint="`ackloss campaign resume` goes on when the cause is gone",
                )
        return "interrupted"

    def _spent(self) -> str | None:
        runs = self.campaign.plan.budget.runs
        if self.now_s() >= self._ends_s:
            return "the budget of hours is spent"
        if runs is not None and self._begun >= runs:
            return "the budget of runs is spent"
        return None

    def _deal(self) -> None:
        """Give every idle worker its next run."""
        if not self._room():
            return
        idle = sum(worker.task is None for worker in self._workers)
        while len(self._workers) < self.workers and idle < len(self._order):
            self._workers.append(self._new_worker())
            idle += 1
        for worker in self._workers:
            if worker.task is None and not self._spent():
                elsewhere = [other.fits for other in self._workers if other is not worker]
                if (task := self._order.next(worker.fits, elsewhere)) is not None:
                    self._give(worker, task)

    def _room(self) -> bool:
        """Whether the disk has room for another run; says so once when it has not."""
        free_mb = shutil.disk_usage(self.folder.path).free // 2**20
        if free_mb >= FREE_MB:
            self._paused = False
            return True
        if not self._paused:
            self._paused = True
            self.say(f"only {free_mb} MiB are free below {self.folder.path}: waiting for room")
        return False

    def _give(self, worker: _WorkerProcess, task: Task) -> None:
        run_id = new_run_id()
        cell, repetition = task.cell, task.repetition
        self._write(
            "begun", cell=cell.name, repetition=repetition, run_id=run_id, worker=worker.number
        )
        worker.task, worker.run_id, worker.begun_s = task, run_id, self.now_s()
        worker.fits = self._fits[cell.name]
        self._begun += 1
        plan = {**cell.document, "seed": self.campaign.seed(repetition)}
        with suppress(BrokenPipeError):  # heard when it is listened to
            worker.pipe.send(Assignment(run_id, plan))

    def _hear(self, worker: _WorkerProcess) -> None:
        try:
            told = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join(self.tick_s)
            self._lost(worker, f"its worker died (exit code {worker.process.exitcode})")
            return
        if isinstance(told, Built):
            worker.cluster_id = told.cluster_id
        elif isinstance(told, Answer):
            self._take(worker, told)

    def _take(self, worker: _WorkerProcess, told: Answer) -> None:
        task, worker.task = worker.task, None
        if told.broken and task is not None and self._again(task):
            self._write("broken", run_id=told.run_id, why=told.error)
            self._order.put_back(task)
        elif told.error is not None:
            self._failed(told.run_id, told.error)
        else:
            self._failures = 0
            self._write("done", run_id=told.run_id, verdict=told.verdict, seconds=told.seconds)
        self.after(told.run_id)

    def _again(self, task: Task) -> bool:
        """Whether a run that broke off is to be played again: a few times."""
        which = task.cell.name, task.repetition
        self._broken[which] = self._broken.get(which, 0) + 1
        return self._broken[which] <= _BROKEN_TIMES

    def _failed(self, run_id: str, error: str) -> None:
        self._failures += 1
        self._write("failed", run_id=run_id, error=error)
        self.say(f"run {run_id} failed: {error}")

    def _watch_limits(self) -> None:
        for worker in list(self._workers):
            if worker.task is None:
                continue
            limit_s = self.campaign.plan.limit_s or limit_of(worker.task.cell.bound.plan)
            if self.now_s() - worker.begun_s > limit_s:
                self._lost(worker, f"it took longer than its limit of {limit_s:.0f} s")

    def _lost(self, worker: _WorkerProcess, why: str) -> None:
        """End a worker that is of no use and remove its cluster; another takes its place."""
        self._workers.remove(worker)
        self._end(worker)
        if worker.task is not None:
            self._failed(worker.run_id, why)
            self.after(worker.run_id)

    def _new_worker(self) -> _WorkerProcess:
        number = next(self._numbers)
        return _WorkerProcess(number, *self.start(number, self.folder.runs, self.judge))

    def _end_workers(self, *, at_once: bool) -> None:
        """End every worker; each takes its own cluster down."""
        for worker in self._workers:
            with suppress(OSError):
                if at_once:
                    worker.process.terminate()
                else:
                    worker.pipe.send(None)
        deadline_s = self.now_s() + _STOP_S
        for worker in self._workers:
            worker.process.join(max(0.1, deadline_s - self.now_s()))
        for worker in self._workers:
            if worker.task is not None:
                with suppress(EnvironmentFailure):
                    self._journal.write("broken", run_id=worker.run_id, why="interrupted")
            self._end(worker)

    def _end(self, worker: _WorkerProcess) -> None:
        """End a worker's process, whatever it does, and remove what it left."""
        if worker.process.is_alive():
            worker.process.terminate()
            worker.process.join(_STOP_S)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.pipe.close()
        if worker.cluster_id is not None:
            self.remove(worker.cluster_id)

    def _write(self, kind: str, **fields: Any) -> None:
        """Write to the journal; a full disk is waited out, unless a person wants to stop."""
        while True:
            try:
                self._journal.write(kind, **fields)
                return
            except EnvironmentFailure as error:
                self.say(str(error))
                if self.stop.wait(5):
                    raise


def limit_of(plan: Plan) -> float:
    """How long a run of this plan, its cluster's start and a warm-up may take at the most: in
    seconds."""
    once_s = plan.workload.duration_s + plan.final.drain_s + plan.final.settle_s + plan.final.read_s
    return 240 + 2 * once_s
