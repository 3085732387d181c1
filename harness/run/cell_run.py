"""The part of a run that each of its cells has separately: clients, load, history, final read.

A run without cells is a run of one, whose folder is the run's own. A cell that fails does not
affect the others: its record says so, and the run continues while there is one that does not.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Final

from harness.clusters.cleaning import end_client_processes
from harness.errors import HarnessFailure, Interrupted
from harness.failures import validated
from harness.history import DELIVERIES, OBSERVATIONS
from harness.history.parquet_writer import ParquetWriter
from harness.history.run_folder import RunDir
from harness.models import LOG
from harness.plan import Plan
from harness.protocols import FAIL, INFO, OK, Client, Promises, RunCluster, Target
from harness.protocols.clock import Clock, RunClock
from harness.protocols.groups import KINDS, Consumers, Delivery, GroupSettings
from harness.protocols.runs import INCIDENTS
from harness.protocols.systems import EXEC
from harness.run.cells import workload_of
from harness.run.client_process import LOG_LIMIT, ClientLog, ClientProcess, setup_line
from harness.run.exec_client import ExecClient, Notes
from harness.run.final_read import read_everything
from harness.run.load import LoadReport, run_final, run_workload
from harness.run.metadata import RunMetadata
from harness.run.observer import Watched
from harness.run.own_settings import origins_of
from harness.run.recorder import Recorder
from harness.run.resolving import ResolvedPlan


def together(
    clock: Clock, name: str, calls: Sequence[Callable[[], None]], *, at_most: int | None = None
) -> None:
    """Make all calls, so many at a time, in threads of the run's clock; returns when all have
    ended, and raises what the first of them raised."""
    if len(calls) == 1:  # as of a run without cells
        calls[0]()
        return
    left = deque(calls)

    def work() -> None:
        failures = []
        while True:
            try:
                call = left.popleft()
            except IndexError:  # none is left; to look before taking one would be a race
                break
            try:
                call()
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]

    tasks = [
        clock.spawn(f"{name}-{number}", work)
        for number in range(min(len(calls), at_most or len(calls)))
    ]
    for task in tasks:
        task.join()
    for task in tasks:
        task.result()


@dataclass
class Meeting:
    """Has something done once, when all who are `expected` have come: the last one does it, the
    others wait for it."""

    clock: Clock
    expected: int
    then: Callable[[], None]
    _came: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _done: threading.Event = field(default_factory=threading.Event)
    _failure: BaseException | None = None

    def come(self, name: str) -> None:
        """Wait until all have come and it is done. Raises what it raised, for everyone."""
        self.leave(name)
        self.clock.wait(self._done, None)
        if self._failure is not None:
            raise self._failure

    def leave(self, name: str) -> None:
        """Do not wait; one that leaves after having come, or twice, counts once."""
        with self._lock:
            if name in self._came:
                return
            self._came.add(name)
            is_last = len(self._came) == self.expected
        if is_last:
            try:
                self.then()
            except BaseException as error:
                self._failure = error
            finally:
                self._done.set()


_SETTINGS: Final = list[dict[str, dict[str, Any]]]
"""Settings by group and name, effective and requested."""

_NOT_READ_BACK: Final = (
    "the clients are processes of --client: their settings are those that they were given, and "
    "nothing reads them back"
)


@dataclass
class Clients:
    """Makes the clients of a run: the target's, or processes of the user's. As a context it ends
    those that are programs, and keeps what the user's did under `clients` in run.json."""

    resolved: ResolvedPlan
    cluster: RunCluster
    record: RunMetadata
    _made: list[ExecClient] = field(default_factory=list)
    _logs: list[ClientLog] = field(default_factory=list)
    _notes: Notes | None = None

    def __enter__(self) -> Clients:
        if self.resolved.plan.workload.client == EXEC:
            assert self.resolved.client is not None
            self._notes = Notes(self.cluster.clock, self.resolved.client)
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._made:
            client.end()
        if self._notes is None:
            return
        end_client_processes(self.cluster.run_id)
        for number, log in enumerate(self._logs, start=1):
            log.close()
            if log.cut_off:
                what = f"it wrote more than {LOG_LIMIT >> 20} MiB to stderr: the rest is not kept"
                self._notes.incident(number, INCIDENTS.flood, what)
        self.record.update(clients=self._notes.conduct().document())

    def begin(self, plan: Plan) -> Client:
        """New clients, connected. Raises EnvironmentFailure when one of the user's does not become
        ready."""
        resolved, cluster = self.resolved, self.cluster
        if self._notes is None:
            made = resolved.target.client(cluster, plan)
            if isinstance(made, ExecClient):
                self._made.append(made)
            return made
        if not self._logs:
            self.record.rundir.clients.mkdir(exist_ok=True)
            self._logs = [
                ClientLog(self.record.rundir.clients / f"client-{number}.log")
                for number in range(1, resolved.plan.workload.clients + 1)
            ]
            self.record.warn(_NOT_READ_BACK)
        client = ExecClient(
            partial(self._start, plan),
            places=resolved.plan.workload.clients,
            model=resolved.workload.model,
            answer_within_s=resolved.target.answers_within_s(resolved.plan),
            clock=cluster.clock,
            notes=self._notes,
        )
        self._made.append(client)
        versions = {**self.record.document["versions"], "client": self._notes.software}
        self.record.update(versions=versions)
        return client

    def begin_at(self, clock: RunClock) -> None:
        """The run has begun: incidents are dated from here on."""
        if self._notes is not None:
            self._notes.begin_at(clock.zero_ns or 0)

    def _start(self, plan: Plan, number: int, start: int) -> ClientProcess:
        resolved, target = self.resolved, self.resolved.target
        assert resolved.client is not None
        setup = setup_line(
            run_id=self.record.rundir.run_id,
            system=target.plugin,
            version=plan.target.version,
            model=resolved.workload.model,
            client=number,
            clients=plan.workload.clients,
            start=start,
            answer_within_s=target.answers_within_s(plan),
            connection=target.connection(self.cluster, plan, number),
        )
        return ClientProcess(
            resolved.client,
            run_id=self.cluster.run_id,
            log=self._logs[number - 1],
            name=f"client-{number}.{start}",
            setup=setup,
        )


