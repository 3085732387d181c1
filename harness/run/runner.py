"""Runs one plan: the life of a run, from an empty folder to the final reads.

    cluster up -> target up -> settings read back -> proven fully replicated and unfaulted
    -> workload | fault schedule | observer -> heal all -> every op completed, clients closed
    -> wait until fully replicated -> final reads -> node logs -> down

A run holds one cell or several (`harness.run.cell_run`): they share the cluster, the schedule and
its journal, and have everything else separately.

Cleanup is registered before the step that it undoes. Checking is another stage, which reads the
files that are left here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from harness import failures
from harness.errors import AcklossError, EnvironmentFailure, HarnessFailure
from harness.failures import validated
from harness.faults.injection import Faults
from harness.faults.journal import Journal
from harness.history.run_folder import RunDir, write_atomically
from harness.machine import state
from harness.machine.checks import DISK_MIN_BYTES, free_bytes, gib
from harness.machine.priority import larger_share
from harness.models import MODELS
from harness.plan import Plan
from harness.protocols import (
    GuestTarget,
    HasFinal,
    Node,
    Order,
    Provider,
    RunCluster,
    Target,
)
from harness.protocols.clock import RunClock
from harness.run.availability import (
    levers_of,
    prepare_nodes,
    prove_unfaulted,
    refuse_unavailable,
    refuse_without_crashes,
)
from harness.run.by_hand import begin_by_hand
from harness.run.cell_run import CellRun, Meeting, cell_runs, still_going, together
from harness.run.final_read import NOT_FULLY_REPLICATED, in_sync, readers_of, wait_until_replicated
from harness.run.interrupts import Interrupts
from harness.run.metadata import RunMetadata, client_versions
from harness.run.observer import Observer
from harness.run.recorder import Recorder
from harness.run.resolving import ResolvedPlan
from harness.run.schedule import Schedule

# What happens before a run or a campaign begins: cleanup after dead runs, and a check of what the
# run needs. The same for the command line and for Python.


def clean_before(provider: Provider, say: Callable[[str], None]) -> None:
    """Remove what dead runs left and report it, if this kind of cluster can leave anything. A
    failure is reported and stops nothing."""
    if not provider.outlives:
        return
    from harness.clusters.cleaning import clean_all

    try:
        cleaned = clean_all(dry_run=False, kept=False, only=provider)
    except EnvironmentFailure:
        return  # the run itself fails with a better explanation
    except AcklossError as error:
        say(f"cannot remove what dead runs left: {error}")
        return
    for name in cleaned.removed:
        say(f"left by a dead run, removed: {name}")
    for name in cleaned.undone:
        say(f"in force until then: {name}")
    for sentence in cleaned.left if provider.named_by == "inventory" else ():
        say(sentence)


def require(provider: Provider, order: Order, *, runs: Path) -> None:
    """Raise EnvironmentFailure if a run would lack what its cluster needs, or disk space."""
    if (free := free_bytes(runs)) < DISK_MIN_BYTES:
        raise EnvironmentFailure(
            f"{gib(free)} are free on the disk of run folders, "
            f"but a run needs {gib(DISK_MIN_BYTES)}",
            file=str(runs),
            hint="free some space or choose another disk with --out",
        )
    provider.require(order)


# The logs of nodes: how they are got, and what they report about trouble, in one sentence.
#
# No verdict depends on them, so what cannot be had of them is reported and fails no run.

_TROUBLE: Final = re.compile(r"ERROR|FATAL|Exception|rror:")
_FRAME: Final = re.compile(r"\s*(at |\.\.\. \d+ more)")
_LONGEST: Final = 300


def logs_of(
    node: Node, target: Target[Any], cluster: RunCluster
) -> tuple[dict[str, bytes], list[str]]:
    """A node's logs by the names of files, with what its process printed, and a sentence for each
    of the two that could not be had, whatever was raised."""
    logs, missing = dict[str, bytes](), list[str]()
    for source in (partial(target.logs, node), partial(_printed, node, cluster)):
        try:
            given = validated("logs()", source(), Mapping[str, bytes])
            logs |= {Path(name).name: log for name, log in given.items()}
        except Exception as error:
            missing.append(f"not all logs of {node.name} were kept: {failures.reason(error)}")
    return logs, missing


def _printed(node: Node, cluster: RunCluster) -> dict[str, bytes]:
    content = cluster.output(node)
    return {} if content is None else {"console.log": content}


def last_words(nodes: Path) -> str:
    """The last lines that report trouble in `NODE/*.log`: two a log, four in all; frames of Java's
    stack traces do not help a reader."""
    found: list[str] = []
    for path in sorted(nodes.glob("*/*.log")):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        trouble = [line for line in lines if _TROUBLE.search(line) and not _FRAME.match(line)]
        found += [f"{path.parent.name}: {line.strip()[:_LONGEST]}" for line in trouble[-2:]]
    return " | ".join(found[:4]) or "no error in it"


_UP_S: Final = 90.0
_AT_ONCE: Final = 4
"""Cells that are brought up, or read back, at the same time."""


@dataclass
class Status:
    """What is shown to a user who is watching; read from another thread at any time."""

    phase: str = "preparing"
    clock: RunClock | None = None
    recorders: list[Recorder] = field(default_factory=list)
    faults: Faults | None = None
    observer: Observer | None = None
    schedule: Schedule | None = None
    on_phase: Callable[[str], None] = field(default=lambda _: None)

    def enter(self, phase: str) -> None:
        self.phase = phase
        self.on_phase(phase)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a plan is to be run, beside what the plan states."""

    run_id: str
    folder: Path
    interrupts: Interrupts
    status: Status = field(default_factory=Status)
    keep_cluster: bool = False
    command: list[str] = field(default_factory=list)
    plan_file: str = "plan"


