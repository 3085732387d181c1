"""A worker: a process that keeps a cluster and executes one run after another on it.

A cluster is kept for as long as it fits the next run's plan, and only when the last run left it
reusable: every fault undone, every process running, no fault that damages what is stored. Each run
uses another topic, and first proves the cluster fully replicated and unfaulted. The first run on a
new cluster that may be kept is a warm-up whose result is discarded, because its JVMs are cold.

A worker ends when the scheduler requests it, and at once when the scheduler is gone.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from harness import failures
from harness.campaigns.plan import Document
from harness.clusters.cleaning import remove_left
from harness.errors import AcklossError, HarnessFailure, Interrupted
from harness.history.documents import CampaignOf
from harness.history.run_folder import RunDir, cell_id, new_run_id
from harness.machine import state
from harness.machine.files import scratch
from harness.plan import parse_plan
from harness.protocols import FAILED, Provider, RunCluster
from harness.run.client_process import Argv
from harness.run.final_read import NOT_FULLY_REPLICATED
from harness.run.interrupts import Interrupts
from harness.run.metadata import RunMetadata
from harness.run.resolving import ResolvedPlan, resolve, with_client
from harness.run.runner import RunOptions, prove_unfaulted, registered, run_on

Judge = Callable[[RunDir], Mapping[str, object]]
"""Judges a run's folder: its result document."""

_PROVIDER_RESTART_S = 180.0


@dataclass(frozen=True)
class Assignment:
    """From the scheduler to a worker: run this plan into a folder of this name. `cells` are the
    names of the plan's cells if it holds several, in the order of the plan; `names` are those that
    the campaign has for them, or for the only one."""

    run_id: str
    plan: Document
    cells: tuple[str, ...] = ()
    campaign: str = ""
    names: tuple[str, ...] = ()
    repetition: int = 0

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The run ids that it is to be answered for: one for each cell."""
        return tuple(cell_id(self.run_id, name) for name in self.cells) or (self.run_id,)

    def describe(self, record: RunMetadata) -> None:
        """Note in a run's document, and in those of its cells when they begin, what they are in
        the campaign."""

        def place(name: str | None) -> Document:
            of = CampaignOf(name=self.campaign, repetition=self.repetition, cell=name)
            return {"campaign": asdict(of)}

        if self.cells:
            named = zip(self.cells, self.names, strict=True)
            record.of_cells = {cell: place(name) for cell, name in named}
            record.update(**place(None))
        elif self.names:
            record.update(**place(self.names[0]))


@dataclass(frozen=True)
class Built:
    """From a worker to the scheduler: it has a cluster of this id, to be removed if it dies."""

    cluster_id: str


@dataclass(frozen=True)
class Answer:
    """From a worker to the scheduler: how one run id of an assignment ended, with a verdict or with
    an error of the harness. `broken`: the run proves nothing and is to be repeated."""

    run_id: str
    seconds: float
    verdict: str | None = None
    error: str | None = None
    broken: bool = False


@dataclass
class _KeptCluster:
    """A cluster whose nodes have been started. `key`: the plans that fit it have the same."""

    cluster: RunCluster
    provider: Provider
    key: str | None
    runs: int = 0
    reusable: bool = True
    stack: ExitStack = field(default_factory=ExitStack)


def cluster_key(plan: ResolvedPlan) -> str | None:
    """Equal for two plans that may be run on one cluster; null: it serves one run."""
    single_use = any(s.nemesis is not None and s.nemesis.single_use for s in plan.steps)
    key = plan.target.cluster_key(plan.plan)
    return None if single_use or key is None else f"{key} {sorted(plan.needs)}"


def serve(
    scheduler: Connection,
    folder: Path,
    judge: Judge,
    client: Argv | None = None,
    inventory: Path | None = None,
) -> None:
    """The process of a worker: executes assignments until there are none, and removes what it
    made. `client`: the command of the user's own clients; `inventory`: the hosts of its nodes."""
    os.setsid()  # Ctrl-C reaches the scheduler only; and see `harness.run.load.larger_share`
    with Interrupts() as interrupts:
        assignments: queue.SimpleQueue[Assignment | None] = queue.SimpleQueue()
        threading.Thread(target=_listen, args=(scheduler, assignments), daemon=True).start()
        worker = _Worker(scheduler, folder, judge, interrupts, client, inventory)
        try:
            while (assignment := _next(assignments, interrupts)) is not None:
                for answer in worker.execute(assignment):
                    scheduler.send(answer)
        except (BrokenPipeError, Interrupted):
            pass  # the scheduler is gone, or has ended this worker
        finally:
            worker.drop()


