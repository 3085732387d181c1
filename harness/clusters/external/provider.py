"""`cluster.kind = "external"`: a cluster that ackloss did not start, named by `--cluster FILE`.

Load, observation and final read are as ever. ackloss makes no faults there: it has no rights over
the nodes, and others use them. What a run makes is a separate object, which it removes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from harness import registry
from harness.clusters.cluster_file import Reached, access_of, read_cluster_file
from harness.clusters.external.file import KIND, ClusterFile
from harness.errors import EnvironmentFailure, HarnessFailure, PlanError
from harness.machine import reach
from harness.protocols import (
    Access,
    Cost,
    Finding,
    GuestTarget,
    Lever,
    Node,
    NodeOutline,
    Order,
    Provider,
    RunCluster,
    Target,
)

_BESIDE_S = 8.0
"""The time of a run beside its workload."""
_CHECKUP_S = 10.0


@dataclass(frozen=True)
class External(Provider):
    """A cluster that ackloss did not start (`--cluster FILE`): nothing is started there."""

    plugin: ClassVar[str] = KIND
    outlives: ClassVar[bool] = True
    named_by: ClassVar[str] = "cluster"

    def with_file(self, file: Path) -> External:
        """The cluster of a file. Raises PlanError, EnvironmentFailure."""
        content = read_cluster_file(file, ClusterFile)
        return _External(system_of(content, file), access_of(content, file))

    def why_no_lever(self, lever: str) -> str:
        """Why ackloss makes no faults there."""
        return "ackloss causes no faults on a cluster that it did not start"

    def runs(self, target: type[Target[Any]]) -> bool:
        """A target that can be a guest, or is one."""
        return target.does("reached_by") or issubclass(target, GuestTarget)

    def outline(self, order: Order) -> list[NodeOutline]:
        """None: nothing would start, and the nodes are known only once the cluster has been
        queried."""
        return []

    def cost(self, order: Order, *, kept: bool) -> Cost:
        """Nothing of this machine's memory."""
        return Cost(memory_mb=0, seconds=order.plan.workload.duration_s + _BESIDE_S)

    def reach(self) -> None:
        """Nothing but the file: the cluster is queried when a run begins."""
        self._access()

    def require(self, order: Order) -> None:
        """The file."""
        self._access()

    def checkup(self) -> Sequence[Finding]:
        """This machine needs nothing; with a file: what the cluster lets us do."""
        if self.access is None or self.system is None:
            return ()
        guest = guest_on(self.system, self.access, kind=self.plugin)
        try:
            return guest.checkup(timeout_s=_CHECKUP_S)
        finally:
            guest.close()

    def cluster(self, order: Order, run_id: str, say: Callable[[str], None]) -> RunCluster:
        """The cluster, which has not been queried yet."""
        from harness.clusters.external.cluster import ExternalCluster

        access, target = self._access(), order.target
        assert isinstance(target, GuestTarget)
        return ExternalCluster(order, access, target, run_id)

    def remove(self, run_id: str, *, dry_run: bool = False) -> list[str]:
        """What a dead run of this machine made on its cluster, and what the target's own levers did
        there. What is needed to try again is kept until nothing is left."""
        entry = reach.remembered(self.plugin, run_id)
        if entry is None:
            return []
        try:
            if not dry_run:
                self._undo_own(entry, run_id)
        finally:
            removed = self._remove_objects(entry, run_id, dry_run=dry_run)
        if not dry_run:
            reach.forget(self.plugin, run_id)
        return removed

    def _undo_own(
        self,
        entry: Mapping[str, Any],
        run_id: str,
        nodes: Callable[[Mapping[str, Node]], Mapping[str, Node]] = lambda members: members,
        levers: Mapping[str, Lever[Any]] | None = None,
    ) -> None:
        """Undo what the target's own levers did, on the nodes that stand for these members of the
        cluster; `levers` are those over them. Raises HarnessFailure, HistoryError."""
        from harness.clusters.external.cluster import nodes_there
        from harness.clusters.own_acts import own_acts, undo_own

        levers = levers or {}
        if (left := own_acts(run_id, levers)) is None:
            return
        with self._guest(entry, run_id) as guest:
            undo_own(left, guest, lambda plan: nodes(nodes_there(guest, plan)), levers)

    def _remove_objects(self, entry: Mapping[str, Any], run_id: str, *, dry_run: bool) -> list[str]:
        """Remove what clients of ours have made there. Raises HarnessFailure."""
        with self._guest(entry, run_id) as guest:
            return guest.remove(tuple(entry["objects"]), dry_run=dry_run)

    @contextmanager
    def _guest(self, entry: Mapping[str, Any], run_id: str) -> Iterator[GuestTarget[Any]]:
        """The target of a dead run on its cluster. Raises HarnessFailure if that cannot be
        reached."""
        access = self.access or self._access_of(Path(entry["cluster"]), run_id)
        guest = guest_on(str(entry["system"]), access, kind=self.plugin)
        try:
            yield guest
        except EnvironmentFailure as error:
            raise HarnessFailure(
                f"not everything of run {run_id} could be removed: {error}",
                hint="run `ackloss clean --cluster FILE` again once the cluster can be reached",
            ) from error
        finally:
            guest.close()

    def concerns(self, run_id: str) -> bool:
        """Its file was this one, or has an address of this one."""
        entry = reach.remembered(self.plugin, run_id)
        if entry is None or self.access is None:
            return True
        same_file = entry["cluster"] == str(self.access.file.resolve())
        return same_file or bool({*entry["addresses"]} & {*self.access.addresses})

    def of_others(self, known: set[str]) -> list[str]:
        """What some other ackloss made there: it may be in use."""
        if self.access is None or self.system is None:
            return []
        entries = (reach.remembered(self.plugin, run_id) for run_id in known)
        own = {name for entry in entries if entry is not None for name in entry["objects"]}
        guest = guest_on(self.system, self.access, kind=self.plugin)
        try:
            return [
                f"{name} is of no run in this machine's state folder: left alone"
                for name in guest.ours()
                if name not in own
            ]
        finally:
            guest.close()

    def _access_of(self, file: Path, run_id: str) -> Access:
        """The access of the file that a dead run used. Raises HarnessFailure."""
        try:
            access = self.with_file(file).access
        except (PlanError, EnvironmentFailure) as error:
            raise HarnessFailure(
                f"what run {run_id} made on its cluster could not be removed: {error}",
                hint="name the cluster's file: `ackloss clean --cluster FILE`",
            ) from error
        assert access is not None
        return access

    def _access(self) -> Access:
        if self.access is None:
            raise PlanError(
                f"a cluster of kind {self.plugin!r} needs to know how it is reached",
                key="cluster.kind",
                hint="name its file with --cluster FILE",
            )
        return self.access


@dataclass(frozen=True)
class _External(External):
    """The kind `external` with its file: not a separate plug-in."""

    system: str
    access: Access


def system_of(content: Reached, file: Path) -> str:
    """The target that a cluster file names, or the default one. Raises PlanError."""
    system = content.system or registry.default_target()
    registry.check_name("targets", system, key="system", file=str(file))
    return str(system)


def guest_on(system: str, access: Access, *, kind: str) -> GuestTarget[Any]:
    """The target on a cluster of the user's. Opens no connection. Raises PlanError."""
    target = registry.make("targets", system, {}, key="system", file=str(access.file))
    if not target.does("reached_by"):
        raise PlanError(
            f"{system} cannot run on a cluster of kind {kind!r}",
            file=str(access.file),
            key="system",
        )
    guest: GuestTarget[Any] = target.reached_by(access)
    return guest
