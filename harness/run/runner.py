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
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

from harness import failures
from harness.errors import AcklossError, EnvironmentFailure, HarnessFailure
from harness.failures import validated
from harness.faults.injection import Faults, unavailable
from harness.faults.journal import Journal, known_types
from harness.faults.records import ProcessRecord
from harness.history.metrics import Sample, samples_of, write_metrics
from harness.history.run_folder import RunDir, write_atomically
from harness.levers.client import ClientLever, ConsumerLever
from harness.levers.manual import ManualLever
from harness.machine import state
from harness.machine.checks import DISK_MIN_BYTES, free_bytes, gib
from harness.models import MODELS
from harness.protocols import (
    Act,
    Cluster,
    GuestTarget,
    Lever,
    Nemesis,
    Node,
    Order,
    Provider,
    RunCluster,
    Target,
)
from harness.protocols.clock import RunClock
from harness.protocols.faults import CLIENTS, ClientNemesis, Crashes
from harness.protocols.groups import Consumers
from harness.run.by_hand import begin_by_hand
from harness.run.cell_run import CellRun, Meeting, cell_runs, still_going, together
from harness.run.final_read import NOT_FULLY_REPLICATED, in_sync, readers_of, wait_until_replicated
from harness.run.interrupts import Interrupts
from harness.run.load import larger_share
from harness.run.metadata import RunMetadata, client_versions
from harness.run.observer import Observer
from harness.run.recorder import Recorder
from harness.run.resolving import ResolvedPlan, ResolvedStep
from harness.run.schedule import Schedule

# What can be done to a cluster: the levers of a run, the faults that are refused because one is
# missing, and the proof that no fault is in force before the first operation.


def levers_of(
    resolved: ResolvedPlan,
    cluster: Cluster,
    client: object = None,
    groups: Sequence[Consumers] = (),
) -> dict[str, Lever[Any]]:
    """Every lever of a run by name: those that the cluster offers, the target's own, the one over
    the workload's clients if they can crash, and the operator's. Raises EnvironmentFailure for a
    crash of clients that cannot."""
    levers = dict(cluster.levers)
    own = resolved.target.levers(cluster, resolved.plan)
    for name, lever in own.items():  # after a crash nothing could undo what no journal can hold
        if lever.record_type not in known_types(name).values():
            raise HarnessFailure(
                f"the target {resolved.target.plugin!r}: the lever {name!r} has the undo record "
                f"{lever.record_type.__name__}, which it does not declare",
                hint="declare it in record_types",
            )
    levers |= own
    if isinstance(client, Crashes):
        levers[ClientLever.name] = ClientLever(client)
    for step in resolved.steps if client and not isinstance(client, Crashes) else ():
        if isinstance(step.nemesis, ClientNemesis) and step.nemesis.meets == CLIENTS:
            raise _impossible(
                step, f"the clients of {resolved.target.plugin} cannot crash one by one"
            )
    if groups:
        levers[ConsumerLever.name] = ConsumerLever(groups)
    if resolved.operator is not None:
        levers[ManualLever.name] = ManualLever(resolved.operator)
    return levers


def refuse_unavailable(resolved: ResolvedPlan, cluster: Cluster) -> None:
    """Raise EnvironmentFailure for the first fault that is impossible on this cluster."""
    levers, seen = levers_of(resolved, cluster), list[Nemesis]()
    for step in resolved.steps:
        if step.nemesis is None or step.nemesis in seen:
            continue
        seen.append(step.nemesis)
        if why := unavailable(step.nemesis, cluster.nodes, levers):
            raise _impossible(step, why)


def _impossible(step: ResolvedStep, why: str) -> EnvironmentFailure:
    return EnvironmentFailure(
        f"the fault {step.step.id!r} ({step.step.nemesis}) cannot be made here: {why}"
    )


