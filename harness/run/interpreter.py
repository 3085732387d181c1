"""Runs a workload: the load of a plan, and the final scripts after it (see `harness.run.loop`)."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Protocol

from harness.plan import Plan
from harness.protocols import Client, HasFinal, Workload
from harness.protocols.clock import Clock
from harness.run.loop import LoadReport, Loop
from harness.run.operations import Rules
from harness.run.recorder import Recorder


class Finishing(Workload, HasFinal, Protocol):
    """A workload with final scripts."""


def run_workload(
    workload: Workload,
    client: Client,
    *,
    plan: Plan,
    recorder: Recorder,
    clock: Clock,
    stop: threading.Event,
    before_drain: Callable[[], None] = lambda: None,
) -> LoadReport:
    """Run the plan's workload for its duration, or until `stop` is set or the recorder fails.

    Then `before_drain` (healing the faults) runs in a thread beside the loop, which continues to
    complete operations; then what is in flight is waited for, and the client is closed: every
    operation is completed when this returns. Raises what `before_drain` raised.
    """
    requested, rules = plan.workload, Rules.of(workload, plan)
    scripts = rules.scripts(workload.script, plan)
    loop = Loop(scripts, rules, client, recorder, clock, stop, rate_per_s=requested.rate_per_s)
    with _RARE_COLLECTIONS, closing(loop):
        report = loop.run(int(requested.duration_s * 1e9))
        healed = clock.spawn("before-drain", before_drain)
        loop.turn_until(healed.done)
        healed.result()
        loop.drain(plan.final.drain_s)
    return replace(report, last_process=loop.last_process)


def run_final(
    workload: Finishing,
    client: Client,
    load: LoadReport,
    *,
    plan: Plan,
    recorder: Recorder,
    clock: Clock,
    stop: threading.Event,
) -> LoadReport:
    """Run the final scripts over a new client, each as a new process, until all have ended, for
    `final.read_s` at most; returns the report of the load with their operations counted in."""
    processes = plan.workload.processes
    first = (load.last_process // processes + 1) * processes
    rules = Rules.of(workload, plan)
    scripts = rules.scripts(workload.final, plan)
    loop = Loop(scripts, rules, client, recorder, clock, stop, rate_per_s=0, first=first)
    with _RARE_COLLECTIONS, closing(loop):
        final = loop.run(int(plan.final.read_s * 1e9))
        loop.drain(plan.final.drain_s)
    return replace(
        load,
        attempted=load.attempted + final.attempted,
        last_process=loop.last_process,
        final_attempted=final.attempted,
        final_from_ns=final.begun_ns,
        cut_short=load.cut_short or final.cut_short,
    )


class _RareCollections:
    """What exists now is left out of garbage collection, which then runs far more rarely: the loop
    makes no cycles, and a full collection of a big process would delay it.

    What earlier runs left is collected before: clients are cycles, and a process that executes
    hundreds of runs would run out of what each of them holds (thread-local storage has 1,024 keys).

    Cells of a run enter it in parallel: it is in force from the first of them to the last. What
    the calling program has left out of garbage collection stays so.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._thresholds, self._theirs = gc.get_threshold(), False

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside > 1:
                return
            self._thresholds = gc.get_threshold()
            gc.collect()
            self._theirs = gc.get_freeze_count() > 0
            if not self._theirs:
                gc.freeze()
            gc.set_threshold(100_000, *self._thresholds[1:])

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                gc.set_threshold(*self._thresholds)
                if not self._theirs:
                    gc.unfreeze()


_RARE_COLLECTIONS = _RareCollections()
