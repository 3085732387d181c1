"""Runs one plan: the life of a run, from an empty folder to the final reads.

    cluster up -> target up -> settings read back -> proven fully replicated and unfaulted
    -> workload | fault schedule | observer -> heal all -> every op completed, clients closed
    -> wait until fully replicated -> final reads -> node logs -> down

Cleanup is registered before the step that it undoes. Checking is another stage, which reads the
files that are left here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import HarnessFailure
from harness.faults.injection import Faults
from harness.faults.journal import Journal
from harness.history import OBSERVATIONS
from harness.history.parquet_writer import ParquetWriter
from harness.history.run_folder import RunDir, write_atomically
from harness.machine import state
from harness.models import MODELS
from harness.protocols import (
    EndsByItself,
    HasFinal,
    HasLogs,
    HasOwnDisk,
    LeavesObjects,
    Node,
    RunCluster,
    vocabulary_of,
)
from harness.protocols.clock import RunClock
from harness.run.answers import promises_of, readers_of, settings_of, writer_of
from harness.run.availability import (
    levers_of,
    prove_unfaulted,
    refuse_unavailable,
    refuse_without_crashes,
)
from harness.run.by_hand import begin_by_hand
from harness.run.clients import Clients
from harness.run.final_read import NOT_FULLY_REPLICATED, read_everything, wait_until_replicated
from harness.run.interpreter import run_final, run_workload
from harness.run.interrupts import Interrupts
from harness.run.loop import LoadReport
from harness.run.metadata import RunMetadata, client_versions
from harness.run.node_logs import last_words
from harness.run.observer import Observer
from harness.run.recorder import Recorder
from harness.run.resolving import ResolvedPlan
from harness.run.schedule import Schedule

_UP_S = 90.0


@dataclass
class Status:
    """What someone watching wants to know; read from another thread at any time."""

    phase: str = "preparing"
    clock: RunClock | None = None
    recorder: Recorder | None = None
    faults: Faults | None = None
    observer: Observer | None = None
    on_phase: Callable[[str], None] = field(default=lambda _: None)

    def enter(self, phase: str) -> None:
        self.phase = phase
        self.on_phase(phase)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a plan is to be played, beside what the plan says."""

    run_id: str
    folder: Path
    interrupts: Interrupts
    status: Status = field(default_factory=Status)
    keep_cluster: bool = False
    command: list[str] = field(default_factory=list)
    plan_file: str = "plan"


def play(bound: ResolvedPlan, how: RunOptions) -> RunDir:
    """Run one plan; returns its folder. Whatever is raised, what was begun has been undone and
    what was recorded is in the folder."""
    begin_by_hand(bound)
    if bound.operator is not None:
        how.interrupts.at_second(bound.operator.leave)
    with how.interrupts.raising():
        cluster = bound.provider.cluster(bound.order, how.run_id, how.status.enter)
    rundir = RunDir.create(how.folder, how.run_id)
    record = RunMetadata.begin(
        rundir,
        bound.plan,
        command=how.command,
        file=how.plan_file,
        simulated=bound.provider.simulated,
        forced=bound.unsupported,
    )
    with record.outcome():
        with registered(bound, how.run_id, rundir.path), _taken_down(cluster, how):
            with how.interrupts.raising(), record.timed("cluster_s"):
                how.status.enter("starting the cluster")
                cluster.start()
            run_on(cluster, bound, record, how)
        how.interrupts.check()
        record.finish()
    return rundir


def registered(bound: ResolvedPlan, run_id: str, folder: Path) -> AbstractContextManager[None]:
    """Register a run on this machine, if anything of it could outlive its process."""
    if isinstance(bound.provider, LeavesObjects):
        return state.registered(run_id, folder, kind=bound.provider.plugin)
    return nullcontext()


def run_on(cluster: RunCluster, bound: ResolvedPlan, record: RunMetadata, how: RunOptions) -> None:
    """Run a plan on nodes that have been started, from bringing them up to their logs."""
    with cluster.clock.taking_part("main"), how.interrupts.unless_lost(cluster):
        with how.interrupts.raising(), record.timed("cluster_s"):
            _come_up(bound, cluster, record)
        refuse_unavailable(bound, cluster)
        prove_unfaulted(cluster)
        try:
            with Clients(bound, cluster, record) as clients:
                _play(bound, cluster, clients, record, how)
        finally:
            how.status.enter("collecting logs")
            _keep_logs(bound, cluster, record.rundir)


@contextmanager
def _taken_down(cluster: RunCluster, how: RunOptions) -> Iterator[None]:
    """Takes the cluster down whatever happens (unless the user wants to keep it)."""
    try:
        yield
    finally:
        if how.keep_cluster and cluster.nodes:
            if isinstance(cluster, EndsByItself):
                cluster.keep()
            state.keep(how.run_id)
        else:
            how.status.enter("taking the cluster down")
            cluster.down()
            state.forget(how.run_id)


def _come_up(bound: ResolvedPlan, cluster: RunCluster, record: RunMetadata) -> None:
    """Wait until the cluster is whole and has the plan's topic; write down what it is."""
    plan, target, image = bound.plan, bound.target, cluster.image
    clients = client_versions(writer_of(target, plan), *readers_of(target, plan))
    version = image.version if image is not None else None
    record.update(versions={**record.document["versions"], **clients, "target": version})
    if image is not None:
        record.update(image={"reference": image.reference, "id": image.id, "digest": image.digest})
    try:
        target.bring_up(cluster, plan, timeout_s=_UP_S)
        _flush(cluster)
        settings = settings_of(target, cluster, plan)
    except TimeoutError as error:
        _keep_logs(bound, cluster, record.rundir)
        logs = record.rundir.path / "nodes"
        raise HarnessFailure(
            f"the cluster did not come up: {error}",
            file=str(logs),
            hint=f"the last of its log: {last_words(logs)}",
        ) from error
    record.update(
        nodes=[
            {"name": node.name, "roles": sorted(node.roles), "address": node.address}
            for node in cluster.nodes.values()
        ],
        settings={"asked": settings.requested, "effective": settings.effective},
        features={
            "asked": settings.requested_features,
            "effective": settings.effective_features,
        },
        promises=promises_of(target, plan, settings.effective).document(),
    )
    for sentence in settings.warnings:
        record.warn(sentence)


