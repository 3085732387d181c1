"""Assigns the runs of a campaign to workers, and continues whatever happens to one of them.

A run holds one cell or several that share it. Each cell has its own run id, verdict and lines in
the journal, and what is missing or was interrupted is repeated per cell.

A worker that dies, or whose run exceeds its time limit, is replaced and its cluster removed; its
run counts as a failure of the harness, never as a loss. The journal is written before and after
each run. On Ctrl-C workers stop at once and undo what they began; `resume` repeats their runs.
"""

from __future__ import annotations

import itertools
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final, NamedTuple

import psutil

from harness.campaigns.folder import CampaignDir
from harness.campaigns.journal import (
    Entry,
    Journal,
    Progress,
    Run,
    RunBegun,
    RunBroken,
    RunDone,
    RunFailed,
    SessionBegun,
    SessionEnded,
)
from harness.campaigns.plan import Campaign, Cell
from harness.campaigns.sharing import Group, groups_of_campaign, shared_plan
from harness.campaigns.worker import (
    Answer,
    Assignment,
    Built,
    Judge,
    Start,
    cluster_key,
    remove_cluster,
    start_process,
)
from harness.errors import AcklossError, EnvironmentFailure, HarnessFailure
from harness.history.run_folder import new_run_id
from harness.plan import Plan
from harness.protocols import Cost

# Workers, time and disk that a campaign will take.

_WORKERS_PER_CORE = 1.5
_MEMORY_SHARE = 0.8
_BYTES_PER_WRITE, _BYTES_PER_RUN = 60, 400_000


@dataclass(frozen=True)
class Estimate:
    """Time and disk for the runs that are left, on this number of workers. In `executions` a run
    that several cells share counts once, in `runs` once for each cell. `session_s`: the seconds of
    them that the budget's hours allow one session."""

    workers: int
    runs: int
    executions: int
    seconds: float
    session_s: float
    disk_mb: float


def if_shared(campaign: Campaign) -> tuple[float, float] | None:
    """The seconds of all runs as the campaign's `share` has them and with "auto", where that takes
    at most two thirds of the time; else `None`."""
    if campaign.plan.share != "never":
        return None
    shared = replace(campaign, plan=campaign.plan.model_copy(update={"share": "auto"}))
    alone_s, shared_s = (estimate(each).seconds for each in (campaign, shared))
    return (alone_s, shared_s) if shared_s <= alone_s * 2 / 3 else None


def estimate(
    campaign: Campaign, finished: Iterable[tuple[str, int]] = (), workers: int | None = None
) -> Estimate:
    """Estimate all runs that are not finished. The number of workers is the given one, else the
    campaign's own, else as many as the machine can run."""
    done, workers = set(finished), workers or campaign.plan.workers or workers_for(campaign)
    runs, executions, seconds, stored = 0, 0, 0.0, 0.0
    rounds = list[tuple[Cell, int]]()
    for group in groups_of_campaign(campaign):
        left = Counter(
            n for cell in group for n in range(cell.repetitions) if (cell.name, n) not in done
        )
        runs += left.total()
        executions += len(left)
        cost = _cost(group[0])
        seconds += sum(cost.seconds + (n - 1) * cost.further_cell_s for n in left.values())
        rounds.append((group[0], len(left)))
        load = group[0].resolved.plan.workload
        writes = load.rate_per_s * load.duration_s
        stored += left.total() * (writes * _BYTES_PER_WRITE + _BYTES_PER_RUN)
    seconds += _starts_s(rounds, workers)
    seconds /= max(1, min(workers, executions))  # a worker without a run makes nothing faster
    hours = campaign.plan.budget.hours
    session_s = seconds if hours is None else min(seconds, hours * 3600)
    return Estimate(workers, runs, executions, seconds, session_s, stored / 2**20)


