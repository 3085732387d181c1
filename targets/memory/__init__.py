"""The reference system: a replicated log and registers with switchable defects, simulated. It
exists so that ackloss can be tested against a system whose every fault is known.

plan                settings, and the defects that can be switched on
log                 what a replica stores of one partition, and what follows from it
leading             who is alive and leads, and leading; the coordinators of groups and transactions
clients, consumers, transaction_client   the harness' clients, and what is known when a request ends
system              all of it on a simulated cluster, what it reports, and its words in plans

Here is the plug-in, and its final read: what one replica of each partition holds.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from harness import registry
from harness.clusters.memory import MemoryCluster, RunsSimulated, simulated_of
from harness.clusters.memory.node import MemoryNode
from harness.errors import PlanError, nearest
from harness.models import GROUP, LIST_APPEND, LOG, QUEUE, REGISTER, RW_REGISTER, SET, TRANSACTION
from harness.plan import Plan
from harness.protocols import (
    Client,
    Cluster,
    End,
    Node,
    NodeView,
    PartitionView,
    Promises,
    RunCluster,
    Target,
)
from harness.protocols.explanations import Explanation
from harness.protocols.faults import Vocabulary
from harness.protocols.groups import Consumers, GroupSettings, Record
from harness.run.cells import cell_plans, group_of, transactions_of
from targets.memory import explain
from targets.memory.clients import (
    LogClient,
    ModelClient,
    Place,
    QueueClient,
    RegisterClient,
    SetClient,
    TransactClient,
)
from targets.memory.consumers import MemoryConsumers
from targets.memory.plan import ABSENT, DEFECTS, MemoryPlan, Settings
from targets.memory.system import VOCABULARY, Seen, System, roles, seen_by, system_of
from targets.memory.transaction_client import TransactionClient

if TYPE_CHECKING:
    import pyarrow as pa


LEADER: Final = "leader"
ANOTHER: Final = "another replica"


def read_all(
    system: System, *, reader: str, first: int, partitions: int
) -> tuple[pa.Table, list[End]]:
    """Read so many partitions, from a first one on, from the replica that `reader` stands for; they
    are counted from 0. It takes no time, so nothing changes meanwhile: a read is complete if all
    replicas had everything when it began."""
    from harness.history import READS  # imports pyarrow
    from harness.history.parquet_writer import table_of

    rows: list[tuple[Any, ...]] = []
    ends = []
    complete = system.fully_replicated()
    now_ns = system.cluster.simulation.now_ns
    for partition in range(partitions):
        name = _replica(system, first + partition, reader)
        seen = _seen(system, name, first + partition) if name else None
        held = system.held(name, first + partition) if name else None
        if name is None or seen is None or held is None:
            ends.append(End(partition=partition, error=f"no replica that is {reader} answers"))
            continue
        rows += [
            (reader, key, partition, offset, value, seen.epoch, now_ns)
            for offset, key, value in held
        ]
        ends.append(
            End(
                partition=partition,
                log_start_offset=0,
                end_offset=seen.end,
                position=seen.committed,
                leader=seen.leader,
                leader_epoch=seen.epoch,
                members=seen.members,
                complete=complete,
                error=None if complete else "not every replica had everything",
            )
        )
    return table_of(rows, [field for field in READS if field.name != "run_id"]), ends


def _replica(system: System, partition: int, reader: str) -> str | None:
    """The leader of a partition, by its own view, or the first of the others."""
    views = {name: _seen(system, name, partition) for name in system.settings.names}
    leaders = {view.leader: view.epoch for view in views.values() if view is not None}
    leader = max(leaders, key=lambda name: leaders[name], default=None)
    if reader == LEADER:
        return leader
    return next((name for name, view in views.items() if view and name != leader), leader)


def _seen(system: System, name: str, partition: int) -> Seen | None:
    views = system.observe(name)
    return None if views is None else views[partition]


_CLIENTS: dict[str, type[ModelClient]] = {
    LOG.name: LogClient,
    GROUP.name: LogClient,
    REGISTER.name: RegisterClient,
    SET.name: SetClient,
    QUEUE.name: QueueClient,
    LIST_APPEND.name: TransactClient,
    RW_REGISTER.name: TransactClient,
}
_PROTOCOLS = ("range", "manual")
_LOOK_S = 0.05
_SOFTWARE = "the reference system's own client"


@dataclass(frozen=True)
class Memory(Target[MemoryPlan], RunsSimulated[MemoryPlan]):
    """A reference system with switchable defects, simulated: a replicated log, and registers that
    follow from it. It tests ackloss itself, not a real system."""

    plugin: ClassVar[str] = "memory"
    plan: ClassVar[type[Plan]] = MemoryPlan
    models: ClassVar[frozenset[str]] = frozenset({*_CLIENTS, TRANSACTION.name})
    causes: ClassVar[Mapping[str, str]] = explain.CAUSES
    defects: ClassVar[frozenset[str]] = explain.DEFECTS
    cell_keys: ClassVar[tuple[str, ...]] = (
        *(f"target.{key}" for key in ("commit", "min_insync", "fsync", "defects")),
        "workload.options",
    )

    def check(self, plan: MemoryPlan) -> None:
        """Refuse unknown defects, settings that contradict each other, and what only real nodes
        have."""
        target = plan.target
        for key in ABSENT:  # a parsed plan has all defaults, so a default does not count as set
            default = type(target).model_fields[key].get_default(call_default_factory=True)
            if getattr(target, key) != default:
                raise PlanError(
                    "the reference system has none", key=f"target.{key}", hint="leave it out"
                )
        for place, name in enumerate(target.defects):
            if name not in DEFECTS:
                near = nearest(name, list(DEFECTS))
                raise PlanError(
                    f"there is no defect {name!r}",
                    key=f"target.defects.{place}",
                    hint=f"did you mean {near!r}?" if near else f"there are: {', '.join(DEFECTS)}",
                )
        group = group_of(plan)
        if group is not None and group.protocol not in _PROTOCOLS:
            raise PlanError(
                f"the reference system does not know the group protocol {group.protocol!r}",
                key="workload.options.protocol",
                hint=f"use {' or '.join(_PROTOCOLS)}",
            )
        try:
            target.system_settings()
        except ValueError as error:
            raise PlanError(str(error), key="target") from error

    def vocabulary(self) -> Vocabulary:
        return VOCABULARY

    def size(self, plan: Mapping[str, Any]) -> list[str]:
        target = plan.get("target") or {}
        facts = [f"{target['replicas']} replicas"] if target.get("replicas") else []
        defects = ", ".join(target.get("defects") or ())
        return [*facts, f"defects: {defects}"] if defects else facts

    def stored_request(self, plan: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Its own settings: those of the plan's target that it knows."""
        target, known = plan.get("target") or {}, Settings.__dataclass_fields__
        return {"system": {key: value for key, value in target.items() if key in known}}

    def decisive(self) -> Sequence[tuple[str, str]]:
        """When a write is committed, and whether it is on disk by then."""
        return (("system", "commit"), ("system", "min_insync"), ("system", "fsync"))

    def why_no_crashes(self, plan: Plan) -> str | None:
        """All clients are simulated as one."""
        return "the clients of the reference system cannot crash one by one"

    def roles(self, plan: MemoryPlan) -> Mapping[str, frozenset[str]]:
        """n1 ... and c1."""
        return roles(plan.target.system_settings())

    def start(self, cluster: MemoryCluster, plan: MemoryPlan) -> None:
        """All processes run; there is no leader yet."""
        plans: list[Any] = [cell.plan for cell in cell_plans(plan, self)] or [plan]
        groups = [made for each in plans if (made := _deciding_settings(each)) is not None]
        data = [
            each.target.system_settings()
            for each in plans
            for _ in range(_logs(each) // each.partitions)
        ]
        System(cluster, *data, groups=groups).start()

    def of_cell(self, plan: MemoryPlan, name: str, number: int) -> MemoryPlan:
        """The plan on its own partitions. Raises PlanError for several topics."""
        if _logs(plan) != plan.partitions:
            raise PlanError(
                "cells of the reference system have one topic each",
                key="workload.options.topics_count",
                hint="leave it out, or leave out cells",
            )
        first = {"first_partition": number * plan.target.partitions}
        return plan.model_copy(update={"target": plan.target.model_copy(update=first)})

    def bring_up(self, cluster: Cluster, plan: MemoryPlan, *, timeout_s: float) -> None:
        """Wait until every replica has all that is committed."""
        if not self._replicated(cluster, timeout_s):
            raise TimeoutError(f"it was not fully replicated within {timeout_s:g} s")

    def effective(self, cluster: Cluster, plan: MemoryPlan) -> dict[str, Any]:
        """What the running system was made with."""
        settings = asdict(_system(cluster).of_part[plan.target.first_partition])
        known = {**settings, "defects": sorted(settings["defects"])}
        for key, value in self.requested(plan)["settings"]["system"].items():
            if known[key] != value:
                raise PlanError(
                    f"the system has {known[key]!r}, but {value!r} was requested",
                    key=f"target.{key}",
                )
        return {"settings": {"system": known}, "features": {}}

    def requested(self, plan: MemoryPlan) -> dict[str, Any]:
        settings = asdict(plan.target.system_settings())
        system = {**settings, "defects": sorted(settings["defects"])}
        return {"settings": {"system": system}, "features": {}}

    def promises(self, plan: Mapping[str, Any], effective: Mapping[str, Any]) -> Promises:
        """Whatever its defects: what is acknowledged stays, once, on every replica."""
        target = plan["target"]
        return Promises(
            model=registry.model_of(plan["workload"]["name"]),
            once=True,
            ordered=True,
            partitions=int(target["partitions"]),
            replicas=int(target["replicas"]),
            readers_are_replicas=True,
        )

    def client(self, cluster: Cluster, plan: MemoryPlan) -> Client:
        """The client of the workload's model; all processes share it."""
        simulated = simulated_of(cluster)
        system = system_of(simulated)
        requests = system.requests
        if (requested := transactions_of(plan)) is not None:
            place, processes = _place(system, plan), plan.workload.processes
            return TransactionClient(simulated, requests, place, requested, processes)
        make = _CLIENTS[registry.model_of(plan.workload.name)]
        return make(simulated, requests, plan.partitions, plan.target.first_partition)

    def consumers(
        self, cluster: RunCluster, plan: MemoryPlan, group: GroupSettings, record: Record
    ) -> Consumers:
        """See `targets.memory.consumers`; each cell has its own group."""
        system = _system(cluster)
        return MemoryConsumers(system, _place(system, plan), group, record)

    def logs(self, node: Node) -> dict[str, bytes]:
        """What became of its logs, as lines of JSON."""
        assert isinstance(node, MemoryNode)
        return {"node.log": "".join(f"{line}\n" for line in node.printed).encode()}

    def explain(self, folder: Path, lost: pa.Table) -> Sequence[Explanation]:
        return explain.explain(folder, lost)

    def writer(self, plan: MemoryPlan) -> str:
        """The requests of `targets.memory.clients`."""
        return _SOFTWARE

    def readers(self, plan: MemoryPlan) -> tuple[str, str]:
        """First what the leader holds, then what another replica does."""
        return LEADER, ANOTHER

    def read_all(
        self, cluster: Cluster, plan: MemoryPlan, *, reader: str, timeout_s: float
    ) -> tuple[pa.Table, list[End]]:
        """What a replica of each partition holds, once all replicas have everything."""
        self._replicated(cluster, timeout_s)
        first = plan.target.first_partition
        return read_all(_system(cluster), reader=reader, first=first, partitions=plan.partitions)

    def observe(self, node: Node, plan: MemoryPlan, *, timeout_s: float) -> NodeView | None:
        """A node's own view; the controller keeps what was decided."""
        assert isinstance(node, MemoryNode)
        if (seen := seen_by(node)) is None:
            return None
        names = plan.target.system_settings().names
        authority = any(each.authority for each in seen)
        first = plan.target.first_partition

        def view(each: Seen) -> PartitionView:
            return PartitionView(
                partition=each.partition - first,
                leader=each.leader,
                leader_epoch=each.epoch,
                members=each.members,
                replicas=names,
            )

        return NodeView(
            answered_by=node.name,
            partitions=tuple(map(view, seen[first : first + plan.partitions])),
            coordination=view(seen[_deciding_partition(plan, len(seen))])
            if registry.model_of(plan.workload.name) in (GROUP.name, TRANSACTION.name)
            else None,
            controller=node.name if authority else None,
            controller_epoch=0 if authority else None,
            authority=authority,
        )

    def _replicated(self, cluster: Cluster, timeout_s: float) -> bool:
        """Wait until every replica has everything; whether they have."""
        system, clock = _system(cluster), simulated_of(cluster).clock
        never, deadline_ns = threading.Event(), clock.now_ns() + round(timeout_s * 1e9)
        while not system.fully_replicated():
            if clock.now_ns() >= deadline_ns:
                return False
            clock.wait(never, _LOOK_S)
        return True


def _deciding_settings(plan: MemoryPlan) -> Settings | None:
    """The settings of the partition in which a group keeps what it has committed, or the
    coordinator of transactions what it has decided."""
    settings = replace(plan.target.system_settings(), partitions=1)
    if transactions_of(plan) is not None:
        return replace(settings, transactions=True)
    if (group := group_of(plan)) is None:
        return None
    session_ms = round(group.session_s * 1000)
    return replace(settings, group=plan.partitions, group_session_ms=session_ms)


def _deciding_partition(plan: MemoryPlan, partitions: int) -> int:
    """The partition of a cell's coordinator, of so many in the system: one for each cell comes
    after those of all cells."""
    logs = _logs(plan)
    cells = partitions // (logs + 1)
    return cells * logs + plan.target.first_partition // logs


def _place(system: System, plan: MemoryPlan) -> Place:
    """Where a cell's group or transactions are."""
    deciding = _deciding_partition(plan, len(system.of_part))
    return Place(deciding, plan.target.first_partition, _logs(plan), inputs=plan.partitions)


def _logs(plan: MemoryPlan) -> int:
    """How many partitions a plan's topics have together."""
    requested = transactions_of(plan)
    return plan.partitions * (1 if requested is None else requested.topics_count)


def _system(cluster: Cluster) -> System:
    return system_of(simulated_of(cluster))