def prepare_nodes(resolved: ResolvedPlan, cluster: Cluster) -> None:
    """Prepare all nodes in parallel for the faults of the plan that need it. Raises
    HarnessFailure."""
    nemeses = [step.nemesis for step in resolved.steps if step.nemesis is not None]
    wanted = {act.lever for nemesis in nemeses for act in nemesis.requires("any")}
    levers = levers_of(resolved, cluster) if wanted else {}
    preparing = [each for name, each in levers.items() if name in wanted]
    calls = [(lever, node) for lever in preparing for node in cluster.nodes.values()]
    with ThreadPoolExecutor(max_workers=max(1, len(calls))) as pool:
        list(pool.map(lambda pair: pair[0].prepare(pair[1]), calls))


def prove_unfaulted(cluster: Cluster) -> None:
    """Raise HarnessFailure if an effect of any lever is in force on any node."""
    with ThreadPoolExecutor(max_workers=12) as pool:
        found = pool.map(
            lambda pair: pair[0].leftover_state(pair[1]),
            [(lever, node) for lever in cluster.levers.values() for node in cluster.nodes.values()],
        )
        leftover_state = [sentence for sentences in found for sentence in sentences]
    if leftover_state:
        raise HarnessFailure(f"the cluster is not unfaulted: {'; '.join(leftover_state)}")


_TROUBLE: Final = re.compile(r"ERROR|FATAL|Exception|rror:")
_FRAME: Final = re.compile(r"\s*(at |\.\.\. \d+ more)")
_LONGEST: Final = 300

_BY_HAND: Final = "by-hand"
_LOOKS, _AGAIN_S = 5, 3.0
_HEALINGS: Final = 3
_GRACE_S: Final = 120.0
"""A server that stops waits for others, and killing it would be another fault."""
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
    run = _Run(cluster, resolved, record, how, cell_runs(resolved, record, cluster))
    with cluster.clock.taking_part("main"), how.interrupts.unless_lost(cluster):
        with how.interrupts.raising(), record.timed("cluster_s"):
            prepare_nodes(resolved, cluster)
            run.come_up()
        refuse_unavailable(resolved, cluster)
        prove_unfaulted(cluster)
        try:
            with ExitStack() as stack:
                for cell in run.cells:
                    stack.enter_context(cell.connected())
                run.execute()
        finally:
            how.status.enter("collecting logs")
            run.keep_logs()


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