def run_plan(resolved: ResolvedPlan, how: RunOptions) -> RunDir:
    """Run one plan; returns its folder. Whatever is raised, what was begun has been undone and
    what was recorded is in the folder."""
    begin_by_hand(resolved)
    if resolved.operator is not None:
        how.interrupts.at_second(resolved.operator.leave)
    with how.interrupts.raising():
        cluster = resolved.provider.cluster(resolved.order, how.run_id, how.status.enter)
    rundir = RunDir.create(how.folder, how.run_id)
    record = RunMetadata.begin(
        rundir,
        resolved.plan,
        command=how.command,
        file=how.plan_file,
        simulated=resolved.provider.simulated,
        forced=resolved.unsupported,
    )
    with record.outcome():
        theirs = isinstance(resolved.target, GuestTarget)
        end = "leaving the cluster as it was" if theirs else "taking the cluster down"
        with registered(resolved, how.run_id, rundir.path), _taken_down(cluster, how, phase=end):
            with how.interrupts.raising(), record.timed("cluster_s"):
                how.status.enter("reaching the cluster" if theirs else "starting the cluster")
                cluster.start()
            run_on(cluster, resolved, record, how)
        how.interrupts.check()
        record.finish()
    return rundir


def registered(resolved: ResolvedPlan, run_id: str, folder: Path) -> AbstractContextManager[None]:
    """Register a run on this machine, if anything of it could outlive its process."""
    if resolved.provider.outlives:
        return state.registered(run_id, folder, kind=resolved.provider.plugin)
    return nullcontext()


def run_on(
    cluster: RunCluster, resolved: ResolvedPlan, record: RunMetadata, how: RunOptions
) -> None:
    """Run a plan on nodes that have been started, from bringing them up to their logs."""
    cells = cell_runs(resolved, record, cluster)
    with cluster.clock.taking_part("main"), how.interrupts.unless_lost(cluster):
        with how.interrupts.raising(), record.timed("cluster_s"):
            prepare_nodes(resolved, cluster)
            _come_up(resolved, cells, cluster, record)
        refuse_unavailable(resolved, cluster)
        prove_unfaulted(cluster)
        try:
            with ExitStack() as stack:
                for cell in cells:
                    stack.enter_context(cell.connected())
                _play(resolved, cluster, cells, record, how)
        finally:
            how.status.enter("collecting logs")
            _warn(record, _keep_logs(resolved, cluster, record.rundir))