def left_s(campaign: Campaign, progress: Progress, workers: int, now: datetime) -> float:
    """The seconds until all runs are finished: executions take as long as those so far did, and
    before the first has ended as long as estimated."""
    left = estimate(campaign, progress.finished(), workers)
    if not left.executions:
        return 0.0
    at_once = min(left.workers, left.executions)
    runs = {name: progress.of_execution(name) for name in list(progress.executions)}
    done = [each for each in runs.values() if all(run.state == "done" for run in each)]
    over = [max(run.lasted_s(now) for run in each) for each in done]
    each_s = sum(over) / len(over) if over else left.seconds * at_once / left.executions
    under_way = [each[0].lasted_s(now) for each in runs.values() if each[0].state == "begun"]
    spent_s = sum(min(lasted_s, each_s) for lasted_s in under_way)
    return max(0.0, each_s * left.executions - spent_s) / at_once


def _starts_s(left: Iterable[tuple[Cell, int]], workers: int) -> float:
    """The time in which clusters that are kept from run to run are started and warmed up, for so
    many rounds of these cells. Each key has a new one when others had their turn (`Order`), each
    worker has one."""
    rounds, each_s, executions = dict[str, int](), dict[str, float](), 0
    for cell, number in left:
        plan = cell.resolved
        if number and (key := cluster_key(plan)) is not None:
            rounds[key] = max(rounds.get(key, 0), number)
            each_s[key] = plan.provider.cost(plan.order, kept=False).seconds
            executions += number
    clusters = {key: -(-number // rounds_ahead(number)) for key, number in rounds.items()}
    if len(rounds) <= workers:
        clusters = dict.fromkeys(rounds, 1)
    at_least = min(workers, executions) / max(1, sum(clusters.values()))
    return max(1.0, at_least) * sum(each_s[key] * number for key, number in clusters.items())


def workers_for(campaign: Campaign) -> int:
    """As many workers as cores and memory allow; a run mostly waits, unless it is simulated."""
    costs = [_cost(cell) for cell in campaign.possible]
    largest_mb = max(cost.memory_mb for cost in costs)
    by_memory = psutil.virtual_memory().available / 2**20 * _MEMORY_SHARE / largest_mb
    per_core = 1.0 if any(cost.whole_cores for cost in costs) else _WORKERS_PER_CORE
    return max(1, int(min(by_memory, (os.cpu_count() or 1) * per_core)))


def _cost(cell: Cell) -> Cost:
    kept = cluster_key(cell.resolved) is not None
    return cell.resolved.provider.cost(cell.resolved.order, kept=kept)


# Which run is next: cells in turn, so that a campaign that is stopped early is balanced.
#
# All first repetitions come before all second ones, and so on, but a new cluster costs a start and
# a warm-up. So a worker gets a cell that fits its cluster as long as that is less than so many
# rounds ahead of the cell that is furthest behind: a tenth of all rounds, but five to twenty.
# Otherwise it gets one whose cluster no other worker has. Cells that are to come first (those that
# lost in an earlier campaign) come first in their round. Cells that share their runs are one task
# for each repetition, without those that have finished it.

_AHEAD_AT_LEAST: Final = 5
_AHEAD_AT_MOST: Final = 20
"""Then a start and a warm-up are a tenth of the runs of a cluster."""


def rounds_ahead(rounds: int) -> int:
    """How many rounds a cluster serves before others have their turn, of so many."""
    return min(max(_AHEAD_AT_LEAST, rounds // 10), _AHEAD_AT_MOST)


class Task(NamedTuple):
    """One run to be executed, of one cell or of several that share it."""

    cells: Group
    repetition: int


@dataclass
class Order:
    """The runs that are left. `groups` are the cells that share their runs. `cluster_of` gives for
    each cell's name the key of its cluster, null if that serves one run: cells with equal keys can
    use one. `first` names the cells that come first, with the cells that share their runs."""

    groups: Collection[Group]
    cluster_of: Mapping[str, Hashable]
    finished: Collection[tuple[str, int]] = ()
    first: Collection[str] = ()
    _ahead: int = field(init=False)
    """Rounds."""
    _left: list[Task] = field(init=False)

    def __post_init__(self) -> None:
        rounds = max((cell.repetitions for group in self.groups for cell in group), default=0)
        self._ahead = rounds_ahead(rounds)
        ordered = sorted(
            self.groups, key=lambda group: not any(cell.name in self.first for cell in group)
        )
        self._left = [
            Task(cells, n)
            for n in range(rounds)
            for group in ordered
            if (
                cells := tuple(
                    cell
                    for cell in group
                    if n < cell.repetitions and (cell.name, n) not in self.finished
                )
            )
        ]

    def __len__(self) -> int:
        return len(self._left)

    def next(self, kept: Hashable | None, elsewhere: Collection[Hashable]) -> Task | None:
        """Take the next run for a worker that has the cluster `kept`, while other workers have
        `elsewhere`. `None` when no run is left."""
        if not self._left:
            return None
        ahead = min(task.repetition for task in self._left) + self._ahead
        workers_with = Counter(elsewhere)

        def cost(place: int) -> tuple[bool, int, int]:
            wanted = self.cluster_of[self._left[place].cells[0].name]
            if wanted is None:
                return True, 0, place
            return wanted != kept, workers_with[wanted], place

        places = [p for p, task in enumerate(self._left) if task.repetition < ahead]
        return self._left.pop(min(places, key=cost))

    def put_back(self, task: Task) -> None:
        """Put back a run that broke off: among those that fit a worker's cluster it comes first."""
        self._left.insert(0, task)


_TICK_S = 0.5
_STOP_S = 45.0
_DISK_RETRY_S = 5
_FAILURES_IN_A_ROW = 6
_REPEATS = 3
FREE_MB = 1024
"""Below this much free disk no run begins."""


@dataclass
class _Worker:
    """A worker as the scheduler sees it. `left` are the cells of its run that it has not answered
    for, by run id; `again` those that broke off; `judged`: it has answered for one with a verdict.
    """

    number: int
    process: BaseProcess
    pipe: Connection
    task: Task | None = None
    left: dict[str, Cell] = field(default_factory=dict)
    again: list[Cell] = field(default_factory=list)
    judged: bool = False
    begun_s: float = 0.0
    cluster_id: str | None = None
    cluster_key: str | None = None


@dataclass
class Scheduler:
    """Runs what is left of a campaign. `after` gets each cell's run that has ended, and the
    campaign's progress, which `progress` is at any time.

    `start`, `remove`, `now_s` and `tick_s` represent the environment: processes, clusters, time.
    """

    campaign: Campaign
    folder: CampaignDir
    judge: Judge
    workers: int
    stop: threading.Event
    say: Callable[[str], None] = lambda _: None
    after: Callable[[Run, Progress], None] = lambda _run, _progress: None
    first: tuple[str, ...] = ()
    start: Start = start_process
    remove: Callable[[str], None] = remove_cluster
    now_s: Callable[[], float] = time.monotonic
    tick_s: float = _TICK_S
    _workers: list[_Worker] = field(default_factory=list)
    _failures: int = 0
    _begun: int = 0
    _broken: Counter[tuple[str, int]] = field(default_factory=Counter)
    _paused: bool = False
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    progress: Progress = field(init=False)

    def __post_init__(self) -> None:
        self.progress = self.folder.progress()

    def run(self) -> str:
        """Run until everything is finished, the budget is spent or `stop` is set; returns which.

        Raises HarnessFailure when several runs in a row fail. All workers have ended when this
        returns.
        """
        progress = self.progress
        self._journal = Journal(self.folder.journal)
        for run in progress.in_state("begun"):
            self._enter(RunBroken(run_id=run.run_id, why="its process ended"))
        self._keys = {cell.name: cluster_key(cell.resolved) for cell in self.campaign.possible}
        groups = groups_of_campaign(self.campaign)
        self._order = Order(groups, self._keys, progress.finished(), self.first)
        self._ends_s = self.now_s() + (self.campaign.plan.budget.hours or 1e6) * 3600
        self._enter(
            SessionBegun(
                workers=self.workers,
                plan_hash=self.campaign.digest,
                repetitions=self.campaign.raised,
            )
        )
        why, at_once = "interrupted", True
        try:
            why = self._run_all()
            at_once = self.stop.is_set()
            return why
        except AcklossError as error:
            why = error.what
            raise
        finally:
            self._end_workers(at_once=at_once)
            with suppress(EnvironmentFailure):
                self._enter(SessionEnded(why=why))
            self._journal.close()

    def _run_all(self) -> str:
        while not self.stop.is_set():
            spent = self._spent()
            if not spent:
                self._assign()
            busy = [worker for worker in self._workers if worker.task is not None]
            if not busy and (spent or not len(self._order)):
                return spent or "finished"
            for pipe in wait([worker.pipe for worker in busy], timeout=self.tick_s):
                self._receive(next(worker for worker in busy if worker.pipe is pipe))
            self._check_limits()
            if self._failures >= _FAILURES_IN_A_ROW:
                raise HarnessFailure(
                    f"{self._failures} runs in a row failed: stopped",
                    file=str(self.folder.journal),
                    hint="correct the cause, then continue with `ackloss campaign resume`",
                )
        return "interrupted"

    def _spent(self) -> str | None:
        runs = self.campaign.plan.budget.runs
        if self.now_s() >= self._ends_s:
            return "the budget of hours is spent"
        if runs is not None and self._begun >= runs:
            return "the budget of runs is spent"
        return None

    def _assign(self) -> None:
        """Give every idle worker its next run."""
        if not self._has_room():
            return
        idle = sum(worker.task is None for worker in self._workers)
        while len(self._workers) < self.workers and idle < len(self._order):
            number = next(self._numbers)
            started = self.start(number, self.folder.runs, self.judge)
            self._workers.append(_Worker(number, *started))
            idle += 1
        for worker in self._workers:
            if worker.task is None and not self._spent():
                elsewhere = [other.cluster_key for other in self._workers if other is not worker]
                if (task := self._order.next(worker.cluster_key, elsewhere)) is not None:
                    self._begin(worker, task)

    def _has_room(self) -> bool:
        """Whether the disk has space for another run; reports once if it has not."""
        free_mb = shutil.disk_usage(self.folder.path).free // 2**20
        if free_mb >= FREE_MB:
            self._paused = False
            return True
        if not self._paused:
            self._paused = True
            self.say(
                f"only {free_mb} MiB of disk are free: {self.folder.path}; "
                f"waiting for {FREE_MB} MiB"
            )
        return False

    def _begin(self, worker: _Worker, task: Task) -> None:
        plan, names = shared_plan(task.cells)
        plan = {**plan, "seed": self.campaign.seed(task.repetition)}
        assignment = Assignment(
            run_id=new_run_id(),
            plan=plan,
            cells=names,
            campaign=self.campaign.plan.name,
            names=tuple(cell.name for cell in task.cells),
            repetition=task.repetition,
        )
        worker.left = dict(zip(assignment.run_ids, task.cells, strict=True))
        for run_id, cell in worker.left.items():
            self._write(
                RunBegun(
                    cell=cell.name,
                    repetition=task.repetition,
                    run_id=run_id,
                    worker=worker.number,
                    shared=assignment.run_id if names else None,
                )
            )
        worker.task, worker.begun_s, worker.judged = task, self.now_s(), False
        worker.cluster_key = self._keys[task.cells[0].name]
        self._begun += len(task.cells)
        with suppress(BrokenPipeError):  # noticed when the worker's pipe is read
            worker.pipe.send(assignment)

    def _receive(self, worker: _Worker) -> None:
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join(self.tick_s)
            self._replace(worker, f"its worker died (exit code {worker.process.exitcode})")
            return
        self._take(worker, message)

    def _take(self, worker: _Worker, message: object) -> None:
        if isinstance(message, Built):
            worker.cluster_id = message.cluster_id
        elif isinstance(message, Answer):
            if worker.task is not None:
                self._end_cell(worker, worker.task, message)
            if not worker.left:
                self._end_task(worker)

    def _receive_rest(self, worker: _Worker) -> None:
        """Take what a worker answered before it is ended: that has been judged."""
        with suppress(EOFError, OSError):
            while worker.task is not None and worker.pipe.poll(0):
                self._take(worker, worker.pipe.recv())

    def _end_cell(self, worker: _Worker, task: Task, answer: Answer) -> None:
        cell = worker.left.pop(answer.run_id)
        run = cell.name, task.repetition
        self._broken[run] += answer.broken
        if answer.broken and self._broken[run] <= _REPEATS:
            self._write(RunBroken(run_id=answer.run_id, why=answer.error))
            worker.again.append(cell)
        elif answer.error is not None:
            self._write(RunFailed(run_id=answer.run_id, error=answer.error))
        else:
            worker.judged = True
            self._write(
                RunDone(run_id=answer.run_id, verdict=answer.verdict, seconds=answer.seconds)
            )
        self.after(self.progress.runs[answer.run_id], self.progress)

    def _end_task(self, worker: _Worker) -> None:
        """The worker's run is over. Cells of it that broke off share another run; a run in which
        every cell failed is one failure."""
        task, worker.task = worker.task, None
        again, worker.again = worker.again, []
        if worker.judged:
            self._failures = 0
        elif task is not None and len(again) < len(task.cells):
            self._failures += 1
        if task is not None and again:
            self._order.put_back(Task(tuple(again), task.repetition))

    def _check_limits(self) -> None:
        for worker in list(self._workers):
            if worker.task is None:
                continue
            limit_s = self.campaign.plan.limit_s or limit_of(worker.task.cells[0].resolved.plan)
            if self.now_s() - worker.begun_s > limit_s:
                self._receive_rest(worker)  # ending another one may have taken a while
            if worker.task is not None and self.now_s() - worker.begun_s > limit_s:
                self._replace(worker, f"it took longer than its limit of {limit_s:.0f} s")

    def _replace(self, worker: _Worker, why: str) -> None:
        """End a worker that has died or hangs, and remove its cluster; another one takes over."""
        self._workers.remove(worker)
        self._end(worker)
        for run_id in worker.left:
            self._write(RunFailed(run_id=run_id, error=why))
            self.after(self.progress.runs[run_id], self.progress)
        self._end_task(worker)

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
            with suppress(EnvironmentFailure):
                self._receive_rest(worker)
                for run_id in worker.left:
                    self._enter(RunBroken(run_id=run_id, why="interrupted"))
            self._end(worker)

    def _end(self, worker: _Worker) -> None:
        """End a worker's process, by SIGKILL if need be, and remove what it has left."""
        if worker.process.is_alive():
            worker.process.terminate()
            worker.process.join(_STOP_S)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.pipe.close()
        if worker.cluster_id is not None:
            self.remove(worker.cluster_id)

    def _write(self, entry: Entry) -> None:
        """Write to the journal; wait while the disk is full, unless the user stops the campaign."""
        while True:
            try:
                self._enter(entry)
                return
            except EnvironmentFailure as error:
                self.say(str(error))
                if self.stop.wait(_DISK_RETRY_S):
                    raise

    def _enter(self, entry: Entry) -> None:
        self._journal.write(entry)
        self.progress.add(entry)


def limit_of(plan: Plan) -> float:
    """The longest time, in seconds, that a run of this plan may take, including the start of its
    cluster and a warm-up."""
    once_s = plan.workload.duration_s + plan.final.drain_s + plan.final.settle_s + plan.final.read_s
    return 240 + 2 * once_s