@dataclass
class _Run:
    """A run on nodes that have been started; its methods are called in their order."""

    cluster: RunCluster
    resolved: ResolvedPlan
    record: RunMetadata
    how: RunOptions
    cells: Sequence[CellRun]
    observed: tuple[RunClock, Observer] | None = None

    def come_up(self) -> None:
        """Wait until the cluster is fully replicated and has what the workload writes to; write
        down what it is."""
        plan, target, record = self.resolved.plan, self.resolved.target, self.record
        cluster, image = self.cluster, self.cluster.image
        writer = validated(f"the target {target.plugin!r}: writer()", target.writer(plan), str)
        clients = client_versions(writer, *readers_of(target, plan))
        version = image.version if image is not None else None
        record.update(versions={**record.document["versions"], **clients, "target": version})
        if image is not None:
            known = {"reference": image.reference, "id": image.id, "digest": image.digest}
            record.update(image=known)
        try:
            bring_up = partial(target.bring_up, cluster, timeout_s=target.up_within_s)
            up = [partial(bring_up, cell.resolved.plan) for cell in self.cells]
            together(cluster.clock, "bring-up", up, at_most=_AT_ONCE)
            for node in cluster.nodes.values():
                # A system that was just created is not like one that has run for long.
                if node.own_disk is not None:
                    node.own_disk.flush()
            record.update(
                nodes=[
                    {"name": node.name, "roles": sorted(node.roles), "address": node.address}
                    for node in cluster.nodes.values()
                ]
            )
            if ran := {target.running(node, plan) for node in cluster.nodes.values()} - {None}:
                servers = " and ".join(sorted(map(str, ran)))
                record.update(versions={**record.document["versions"], "servers": servers})
            read = [cell.read_settings for cell in self.cells]
            together(cluster.clock, "settings", read, at_most=_AT_ONCE)
        except TimeoutError as error:
            self.keep_logs()
            logs = record.rundir.path / "nodes"
            raise HarnessFailure(
                f"the cluster did not come up: {error}",
                file=str(logs),
                hint=f"the last of its log: {last_words(logs)}",
            ) from error

    def execute(self) -> None:
        """Workload, schedule and observer, then the final reads, all on the run's own clock."""
        resolved, cluster, record, cells = self.resolved, self.cluster, self.record, self.cells
        client, *_ = [cell.begin() for cell in cells]
        groups = [cell.group for cell in cells if cell.group is not None]
        levers = levers_of(resolved, cluster, client, [group.consumers for group in groups])
        status = self.how.status
        if groups:
            status.enter("waiting until every partition is assigned")
            together(cluster.clock, "groups", [group.begin for group in groups])
        clock = RunClock(cluster.clock)
        record.update(state="running", wall_time=clock.wall_time, zero_ns=clock.zero_ns)
        with ExitStack() as stack:
            stack.callback(record.copy_journal)
            journal = stack.enter_context(closing(Journal(record.rundir.faults, clock.now_ns)))
            watched = [stack.enter_context(cell.recording(clock)) for cell in cells]
            observer = stack.enter_context(Observer(resolved.target, cluster.nodes, watched, clock))
            self.observed = clock, observer
            plans, nodes = [cell.resolved.plan for cell in cells], [*cluster.nodes.values()]
            copying = resolved.target.copying(nodes, plans, record.rundir.path, clock)
            stack.enter_context(copying)

            def note(kind: str, nemesis: str, fault: str, nodes: str, what: str) -> None:
                """A row of the nemesis in every cell's history."""
                now_ns = clock.now_ns()
                for cell in cells:
                    cell.recorder.note(
                        kind, f=nemesis, key=fault, node=nodes, error=what, time_ns=now_ns
                    )

            faults = Faults(
                levers,
                journal,
                note=note,
                seed=resolved.plan.seed,
                in_order=resolved.provider.simulated,
            )
            status.clock, status.recorders = clock, [cell.recorder for cell in cells]
            status.faults, status.observer = faults, observer
            status.enter("running")
            self._load(faults, observer, clock)
            record.warn(*observer.new_reports())
            self._end(observer, clock, faults)
            record.warn(*observer.new_reports())

    def _load(self, faults: Faults, observer: Observer, clock: RunClock) -> None:
        """The load of all cells under one schedule, which is ended, and all healed, once the last
        of them begins nothing more. A selector such as `leader` is about the first cell."""
        resolved, cells, nodes = self.resolved, self.cells, self.cluster.nodes
        words = resolved.target.vocabulary()
        first = cells[0].resolved.plan
        schedule = Schedule(first, resolved.steps, nodes, faults, observer, clock, words)
        self.how.status.schedule = schedule
        healed = Meeting(clock, len(cells), schedule.finish)
        # A larger share of the machine, unless time is simulated or a load runs at full speed.
        rates = [cell.resolved.plan.workload.rate_per_s for cell in cells]
        real = not resolved.provider.simulated and all(rates)
        share: AbstractContextManager[object] = larger_share(sum(rates)) if real else nullcontext()
        with self.record.timed("run_s"), share, schedule.running():
            stop = self.how.interrupts.stop
            together(clock, "load", [partial(cell.run, healed, stop) for cell in cells])

    def _end(self, observer: Observer, clock: RunClock, faults: Faults) -> None:
        """What is done over the healed cluster, unless the user wants to stop: the final scripts of
        a workload that has some, and the final read of a model that has one. Before each, and at
        the end of any other, the replicas are waited for."""
        stop, going = self.how.interrupts.stop, still_going(self.cells)
        final = self.resolved.workload.has_final()
        read = MODELS[self.resolved.workload.model].final_read
        if (final or not read) and not stop.is_set():
            with self.record.timed("read_s"):
                self._recover(observer, clock, faults)
                if final:
                    self.how.status.enter("final read")
                    together(clock, "final", [partial(cell.play_final, stop) for cell in going])
        if read and not stop.is_set():
            with self.record.timed("read_s"):
                self._recover(observer, clock, faults)
                self.how.status.enter("final read")
                reads = [partial(cell.read_all, stop) for cell in still_going(self.cells)]
                together(clock, "read", reads, at_most=_AT_ONCE)
        still_going(self.cells)

    def _recover(self, observer: Observer, clock: RunClock, faults: Faults) -> None:
        """Wait until every replica is in sync, and note of each cell who is."""
        self.record.update(state="reading")
        self.how.status.enter("waiting until fully replicated")
        settle_s, stop = self.resolved.plan.final.settle_s, self.how.interrupts.stop
        whole = wait_until_replicated(settle_s, observer, stop, clock)
        for _ in range(_HEALINGS):
            if not self._heal_by_hand(faults, clock, whole=whole):
                break
            whole = wait_until_replicated(settle_s, observer, stop, clock)
        if not whole:
            self.record.warn(NOT_FULLY_REPLICATED)
        for number, cell in enumerate(self.cells if observer.observes else ()):
            noted = in_sync(observer.situation(number), cell.resolved.plan)
            cell.record.update(in_sync=[asdict(each) for each in noted])

    def _heal_by_hand(self, faults: Faults, clock: RunClock, *, whole: bool) -> bool:
        """Restart the nodes that the target names, unless a fault is still there, and start those
        that have ended by themselves. It is journalled, without a step and so no fault. What is
        named once is perhaps only slow; while not all is `whole`, so is what is not named."""
        target, stop, nodes = self.resolved.target, self.how.interrupts.stop, self.cluster.nodes
        if faults.active or not target.does("to_restart"):
            return False
        plans, before = [cell.resolved.plan for cell in self.cells], set[str]()
        for _ in range(_LOOKS):
            names = {name for plan in plans for name in target.to_restart(self.cluster, plan)}
            if names == before and (names or whole):
                break
            before = names
            clock.wait(stop, _AGAIN_S)
        else:
            return False
        if not names or stop.is_set():
            return False
        pids = {name: node.pid() for name, node in nodes.items() if name in names}
        records = [
            ProcessRecord(node=name, signal="TERM", pid=pid, grace_s=_GRACE_S)
            for name, pid in pids.items()
            if pid
        ]
        faults.inject(_BY_HAND, "kill", [Act("process", record) for record in records])
        faults.heal(_BY_HAND)
        for name in pids:
            if not nodes[name].process().running:
                nodes[name].start()
        why = "the cluster did not recover by itself: it was healed by hand, as its manual says"
        self.record.warn(f"{why}, by restarting {', '.join(pids)}")
        return True

    def keep_logs(self) -> None:
        """Copy every node's logs, and what its process printed, into the run folder, and what nodes
        reported of themselves. No verdict depends on them, so what cannot be had of them is a
        warning."""
        clock, observer = self.observed or (None, None)
        now_ns, sampler = clock.now_ns() if clock else 0, self.resolved.target.sampler
        samples = dict[str, Iterable[Sample]](observer.samples if observer else {})

        def keep(node: Node) -> list[str]:
            folder = self.record.rundir.node(node.name)
            folder.mkdir(parents=True, exist_ok=True)
            logs, missing = logs_of(node, self.resolved.target, self.cluster)
            if (sampled := logs.pop(sampler, b"")) and clock:
                try:
                    zero_ns = monotonic_ns_of(node) - clock.now_ns()
                except Exception as error:
                    missing.append(f"no metrics of {node.name}: {failures.reason(error)}")
                else:
                    each = samples_of(sampled)
                    samples[node.name] = [s._replace(time_ns=s.time_ns - zero_ns) for s in each]
            for name, content in logs.items():
                write_atomically(folder / name, content)
            return missing

        with ThreadPoolExecutor(max_workers=6) as pool:
            kept = pool.map(keep, self.cluster.nodes.values())
            self.record.warn(*chain.from_iterable(kept))
        if clock:
            write_metrics(self.record.rundir, samples, now_ns)


def monotonic_ns_of(node: Node) -> int:
    """The monotonic clock of the machine that a node is on, which may be this one."""
    if node.own_connection is None:
        return time.monotonic_ns()
    return int(float(node.admin(["cat", "/proc/uptime"]).output.split()[0]) * 1e9)


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
