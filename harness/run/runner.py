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
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.pod import DockerNode
from harness.errors import HarnessFailure
from harness.faults.injection import Faults
from harness.faults.journal import Journal
from harness.history import OBSERVATIONS
from harness.history.parquet_writer import ParquetWriter
from harness.history.run_folder import RunDir, write_atomically
from harness.images.building import infra_image
from harness.images.daemon import connect
from harness.machine import state
from harness.protocols import HasLeaders, HasLogs, Ingredients
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
from harness.run.preparing import needs_of, prepared
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
    """Play one plan; returns its folder. Whatever is raised, what was begun has been undone and
    what was recorded is in the folder."""
    docker = connect()
    with how.interrupts.raising():
        holding = infra_image(how.status.enter)
        ingredients = bound.target.prepare(bound.plan, how.status.enter)
    rundir = RunDir.create(how.folder, how.run_id)
    record = RunMetadata.begin(
        rundir,
        bound.plan,
        command=how.command,
        file=how.plan_file,
        forced=bound.unsupported,
    )
    cluster = DockerCluster(how.run_id, docker, holding.id)
    with record.outcome():
        with state.registered(how.run_id, rundir.path), _taken_down(cluster, how):
            with how.interrupts.raising(), record.timed("cluster_s"):
                how.status.enter("starting the cluster")
                start_nodes(bound, ingredients, cluster)
            run_on(cluster, bound, ingredients, record, how)
        how.interrupts.check()
        record.finish()
    return rundir


def run_on(
    cluster: DockerCluster,
    bound: ResolvedPlan,
    ingredients: Ingredients,
    record: RunMetadata,
    how: RunOptions,
) -> None:
    """Play a plan on nodes that have been started, from their coming up to their logs."""
    with how.interrupts.raising(), record.timed("cluster_s"):
        _come_up(bound, ingredients, cluster, record)
    refuse_unavailable(bound, cluster)
    prove_unfaulted(cluster)
    try:
        _play(bound, cluster, record, how)
    finally:
        how.status.enter("collecting logs")
        _keep_logs(bound, cluster, record.rundir)


@contextmanager
def _taken_down(cluster: DockerCluster, how: RunOptions) -> Iterator[None]:
    """Takes the cluster down whatever happens (unless a person wants to keep it)."""
    try:
        yield
    finally:
        if how.keep_cluster and cluster.nodes:
            state.write_entry(how.run_id, how.folder / how.run_id, keep=True)
        else:
            how.status.enter("taking the cluster down")
            cluster.down()
            state.forget(how.run_id)


def start_nodes(bound: ResolvedPlan, ingredients: Ingredients, cluster: DockerCluster) -> None:
    """Make the network and start every node of a plan's cluster, prepared for the plan's faults;
    they are not up yet."""
    addresses = cluster.create_network(bound.target.names(bound.plan))
    specs = bound.target.nodes(bound.plan, ingredients, addresses)
    needs = needs_of(step.nemesis for step in bound.steps)
    specs = prepared(specs, needs, holder_id=cluster.infra_image)
    cluster.start(specs, ingredients.image.id, addresses)


def _come_up(
    bound: ResolvedPlan, ingredients: Ingredients, cluster: DockerCluster, record: RunMetadata
) -> None:
    """Wait until the cluster is whole and has the plan's topic; write down what it is."""
    plan, target, image = bound.plan, bound.target, ingredients.image
    clients = client_versions(target.writer(plan), *target.readers(plan))
    record.update(
        versions={**record.document["versions"], **clients, "target": image.version},
        image={"reference": image.reference, "id": image.id, "digest": image.digest},
    )
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
    cluster: DockerCluster,
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
    clock = RunClock()
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
                how.status.enter("waiting until whole")
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


def _keep_logs(bound: ResolvedPlan, cluster: DockerCluster, rundir: RunDir) -> None:
    """Copy every node's logs, and what its process printed, into the run folder."""

    def keep(node: DockerNode) -> None:
        folder = rundir.node(node.name)
        folder.mkdir(parents=True, exist_ok=True)
        logs = bound.target.logs(node) if isinstance(bound.target, HasLogs) else {}
        for name, content in {**logs, "console.log": cluster.output(node)}.items():
            write_atomically(folder / Path(name).name, content)

    with ThreadPoolExecutor(max_workers=6) as pool:
        list(pool.map(keep, cluster.nodes.values()))