@contextmanager
def _taken_down(cluster: RunCluster, how: RunOptions, *, phase: str) -> Iterator[None]:
    """Takes the cluster down whatever happens (unless the user wants to keep it)."""
    try:
        yield
    finally:
        if how.keep_cluster and cluster.nodes:
            cluster.keep()
            state.keep(how.run_id)
        else:
            how.status.enter(phase)
            cluster.down()
            state.forget(how.run_id)


def _come_up(
    resolved: ResolvedPlan, cells: Sequence[CellRun], cluster: RunCluster, record: RunMetadata
) -> None:
    """Wait until the cluster is fully replicated and has what the workload writes to; write down
    what it is."""
    plan, target, image = resolved.plan, resolved.target, cluster.image
    writer = validated(f"the target {target.plugin!r}: writer()", target.writer(plan), str)
    clients = client_versions(writer, *readers_of(target, plan))
    version = image.version if image is not None else None
    record.update(versions={**record.document["versions"], **clients, "target": version})
    if image is not None:
        record.update(image={"reference": image.reference, "id": image.id, "digest": image.digest})
    try:
        up = [partial(cell.bring_up, _UP_S) for cell in cells]
        together(cluster.clock, "bring-up", up, at_most=_AT_ONCE)
        _flush(cluster)
        record.update(
            nodes=[
                {"name": node.name, "roles": sorted(node.roles), "address": node.address}
                for node in cluster.nodes.values()
            ]
        )
        read = [cell.read_settings for cell in cells]
        together(cluster.clock, "settings", read, at_most=_AT_ONCE)
    except TimeoutError as error:
        _warn(record, _keep_logs(resolved, cluster, record.rundir))
        logs = record.rundir.path / "nodes"
        raise HarnessFailure(
            f"the cluster did not come up: {error}",
            file=str(logs),
            hint=f"the last of its log: {last_words(logs)}",
        ) from error


def _flush(cluster: RunCluster) -> None:
    """Flush what was written so far to disks that can lose power: a system that was just created is
    not like one that has run for long."""
    for node in cluster.nodes.values():
        if node.own_disk is not None:
            node.own_disk.flush()


def _play(
    resolved: ResolvedPlan,
    cluster: RunCluster,
    cells: Sequence[CellRun],
    record: RunMetadata,
    how: RunOptions,
) -> None:
    """Workload, schedule and observer, then the final reads, all on the run's own clock."""
    client, *_ = [cell.begin() for cell in cells]
    refuse_without_crashes(resolved, client)
    groups = [cell.group for cell in cells if cell.group is not None]
    levers = levers_of(resolved, cluster, client, [group.consumers for group in groups])
    if groups:
        how.status.enter("waiting until every partition is assigned")
        together(cluster.clock, "groups", [group.begin for group in groups])
    clock = RunClock(cluster.clock)
    record.update(state="running", wall_time=clock.wall_time)
    with ExitStack() as stack:
        stack.callback(record.copy_journal)
        journal = stack.enter_context(closing(Journal(record.rundir.faults, clock.now_ns)))
        watched = [stack.enter_context(cell.recording(clock)) for cell in cells]
        observer = stack.enter_context(Observer(resolved.target, cluster.nodes, watched, clock))
        faults = Faults(
            levers,
            journal,
            note=partial(_note, cells, clock),
            seed=resolved.plan.seed,
            in_order=resolved.provider.simulated,
        )
        _show(how.status, clock, cells, faults, observer)
        _play_load(resolved, cluster, cells, record, how, faults, observer, clock)
        _warn(record, observer.new_reports())
        _end(resolved, cells, record, how, observer, clock)
        _warn(record, observer.new_reports())


def _warn(record: RunMetadata, sentences: Iterable[str]) -> None:
    for sentence in sentences:
        record.warn(sentence)