# The group of consumers that reads beside a run's load, from its start to what it has committed.
#
#     begin   all consumers start; every partition is assigned before the load begins (the gate:
#             else a group that begins at the latest offset skips what was written before it
#             joined)
#     drain   after the load and the faults: until everything is read and its commit confirmed, for
#             `final.drain_s` at most; then all leave, and each node is queried for what is
#             committed
#
# What consumers did is kept until the run's clock has begun, and goes to `deliveries/` from then
# on.

_GATE_S: Final = 60.0
_LEAVE_S: Final = 20.0
_TICK_S: Final = 0.1


class GroupRun:
    """One group during its run; its methods are called in their order. A context that ends the
    remaining consumers."""

    def __init__(
        self,
        target: Target[Any],
        cluster: RunCluster,
        plan: Plan,
        group: GroupSettings,
        clock: Clock,
    ) -> None:
        self._plan, self._clock = plan, clock
        self._lock = threading.Lock()
        self._kept: list[Delivery] = []
        self._write: Callable[[Sequence[Delivery]], None] = self._kept.extend
        self.consumers: Consumers = target.consumers(cluster, plan, group, self._record)
        self._ended = False

    def __enter__(self) -> GroupRun:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._ended:
            self.consumers.close(0)

    def begin(self) -> None:
        """Start the consumers, and wait until every partition has one that reads it."""
        begun_ns = self._clock.now_ns()
        self.consumers.start()
        why = self._until(self.consumers.assigned, _GATE_S, threading.Event())
        self._note(KINDS.gate, begun_ns, why)

    @contextmanager
    def recording(self, clock: RunClock, rundir: RunDir) -> Iterator[None]:
        """Write rows into the run folder while the context lasts, on the run's clock."""
        zero_ns = clock.zero_ns or 0
        rundir.deliveries.mkdir(exist_ok=True)
        with ParquetWriter(rundir.deliveries, DELIVERIES, run_id=rundir.run_id) as writer:

            def write(rows: Sequence[Delivery]) -> None:
                writer.append([_since(row, zero_ns) for row in rows])

            with self._lock:
                write(self._kept)
                self._write = write
            yield
            if writer.failure is not None:
                raise writer.failure

    def drain(self, stop: threading.Event) -> None:
        """Wait until all is read and committed, end the consumers, and ask what is committed."""
        begun_ns, limit_s = self._clock.now_ns(), self._plan.final.drain_s
        why = self._until(self.consumers.drained, limit_s, stop)
        self._note(KINDS.drain, begun_ns, why)
        self._ended = True
        self.consumers.close(_LEAVE_S)
        self._record(self.consumers.committed(limit_s))

    def _until(
        self, why_not: Callable[[], str | None], limit_s: float, stop: threading.Event
    ) -> str | None:
        """Wait until nothing is missing; returns what still is when the time is up."""
        deadline_ns = self._clock.now_ns() + round(limit_s * 1e9)
        while (why := why_not()) is not None:
            if stop.is_set() or self._clock.now_ns() >= deadline_ns:
                return why
            self._clock.wait(stop, _TICK_S)
        return None

    def _note(self, kind: str, begun_ns: int, why: str | None) -> None:
        ended = OK if why is None else INFO
        self._record([Delivery(kind, begun_ns, self._clock.now_ns(), ended, error=why)])

    def _record(self, rows: Sequence[Delivery]) -> None:
        for row in rows:
            if row.f not in KINDS or row.type not in (OK, INFO, FAIL, "invoke"):
                raise HarnessFailure(f"a consumer reports {row!r:.200}, which is not a row")
        with self._lock:
            self._write(rows)