def _flush(cluster: RunCluster) -> None:
    """Have on disks that can lose power what was written so far: a system that was just made is not
    one that has run for long."""
    for node in cluster.nodes.values():
        if isinstance(node, HasOwnDisk) and node.own_disk is not None:
            node.own_disk.flush()


def _play(
    bound: ResolvedPlan,
    cluster: RunCluster,
    clients: Clients,
    record: RunMetadata,
    how: RunOptions,
) -> None:
    """Workload, schedule and observer, then the final reads, all on the run's own clock."""
    rundir, plan, stop = record.rundir, bound.plan, how.interrupts.stop
    client = clients.begin()
    refuse_without_crashes(bound, client)
    levers = levers_of(bound, cluster, client)
    clock = RunClock(cluster.clock)
    clients.begin_at(clock)
    record.update(state="running", wall_time=clock.wall_time)
    with (
        closing(Journal(rundir.faults, clock.now_ns)) as journal,
        ParquetWriter(rundir.observations, OBSERVATIONS, run_id=how.run_id) as observations,
        Recorder(rundir.history, run_id=how.run_id) as recorder,
        Observer(bound.target, cluster.nodes, plan, clock, observations.append) as observer,
    ):
        faults = Faults(levers, journal, partial(_note, recorder, clock), plan.seed)
        _show(how.status, clock, recorder, faults, observer)
        schedule = Schedule(
            plan, bound.steps, cluster.nodes, faults, observer, clock, vocabulary_of(bound.target)
        )
        with record.timed("run_s"), schedule.running():
            report = run_workload(
                bound.workload,
                client,
                plan=plan,
                recorder=recorder,
                clock=clock,
                stop=stop,
                before_drain=schedule.finish,
            )
        for node, why in observer.failures.items():
            record.warn(f"{node} could not be observed at times: {why}")
        record.update(load=_load(report))
        ending = _Ending(bound, cluster, clients, record, how, observer, recorder, clock)
        ending.run_final_scripts(report)
        ending.read_all()


@dataclass(frozen=True)
class _Ending:
    """What is done over the healed cluster, unless the user wants to stop: the final scripts of a
    workload that has some, and the final read of a model that has one."""

    bound: ResolvedPlan
    cluster: RunCluster
    clients: Clients
    record: RunMetadata
    how: RunOptions
    observer: Observer
    recorder: Recorder
    clock: RunClock

    def run_final_scripts(self, load: LoadReport) -> None:
        """Over new clients: those of the load are closed, so all of it has completed."""
        workload, plan, stop = self.bound.workload, self.bound.plan, self.how.interrupts.stop
        if not isinstance(workload, HasFinal) or stop.is_set():
            return
        with self.record.timed("read_s"):
            self._recover()
            report = run_final(
                workload,
                self.clients.begin(),
                load,
                plan=plan,
                recorder=self.recorder,
                clock=self.clock,
                stop=stop,
            )
        self.record.update(load=_load(report))

    def read_all(self) -> None:
        """Read back all that the cluster holds."""
        target, plan, stop = self.bound.target, self.bound.plan, self.how.interrupts.stop
        if not MODELS[self.bound.workload.model].final_read or stop.is_set():
            return
        with self.record.timed("read_s"):
            self._recover()
            read_everything(
                target, self.cluster, plan, self.clock, self.recorder, self.record.rundir, stop
            )

    def _recover(self) -> None:
        """Wait until every replica is in sync."""
        plan, stop = self.bound.plan, self.how.interrupts.stop
        self.record.update(state="reading")
        self.how.status.enter("waiting until fully replicated")
        if not wait_until_replicated(plan, self.observer, stop, self.clock):
            self.record.warn(NOT_FULLY_REPLICATED)
        self.how.status.enter("final read")


def _show(
    status: Status, clock: RunClock, recorder: Recorder, faults: Faults, observer: Observer
) -> None:
    status.clock, status.recorder = clock, recorder
    status.faults, status.observer = faults, observer
    status.enter("running")


def _note(
    recorder: Recorder, clock: RunClock, kind: str, nemesis: str, fault: str, nodes: str, what: str
) -> None:
    """A row of the nemesis in the history."""
    recorder.note(kind, f=nemesis, key=fault, node=nodes, error=what, time_ns=clock.now_ns())


def _load(report: LoadReport) -> dict[str, Any]:
    """How the load went, and whether the generator itself was starved (and why)."""
    return {**asdict(report), "starved": report.starved is not None, "why": report.starved}


def _keep_logs(bound: ResolvedPlan, cluster: RunCluster, rundir: RunDir) -> None:
    """Copy every node's logs, and what its process printed, into the run folder."""

    def keep(node: Node) -> None:
        folder = rundir.node(node.name)
        folder.mkdir(parents=True, exist_ok=True)
        logs = bound.target.logs(node) if isinstance(bound.target, HasLogs) else {}
        if (printed := cluster.output(node)) is not None:
            logs = {**logs, "console.log": printed}
        for name, content in logs.items():
            write_atomically(folder / Path(name).name, content)

    with ThreadPoolExecutor(max_workers=6) as pool:
        list(pool.map(keep, cluster.nodes.values()))
