"""A worker: a process that keeps a cluster and plays one run after another on it.

A cluster is kept for as long as the next run's plan fits it, and only when the last run left it as
it was: every fault undone, every process running, none of its faults one that single_use what is
stored. Each run gets a topic of its own, and proves the cluster whole and unfaulted first. The
first run on a new cluster that may be kept is a warm-up, played and thrown away: JVMs are cold.

A worker ends when the scheduler says so, and when the scheduler is gone, whatever it was doing.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from harness.clusters.docker.cluster import DockerCluster
from harness.errors import AcklossError, HarnessFailure, Interrupted
from harness.history.run_folder import RunDir, new_run_id
from harness.images.building import holder
from harness.images.daemon import DAEMON_TROUBLE, connect
from harness.machine import state
from harness.machine.scratch import scratch
from harness.plan import parse_plan
from harness.protocols import Ingredients, Reusable, SingleUse
from harness.run.availability import prove_unfaulted
from harness.run.interrupts import Interrupts
from harness.run.metadata import RunMetadata
from harness.run.preparing import needs_of
from harness.run.resolving import ResolvedPlan, resolve
from harness.run.runner import RunOptions, run_on, start_nodes

Judge = Callable[[RunDir], dict[str, Any]]

_DOCKER_BACK_S = 180.0
_TROUBLE = (AcklossError, OSError, *DAEMON_TROUBLE)


@dataclass(frozen=True)
class Assignment:
    """What the scheduler asks of a worker: play this plan into a folder of this name."""

    run_id: str
    plan: dict[str, Any]


@dataclass(frozen=True)
class Built:
    """A worker has a cluster from now on, under this id: to be removed if the worker dies."""

    cluster_id: str


@dataclass(frozen=True)
class Answer:
    """How an order ended: with a verdict, or with an error of the harness. `broken`: it says
    nothing and is to be played again."""

    run_id: str
    seconds: float
    verdict: str | None = None
    error: str | None = None
    broken: bool = False


@dataclass
class _Kept:
    """A cluster whose nodes have been started, and what it fits."""

    cluster: DockerCluster
    ingredients: Ingredients
    fits: str
    runs: int = 0
    spoiled: bool = False
    stack: ExitStack = field(default_factory=ExitStack)


def cluster_key(bound: ResolvedPlan) -> str:
    """Equal for two plans that may be played on one cluster."""
    needs = sorted(needs_of(step.nemesis for step in bound.steps))
    fits = _key(bound)
    return f"{fits} {needs}" if fits else new_run_id()


def may_be_kept(bound: ResolvedPlan) -> bool:
    """Whether a cluster can be used again after this plan."""
    spoilt = any(isinstance(s.nemesis, SingleUse) and s.nemesis.single_use for s in bound.steps)
    return _key(bound) is not None and not spoilt


def _key(bound: ResolvedPlan) -> str | None:
    return bound.target.cluster_key(bound.plan) if isinstance(bound.target, Reusable) else None


def serve(scheduler: Connection, folder: Path, judge: Judge) -> None:
    """A worker's process: runs orders until there are none, and removes what it made."""
    os.setpgrp()  # a Ctrl-C is the scheduler's to pass on
    with Interrupts() as interrupts:
        orders: queue.SimpleQueue[Assignment | None] = queue.SimpleQueue()
        threading.Thread(target=_listen, args=(scheduler, orders), daemon=True).start()
        worker = _WorkerProcess(scheduler, folder, judge, interrupts)
        try:
            while (order := _next(orders, interrupts)) is not None:
                scheduler.send(worker.play(order))
        except (BrokenPipeError, Interrupted):
            pass  # the scheduler is gone, or wants us to stop
        finally:
            worker.drop()


def _next(
    orders: queue.SimpleQueue[Assignment | None], interrupts: Interrupts
) -> Assignment | None:
    """The next order; null when there is none to come."""
    while not interrupts.stop.is_set():
        with suppress(queue.Empty):
            return orders.get(timeout=0.5)
    return None


def _listen(scheduler: Connection, orders: queue.SimpleQueue[Assignment | None]) -> None:
    """Take orders in; a scheduler that is gone is a signal to stop at once."""
    try:
        while (order := scheduler.recv()) is not None:
            orders.put(order)
        orders.put(None)
        scheduler.recv()
    except (EOFError, OSError):
        orders.put(None)
        os.kill(os.getpid(), signal.SIGTERM)


