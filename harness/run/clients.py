"""The clients of one run: of the target's, or processes of the user's, whose conduct is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from harness.machine.client_processes import end_client_processes
from harness.plan import Plan
from harness.protocols import Client, RunCluster, Target
from harness.protocols.any_client import EXEC, ServesAnyClient
from harness.protocols.clock import RunClock
from harness.protocols.conduct import INCIDENTS
from harness.run.answers import client_of
from harness.run.client_lines import setup_line
from harness.run.client_notes import Notes
from harness.run.client_process import LOG_LIMIT, ClientLog, ClientProcess
from harness.run.exec_client import ExecClient
from harness.run.metadata import RunMetadata
from harness.run.resolving import ResolvedPlan

_NOT_READ_BACK: Final = (
    "the clients are processes of --client: their settings are those that they were given, and "
    "nothing reads them back"
)


@dataclass
class Clients:
    """Makes the clients of a run. As a context it ends those that are processes of the user's, and
    keeps what they did under `clients` in run.json."""

    resolved: ResolvedPlan
    cluster: RunCluster
    record: RunMetadata
    _made: list[ExecClient] = field(default_factory=list)
    _logs: list[ClientLog] = field(default_factory=list)
    _notes: Notes | None = None

    def __enter__(self) -> Clients:
        if is_exec(self.resolved.plan):
            assert self.resolved.client is not None
            self._notes = Notes(self.cluster.clock, self.resolved.client.argv)
        return self

    def __exit__(self, *_: object) -> None:
        if self._notes is None:
            return
        for client in self._made:
            client.end()
        end_client_processes(self.cluster.run_id)
        for number, log in enumerate(self._logs, start=1):
            log.close()
            if log.cut_off:
                what = f"it wrote more than {LOG_LIMIT >> 20} MiB to stderr: the rest is not kept"
                self._notes.incident(number, INCIDENTS.flood, what)
        self.record.update(clients=self._notes.conduct().document())

    def begin(self) -> Client:
        """New clients, connected. Raises EnvironmentFailure when one of the user's does not become
        ready."""
        resolved, cluster = self.resolved, self.cluster
        if self._notes is None:
            return client_of(resolved.target, cluster, resolved.plan)
        if not self._logs:
            self.record.rundir.clients.mkdir(exist_ok=True)
            self._logs = [
                ClientLog(self.record.rundir.clients / f"client-{number}.log")
                for number in range(1, resolved.plan.workload.clients + 1)
            ]
            self.record.warn(_NOT_READ_BACK)
        client = ExecClient(
            self._start,
            places=resolved.plan.workload.clients,
            model=resolved.workload.model,
            answer_within_s=_server(resolved.target).answers_within_s(resolved.plan),
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

    def _start(self, number: int, start: int) -> ClientProcess:
        resolved, plan = self.resolved, self.resolved.plan
        assert resolved.client is not None
        server = _server(resolved.target)
        setup = setup_line(
            run_id=self.record.rundir.run_id,
            system=resolved.target.plugin,
            version=plan.target.version,
            model=resolved.workload.model,
            client=number,
            clients=plan.workload.clients,
            start=start,
            answer_within_s=server.answers_within_s(plan),
            connection=server.connection(self.cluster, plan, number),
        )
        return ClientProcess(
            resolved.client,
            run_id=self.cluster.run_id,
            log=self._logs[number - 1],
            name=f"client-{number}.{start}",
            setup=setup,
        )


def is_exec(plan: Plan) -> bool:
    """Whether the clients of a plan are processes of the user's."""
    return plan.workload.client == EXEC


def _server(target: Target[Any]) -> ServesAnyClient[Any]:
    """The target as one that serves such clients: a plan whose target does not was refused."""
    assert isinstance(target, ServesAnyClient)
    return target
