"""The part of a run that each of its cells has separately: clients, load, history, final read.

A run without cells is a run of one, whose folder is the run's own. A cell that fails does not
affect the others: its record says so, and the run continues while there is one that does not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial

from harness.errors import Interrupted
from harness.history import OBSERVATIONS
from harness.history.parquet_writer import ParquetWriter
from harness.models import LOG
from harness.protocols import Client, HasFinal, RunCluster
from harness.protocols.clock import RunClock
from harness.protocols.groups import GroupSettings
from harness.run.answers import promises_of, settings_of
from harness.run.clients import Clients
from harness.run.final_read import read_everything
from harness.run.groups import GroupRun
from harness.run.interpreter import run_final, run_workload
from harness.run.loop import LoadReport
from harness.run.metadata import RunMetadata
from harness.run.observer import Watched
from harness.run.recorder import Recorder
from harness.run.resolving import ResolvedPlan
from harness.run.together import Meeting
from harness.run.workload import workload_of


@dataclass
class CellRun:
    """One cell during its run; its methods are called in their order. `resolved` is its own
    plan, `record` its own run.json."""

    name: str
    resolved: ResolvedPlan
    record: RunMetadata
    cluster: RunCluster
    group: GroupRun | None = None
    failure: Exception | None = None

    def bring_up(self, timeout_s: float) -> None:
        """Wait until its object is there."""
        self.resolved.target.bring_up(self.cluster, self.resolved.plan, timeout_s=timeout_s)

    def read_settings(self) -> None:
        """Record the settings that it has, and what is promised with them."""
        target, plan = self.resolved.target, self.resolved.plan
        settings = settings_of(target, self.cluster, plan)
        self.record.update(
            settings={
                "asked": settings.requested,
                "effective": settings.effective,
                "origins": settings.origins,
                "shortened": settings.shortened,
            },
            features={
                "asked": settings.requested_features,
                "effective": settings.effective_features,
            },
            promises=promises_of(
                target, plan, settings.effective, model=self.resolved.workload.model
            ).document(),
        )
        for sentence in settings.warnings:
            self.record.warn(sentence)

    @contextmanager
    def connected(self) -> Iterator[None]:
        """End clients that are processes of the user's, and consumers, with the run."""
        with ExitStack() as stack:
            self.clients = stack.enter_context(Clients(self.resolved, self.cluster, self.record))
            if isinstance(group := self.resolved.workload, GroupSettings):
                target, plan = self.resolved.target, self.resolved.plan
                made = GroupRun(target, self.cluster, plan, group, self.cluster.clock)
                self.group = stack.enter_context(made)
            yield

    def begin(self) -> Client:
        """Connect its clients."""
        self.client = self.clients.begin()
        return self.client

    @contextmanager
    def recording(self, clock: RunClock) -> Iterator[Watched]:
        """Record while the context lasts; yields what is to be watched."""
        self.clock, rundir = clock, self.record.rundir
        self.clients.begin_at(clock)
        run_id = self.record.document["run_id"]
        with (
            ParquetWriter(rundir.observations, OBSERVATIONS, run_id=run_id) as observations,
            Recorder(rundir.history, run_id=run_id) as self.recorder,
            self.group.recording(clock, rundir) if self.group else nullcontext(),
        ):
            yield Watched(self.resolved.plan, observations.append)

    def run(self, healed: Meeting, stop: threading.Event) -> None:
        """Run the workload. All cells meet before they drain."""
        with self._failing_alone():
            try:
                self._note_load(
                    run_workload(
                        self.resolved.workload,
                        self.client,
                        plan=self.resolved.plan,
                        recorder=self.recorder,
                        clock=self.clock,
                        stop=stop,
                        before_drain=partial(healed.come, self.name),
                    )
                )
            finally:
                healed.leave(self.name)
            if self.group is not None:
                self.group.drain(stop)

    def play_final(self, stop: threading.Event) -> None:
        """Run the final scripts over new clients: those of the load are closed, so all of it has
        completed."""
        workload = self.resolved.workload
        assert isinstance(workload, HasFinal)
        with self._failing_alone():
            self._note_load(
                run_final(
                    workload,
                    self.begin(),
                    self.load,
                    plan=self.resolved.plan,
                    recorder=self.recorder,
                    clock=self.clock,
                    stop=stop,
                )
            )

    def read_all(self, stop: threading.Event) -> None:
        """Read back everything that its object holds."""
        with self._failing_alone():
            read_everything(
                self.resolved.target,
                self.cluster,
                self.resolved.plan,
                self.clock,
                self.recorder,
                self.record.rundir,
                stop,
                in_parts=self.resolved.workload.model == LOG.name,
            )

    @contextmanager
    def _failing_alone(self) -> Iterator[None]:
        """Keep what is raised, and record that the cell has failed."""
        try:
            yield
        except Interrupted:
            raise
        except Exception as error:
            self.failure = error
            self.record.fail(error)

    def _note_load(self, report: LoadReport) -> None:
        """Record how the load went, and whether the generator itself was starved (and why)."""
        self.load = report
        starved = {"starved": report.starved is not None, "why": report.starved}
        self.record.update(load={**asdict(report), **starved})


def cell_runs(resolved: ResolvedPlan, record: RunMetadata, cluster: RunCluster) -> list[CellRun]:
    """The cells of a run, with a folder each; a run without cells is one, in the run's folder."""
    if not resolved.cells:
        return [CellRun("", resolved, record, cluster)]
    return [
        CellRun(
            cell.name,
            replace(resolved, plan=cell.plan, workload=workload_of(cell.plan)),
            record.begin_cell(cell.name, cell.plan, overrides=cell.overrides),
            cluster,
        )
        for cell in resolved.cells
    ]


def still_going(cells: Sequence[CellRun]) -> list[CellRun]:
    """Those that have not failed. If there are none, raises what made the first one fail."""
    going = [cell for cell in cells if cell.failure is None]
    if not going and cells[0].failure is not None:
        raise cells[0].failure
    return going