@dataclass
class _WorkerProcess:
    scheduler: Connection
    folder: Path
    judge: Judge
    interrupts: Interrupts
    kept: _Kept | None = None

    def play(self, order: Assignment) -> Answer:
        """Play and judge one run, whatever happens."""
        begun_s = time.monotonic()

        def answer(**how: Any) -> Answer:
            return Answer(order.run_id, round(time.monotonic() - begun_s, 3), **how)

        try:
            bound = resolve(parse_plan(order.plan))
            kept = self._cluster_for(bound)
            begun_s = time.monotonic()  # of the run alone
            rundir = self._play(kept, bound, self.folder, order.run_id)
            return answer(verdict=self.judge(rundir)["verdict"])
        except Interrupted:
            return answer(broken=True, error="interrupted")
        except _Unusable as error:
            self.drop()
            return answer(broken=True, error=str(error))
        except Exception as error:  # a worker goes on, whatever broke: the run has failed
            self.drop()
            return answer(error=f"{type(error).__name__}: {error}")

    def drop(self) -> None:
        """Take the cluster down, if there is one; waits for a Docker daemon that restarts."""
        kept, self.kept = self.kept, None
        if kept is not None:
            with suppress(Exception):  # it stays registered: `ackloss clean` knows it
                _down(kept.cluster)
                state.forget(kept.cluster.run_id)
            kept.stack.close()

    def _cluster_for(self, bound: ResolvedPlan) -> _Kept:
        """The kept cluster, if the plan fits it, else a new one, warmed up if it may be kept."""
        fits = cluster_key(bound)
        if self.kept is not None and (self.kept.spoiled or self.kept.fits != fits):
            self.drop()
        if self.kept is None:
            self.kept = self._build(bound, fits)
            if may_be_kept(bound):
                with scratch() as folder:
                    self._play(self.kept, bound, Path(folder), new_run_id())
        return self.kept

    def _build(self, bound: ResolvedPlan, fits: str) -> _Kept:
        docker = _docker()
        with self.interrupts.raising():
            holding = holder(lambda _: None)
            ingredients = bound.target.prepare(bound.plan, lambda _: None)
        cluster = DockerCluster(new_run_id(), docker, holding.id)
        kept = self.kept = _Kept(cluster, ingredients, fits)
        kept.stack.enter_context(state.registered(cluster.run_id, self.folder))
        self.scheduler.send(Built(cluster.run_id))
        with self.interrupts.raising():
            start_nodes(bound, ingredients, cluster)
        return kept

    def _play(self, kept: _Kept, bound: ResolvedPlan, folder: Path, run_id: str) -> RunDir:
        """One run on this cluster, into its own folder, on a topic of its own."""
        target, used = bound.target, kept.runs > 0
        if isinstance(target, Reusable):
            bound = replace(bound, plan=target.fresh(bound.plan, kept.runs))
        rundir = RunDir.create(folder, run_id)
        record = RunMetadata.begin(rundir, bound.plan, command=[], file="campaign")
        record.update(cluster={"id": kept.cluster.run_id, "runs_before": kept.runs})
        how = RunOptions(run_id=run_id, folder=folder, interrupts=self.interrupts)
        kept.runs += 1
        kept.spoiled = not may_be_kept(bound)
        with record.outcome(), _unusable_before_it_began(record, used=used):
            run_on(kept.cluster, bound, kept.ingredients, record, how)
            self.interrupts.check()
            record.finish()
        if not kept.spoiled:
            kept.spoiled = not _as_it_was(kept.cluster, bound)
        return rundir


class _Unusable(HarnessFailure):
    """A kept cluster could not be used again: says nothing about the run."""


@contextmanager
def _unusable_before_it_began(record: RunMetadata, *, used: bool) -> Iterator[None]:
    """A kept cluster that does not even get a run begun is at fault itself."""
    try:
        yield
    except Interrupted:
        raise
    except AcklossError as error:
        if used and record.document["state"] == "preparing":
            raise _Unusable(f"the kept cluster could not be used again: {error}") from error
        raise


def _as_it_was(cluster: DockerCluster, bound: ResolvedPlan) -> bool:
    """Whether a run has left the cluster fit for the next one; removes the run's topic."""
    try:
        prove_unfaulted(cluster)
        if isinstance(bound.target, Reusable):
            bound.target.forget(cluster, bound.plan)
    except _TROUBLE:
        return False
    return True


_patient = retry(
    retry=retry_if_exception_type(_TROUBLE),
    stop=stop_after_delay(_DOCKER_BACK_S),
    wait=wait_fixed(3),
    reraise=True,
)


@_patient
def _down(cluster: DockerCluster) -> None:
    cluster.down()


@_patient
def _docker() -> Any:
    return connect()
