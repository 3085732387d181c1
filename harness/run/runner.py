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
from harness.protocols import HasLeaders, HasLogs, LeavesObjects, Node, RunCluster
from harness.protocols.clock import RunClock
from harness.run.availability import (
    levers_of,
    prove_unfaulted,
    refuse_unavailable,
    refuse_without_crashes,
)
from harness.run.final_read import NOT_FULLY_REPLICATED, read_everything, wait_until_replicated
from harness.run.interpreter import LoadReport, run_workload
from harness.run.interrupts import Interrupts
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
    after_last_op: Callable[[], None] = lambda: None


def play(bound: ResolvedPlan, how: RunOptions) -> RunDir:
    """Run one plan; returns its folder. Whatever is raised, what was begun has been undone and
    what was recorded is in the folder."""
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
        return state.registered(run_id, folder)
    return nullcontext()


def run_on(cluster: RunCluster, bound: ResolvedPlan, record: RunMetadata, how: RunOptions) -> None:
    """Run a plan on nodes that have been started, from bringing them up to their logs."""
    with cluster.clock.taking_part("main"):
        with how.interrupts.raising(), record.timed("cluster_s"):
            _come_up(bound, cluster, record)
        refuse_unavailable(bound, cluster)
        prove_unfaulted(cluster)
        try:
            _play(bound, cluster, record, how)
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
            state.write_entry(how.run_id, how.folder / how.run_id, keep=True)
        else:
            how.status.enter("taking the cluster down")
            cluster.down()
            state.forget(how.run_id)


def _come_up(bound: ResolvedPlan, cluster: RunCluster, record: RunMetadata) -> None:
    """Wait until the cluster is whole and has the plan's topic; write down what it is."""
    plan, target, image = bound.plan, bound.target, cluster.image
    clients = client_versions(target.writer(plan), *target.readers(plan))
    version = image.version if image is not None else None
    record.update(versions={**record.document["versions"], **clients, "target": version})
    if image is not None:
        record.update(image={"reference": image.reference, "id": image.id, "digest": image.digest})
    try:
        target.bring_up(cluster, plan, timeout_s=_UP_S)
        effective = target.effective(cluster, plan)
    except TimeoutError as error:
        _keep_logs(bound, cluster, record.rundir)
        logs = record.rundir.path / "nodes"
        raise HarnessFailure(
            f"the cluster did not come up: {error}",
            file=str(logs),
            hint=f"the last of its log: {last_words(logs)}",
        ) from error
    requested = target.requested(plan)
    record.update(
        nodes=[
            {"name": node.name, "roles": sorted(node.roles), "address": node.address}
            for node in cluster.nodes.values()
        ],
        settings={"asked": requested["settings"], "effective": effective["settings"]},
        features={"asked": requested["features"], "effective": effective["features"]},
        promises=target.promises(plan.document(), effective["settings"]).document(),
    )
    for sentence in effective.get("warnings", ()):
        record.warn(sentence)


def _play(
    bound: ResolvedPlan,
    cluster: RunCluster,
    record: RunMetadata,
    how: RunOptions,
) -> None:
    """Workload, schedule and observer, then the final reads, all on the run's own clock."""
    rundir, plan, stop = record.rundir, bound.plan, how.interrupts.stop
    if not isinstance(bound.target, HasLeaders):
        raise HarnessFailure(f"{plan.target.system} cannot be asked who leads")
    client = bound.target.client(cluster, plan)
    refuse_without_crashes(bound, client)
    levers = levers_of(bound, cluster, client)
    clock = RunClock(cluster.clock)
    record.update(state="running", wall_time=clock.wall_time)
    with (
        closing(Journal(rundir.faults, clock.now_ns)) as journal,
        ParquetWriter(rundir.observations, OBSERVATIONS, run_id=how.run_id) as observations,
        Recorder(rundir.history, run_id=how.run_id) as recorder,
        Observer(bound.target, cluster.nodes, plan, clock, observations.append) as observer,
    ):
        faults = Faults(levers, journal, partial(_note, recorder, clock), plan.seed)
        _show(how.status, clock, recorder, faults, observer)
        schedule = Schedule(plan, bound.steps, cluster.nodes, faults, observer, clock)
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
        how.after_last_op()
        record.update(load=_load(report))
        if not stop.is_set():
            record.update(state="reading")
            with record.timed("read_s"):
                how.status.enter("waiting until fully replicated")
                if not wait_until_replicated(plan, observer, stop, clock):
                    record.warn(NOT_FULLY_REPLICATED)
                how.status.enter("final read")
                read_everything(bound.target, cluster, plan, clock, recorder, rundir, stop)


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