def _next(
    assignments: queue.SimpleQueue[Assignment | None], interrupts: Interrupts
) -> Assignment | None:
    """Wait for the next assignment; `None` when there will be none."""
    while not interrupts.stop.is_set():
        with suppress(queue.Empty):
            return assignments.get(timeout=0.5)
    return None


def _listen(scheduler: Connection, assignments: queue.SimpleQueue[Assignment | None]) -> None:
    """Receive assignments. When the scheduler is gone, signal this process to stop at once."""
    try:
        while (assignment := scheduler.recv()) is not None:
            assignments.put(assignment)
        assignments.put(None)
        scheduler.recv()
    except (EOFError, OSError):
        assignments.put(None)
        os.kill(os.getpid(), signal.SIGTERM)


@dataclass
class _Worker:
    scheduler: Connection
    folder: Path
    judge: Judge
    interrupts: Interrupts
    client: Argv | None = None
    inventory: Path | None = None
    kept: _KeptCluster | None = None

    def execute(self, assignment: Assignment) -> list[Answer]:
        """Execute and judge one run, whatever happens: an answer for each of its run ids."""
        begun_s = time.monotonic()

        def no_verdict(error: str, *, broken: bool = False) -> list[Answer]:
            seconds = round(time.monotonic() - begun_s, 3)
            return [
                Answer(run_id, seconds, error=error, broken=broken) for run_id in assignment.run_ids
            ]

        try:
            plan = resolve(parse_plan(assignment.plan), inventory=self.inventory)
            plan = with_client(plan, self.client)
            kept = self._cluster_for(plan)
            begun_s = time.monotonic()  # of the run alone
            rundir = self._run(kept, plan, self.folder, assignment)
            folders = [rundir.cell(name) for name in assignment.cells] or [rundir]
            pairs = zip(assignment.run_ids, folders, strict=True)
            return [self._judged(run_id, folder, begun_s) for run_id, folder in pairs]
        except Interrupted:
            return no_verdict("interrupted", broken=True)
        except _Unusable as error:
            self.drop()
            return no_verdict(str(error), broken=True)
        except AcklossError as error:  # the run has failed, and the worker continues
            self.drop()
            return no_verdict(f"{type(error).__name__}: {error}")
        except Exception as error:
            self.drop()
            return no_verdict(failures.sentence(error))

    def _judged(self, run_id: str, folder: RunDir, begun_s: float) -> Answer:
        """The answer for one run id: a cell that cannot be judged does not affect others."""
        verdict = error = None
        try:
            run = folder.read_json(folder.run)
            if run["state"] == FAILED:  # a cell may fail alone
                error = run["error"]
            else:
                verdict = str(self.judge(folder)["verdict"])
        except Interrupted:
            raise
        except AcklossError as raised:
            error = f"{type(raised).__name__}: {raised}"
        except Exception as raised:
            error = failures.sentence(raised)
        seconds = round(time.monotonic() - begun_s, 3)
        return Answer(run_id, seconds, verdict, error)

    def drop(self) -> None:
        """Take the cluster down, if there is one; waits for a provider that restarts."""
        kept, self.kept = self.kept, None
        if kept is not None:
            with suppress(Exception):  # it stays registered: `ackloss clean` removes it
                through_a_restart(kept.provider)(kept.cluster.down)
                state.forget(kept.cluster.run_id)
            kept.stack.close()

    def _cluster_for(self, plan: ResolvedPlan) -> _KeptCluster:
        """The kept cluster if it fits the plan, else a new one, warmed up if it may be kept. A plan
        whose cluster cannot be kept always gets a new one: all of its runs are equally cold."""
        key = cluster_key(plan)
        if self.kept is not None and (
            not self.kept.reusable or key is None or self.kept.key != key
        ):
            self.drop()
        if self.kept is None:
            self.kept = self._build(plan, key)
            if key is not None:
                with scratch() as folder:
                    self._run(self.kept, plan, Path(folder), Assignment(new_run_id(), {}))
                if not self.kept.reusable:
                    raise _Unusable("the cluster could not be used again after its warm-up")
        return self.kept

    def _build(self, plan: ResolvedPlan, key: str | None) -> _KeptCluster:
        provider, run_id = plan.provider, new_run_id()
        through_a_restart(provider)(provider.reach)
        with self.interrupts.raising():
            cluster = provider.cluster(plan.order, run_id, lambda _: None)
        kept = self.kept = _KeptCluster(cluster, provider, key)
        kept.stack.enter_context(registered(plan, run_id, self.folder))
        self.scheduler.send(Built(run_id))
        with self.interrupts.raising():
            cluster.start()
        return kept

    def _run(
        self, kept: _KeptCluster, plan: ResolvedPlan, folder: Path, assignment: Assignment
    ) -> RunDir:
        """One run on this cluster, with its own folder and topic."""
        target, used = plan.target, kept.runs > 0
        if target.does("fresh"):
            plan = replace(plan, plan=target.fresh(plan.plan, kept.runs))
        rundir = RunDir.create(folder, assignment.run_id)
        record = RunMetadata.begin(
            rundir,
            plan.plan,
            command=self._command(rundir),
            file=str(rundir.plan),
            simulated=plan.provider.simulated,
        )
        record.update(cluster={"id": kept.cluster.run_id, "runs_before": kept.runs})
        assignment.describe(record)
        options = RunOptions(run_id=assignment.run_id, folder=folder, interrupts=self.interrupts)
        kept.runs += 1
        kept.reusable = False  # until the run has ended and the cluster is proven reusable
        with record.outcome(), _unusable_before_it_began(record, used=used):
            run_on(kept.cluster, plan, record, options)
            self.interrupts.check()
            record.finish()
        # Where replicas did not get back in sync, something may be broken for good: a broker of
        # Kafka 1.1 whose replica fetcher has died serves all later topics without it.
        whole = NOT_FULLY_REPLICATED not in record.document["warnings"]
        kept.reusable = (
            whole and cluster_key(plan) is not None and _left_reusable(kept.cluster, plan)
        )
        return rundir

    def _command(self, rundir: RunDir) -> list[str]:
        """The command that repeats a run, from its stored plan."""
        options = [] if self.client is None else ["--client", shlex.join(self.client)]
        options += [] if self.inventory is None else ["--inventory", str(self.inventory)]
        return ["ackloss", "run", str(rundir.plan), *options]