def _since(row: Delivery, zero_ns: int) -> Delivery:
    return row._replace(begun_ns=row.begun_ns - zero_ns, time_ns=row.time_ns - zero_ns)


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

    def read_settings(self) -> None:
        """Record the settings that it has, and what is promised with them."""
        target, plan = self.resolved.target, self.resolved.plan
        who, table = f"the target {target.plugin!r}", dict[str, Any]
        effective = validated(f"{who}: effective()", target.effective(self.cluster, plan), table)
        requested = validated(f"{who}: requested()", target.requested(plan), table)
        settings = [effective["settings"], requested["settings"]]
        now, asked = validated(f"{who}: settings", settings, _SETTINGS)
        promises = validated(f"{who}: promises()", target.promises(plan.document(), now), Promises)
        if (promises.model, promises.partitions) != (self.resolved.workload.model, plan.partitions):
            raise HarnessFailure(
                f"{who}: promises() returns those of {promises.partitions} partitions of the model "
                f"{promises.model!r}, not of {plan.partitions} of {self.resolved.workload.model!r}"
            )
        self.record.update(
            settings={
                "asked": asked,
                "effective": now,
                "origins": origins_of(plan, asked, effective.get("origins", {})),
                "shortened": effective.get("shortened", {}),
            },
            features={
                "asked": requested.get("features", {}),
                "effective": effective.get("features", {}),
            },
            promises=promises.document(),
        )
        self.record.warn(*effective.get("warnings", ()))

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

    def begin(self, plan: Plan | None = None) -> Client:
        """Connect its clients, those of the load unless they are for another plan."""
        self.client = self.clients.begin(plan or self.resolved.plan)
        return self.client

    @contextmanager
    def recording(self, clock: RunClock) -> Iterator[Watched]:
        """Record while the context lasts; yields what is to be watched."""
        self.clock, rundir = clock, self.record.rundir
        self.clients.begin_at(clock)
        run_id = self.record.document["run_id"]
        with (
            ParquetWriter(rundir.observations, OBSERVATIONS, run_id=run_id) as observations,
            ParquetWriter(rundir.ballast, OBSERVATIONS, run_id=run_id) as ballast,
            Recorder(rundir.history, run_id=run_id) as self.recorder,
            self.group.recording(clock, rundir) if self.group else nullcontext(),
        ):

            def with_folder(rows: Sequence[tuple[object, ...]]) -> None:
                rundir.ballast.mkdir(exist_ok=True)  # which most runs have none of
                ballast.append(rows)

            yield Watched(self.resolved.plan, observations.append, with_folder)

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
        with self._failing_alone():
            self._note_load(
                run_final(
                    workload,
                    self.begin(self.resolved.final_plan),
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
    """The cells of a run, with a folder each; the only cell of a plan without `[[cells]]` has that
    of the run."""
    return [
        CellRun(
            cell.name,
            replace(resolved, plan=cell.plan, workload=workload_of(cell.plan)),
            record.begin_cell(cell.name, cell.plan, overrides=cell.overrides)
            if resolved.plan.cells
            else record,
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