def _play_load(
    resolved: ResolvedPlan,
    cluster: RunCluster,
    cells: Sequence[CellRun],
    record: RunMetadata,
    how: RunOptions,
    faults: Faults,
    observer: Observer,
    clock: RunClock,
) -> None:
    """The load of all cells under one schedule, which is ended, and all healed, once the last of
    them begins nothing more. A selector such as `leader` is about the first cell."""
    first = cells[0].resolved.plan
    words = resolved.target.vocabulary()
    schedule = Schedule(first, resolved.steps, cluster.nodes, faults, observer, clock, words)
    how.status.schedule = schedule
    healed = Meeting(clock, len(cells), schedule.finish)
    with record.timed("run_s"), _share(resolved, cells), schedule.running():
        together(clock, "load", [partial(cell.run, healed, how.interrupts.stop) for cell in cells])


def _share(resolved: ResolvedPlan, cells: Sequence[CellRun]) -> AbstractContextManager[object]:
    """A larger share of the machine, unless time is simulated or a load runs at full speed."""
    rates = [cell.resolved.plan.workload.rate_per_s for cell in cells]
    simulated = resolved.provider.simulated or not all(rates)
    return nullcontext() if simulated else larger_share(sum(rates))


def _end(
    resolved: ResolvedPlan,
    cells: Sequence[CellRun],
    record: RunMetadata,
    how: RunOptions,
    observer: Observer,
    clock: RunClock,
) -> None:
    """What is done over the healed cluster, unless the user wants to stop: the final scripts of a
    workload that has some, and the final read of a model that has one. Before each, and at the end
    of any other, the replicas are waited for."""
    stop, going = how.interrupts.stop, still_going(cells)
    final = isinstance(resolved.workload, HasFinal)
    read = MODELS[resolved.workload.model].final_read
    if (final or not read) and not stop.is_set():
        with record.timed("read_s"):
            _recover(resolved.plan, cells, record, how, observer, clock)
            if final:
                how.status.enter("final read")
                together(clock, "final", [partial(cell.play_final, stop) for cell in going])
    if read and not stop.is_set():
        with record.timed("read_s"):
            _recover(resolved.plan, cells, record, how, observer, clock)
            how.status.enter("final read")
            reads = [partial(cell.read_all, stop) for cell in still_going(cells)]
            together(clock, "read", reads, at_most=_AT_ONCE)
    still_going(cells)


def _recover(
    plan: Plan,
    cells: Sequence[CellRun],
    record: RunMetadata,
    how: RunOptions,
    observer: Observer,
    clock: RunClock,
) -> None:
    """Wait until every replica is in sync, and note of each cell who is."""
    record.update(state="reading")
    how.status.enter("waiting until fully replicated")
    if not wait_until_replicated(plan.final.settle_s, observer, how.interrupts.stop, clock):
        record.warn(NOT_FULLY_REPLICATED)
    for number, cell in enumerate(cells if observer.observes else ()):
        noted = in_sync(observer.situation(number), cell.resolved.plan)
        cell.record.update(in_sync=[asdict(each) for each in noted])


def _show(
    status: Status,
    clock: RunClock,
    cells: Sequence[CellRun],
    faults: Faults,
    observer: Observer,
) -> None:
    status.clock, status.recorders = clock, [cell.recorder for cell in cells]
    status.faults, status.observer = faults, observer
    status.enter("running")


def _note(
    cells: Sequence[CellRun],
    clock: RunClock,
    kind: str,
    nemesis: str,
    fault: str,
    nodes: str,
    what: str,
) -> None:
    """A row of the nemesis in every cell's history."""
    now_ns = clock.now_ns()
    for cell in cells:
        cell.recorder.note(kind, f=nemesis, key=fault, node=nodes, error=what, time_ns=now_ns)


def _keep_logs(resolved: ResolvedPlan, cluster: RunCluster, rundir: RunDir) -> list[str]:
    """Copy every node's logs, and what its process printed, into the run folder; returns sentences
    about what could not be had. No verdict depends on it."""

    def keep(node: Node) -> list[str]:
        folder = rundir.node(node.name)
        folder.mkdir(parents=True, exist_ok=True)
        logs, missing = logs_of(node, resolved.target, cluster)
        for name, content in logs.items():
            write_atomically(folder / name, content)
        return missing

    with ThreadPoolExecutor(max_workers=6) as pool:
        return [each for missing in pool.map(keep, cluster.nodes.values()) for each in missing]