class _Unusable(HarnessFailure):
    """A kept cluster could not be used again: this says nothing about the run."""


@contextmanager
def _unusable_before_it_began(record: RunMetadata, *, used: bool) -> Iterator[None]:
    """Blame a kept cluster on which a run did not even begin."""
    try:
        yield
    except Interrupted:
        raise
    except AcklossError as error:
        if used and record.document["state"] == "preparing":
            raise _Unusable(f"the kept cluster could not be used again: {error}") from error
        raise


def _left_reusable(cluster: RunCluster, plan: ResolvedPlan) -> bool:
    """Whether the cluster is fit for the next run; removes what the last one left. A mistake of the
    plug-in here costs its cluster, never the run that has ended."""
    try:
        prove_unfaulted(cluster)
        plan.target.forget(cluster, [cell.plan for cell in plan.cells])
    except Exception:  # whatever it is, the next run gets a cluster of its own
        return False
    return True


def through_a_restart(provider: Provider) -> Retrying:
    """Makes a call again while the provider's machinery restarts."""
    return Retrying(
        retry=retry_if_exception_type((AcklossError, OSError, *provider.trouble)),
        stop=stop_after_delay(_PROVIDER_RESTART_S),
        wait=wait_fixed(3),
        reraise=True,
    )


Start = Callable[[int, Path, Judge], tuple[BaseProcess, Connection]]
"""Starts the process of a worker, by its number: the process, and the pipe to it."""


def start_process(
    number: int,
    runs: Path,
    judge: Judge,
    *,
    client: Argv | None = None,
    inventory: Path | None = None,
) -> tuple[BaseProcess, Connection]:
    """A worker in a new process, which shares nothing with this one; `client`: the command of the
    user's own clients, `inventory`: the hosts of its nodes."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=serve, args=(theirs, runs, judge, client, inventory), name=f"worker-{number}"
    )
    process.start()
    theirs.close()
    return process, ours


@dataclass
class OnInventories:
    """Starts each worker on the hosts of one inventory, which no other living worker has."""

    inventories: Sequence[Path]
    client: Argv | None = None
    begin: Callable[..., tuple[BaseProcess, Connection]] = start_process
    _processes: dict[Path, BaseProcess] = field(default_factory=dict)

    def __call__(self, number: int, runs: Path, judge: Judge) -> tuple[BaseProcess, Connection]:
        """See `Start`. Raises HarnessFailure when every inventory has a worker."""
        for inventory in self.inventories:
            process = self._processes.get(inventory)
            if process is None or not process.is_alive():
                begun, pipe = self.begin(
                    number, runs, judge, client=self.client, inventory=inventory
                )
                self._processes[inventory] = begun
                return begun, pipe
        raise HarnessFailure("every inventory has a worker already")


def remove_cluster(cluster_id: str) -> None:
    """Remove what a dead worker has left; what cannot be removed is left to `ackloss clean`."""
    with state.claimed(cluster_id) as dead, suppress(AcklossError):
        if dead:
            entry = state.registration(cluster_id)
            remove_left(cluster_id, kind=entry.kind if entry is not None else None)
            state.forget(cluster_id)
