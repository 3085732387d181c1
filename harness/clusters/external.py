"""`cluster.kind = "external"`: a cluster that ackloss did not start, named by `--cluster FILE`.

Load, observation and final read are as ever. ackloss makes no faults there: it has no rights over
the nodes, and others use them. What a run makes is a separate object, which it removes.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, NoReturn, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from harness import failures, registry
from harness.errors import AcklossError, EnvironmentFailure, HarnessFailure, HistoryError, PlanError
from harness.faults.journal import OpenAct, open_acts
from harness.history.run_folder import RunDir
from harness.levers.client import ClientLever, ConsumerLever
from harness.levers.manual import ManualLever
from harness.machine import state
from harness.plan import Plan
from harness.plan.model import plan_model
from harness.protocols import (
    Access,
    Completed,
    Cost,
    Finding,
    GuestTarget,
    Lever,
    Node,
    NodeOutline,
    Order,
    ProcessState,
    Provider,
    RunCluster,
    Secret,
    Target,
)
from harness.wrong_values import explain

# The file that says how a cluster of the user's is reached. Named on the command line, never in a
# plan, since a plan may come from a stranger.
#
#     kind = "external"
#     system = "kafka"
#     bootstrap = ["broker-1.example.com:9093"]
#
#     [client]
#     "security.protocol" = "SASL_SSL"
#     "sasl.password" = { env = "KAFKA_PASSWORD" }    # or { file = "kafka.password" }
#
# Which properties there are is the target's to say. The file holds no secret: it says where one is.
# Kinds of cluster may have further keys: their model inherits `Reached`.

_EXAMPLE: Final = "docs/how-to/external.md has an example"
_ADDRESS: Final = r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?):\d{1,5}$"
_PROPERTY: Final = r"^[a-z][a-z0-9._-]{0,127}$"
_MOST_BYTES: Final = 65536


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Reference(_Table):
    """Where a value is that may not be in a settings file."""

    env: str | None = Field(None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="A variable.")
    file: Path | None = Field(None, description="A file; a last line break is not part of it.")

    @model_validator(mode="after")
    def _one(self) -> Reference:
        if (self.env is None) == (self.file is None):
            raise ValueError("names either an environment variable, env, or a file, file")
        return self


class Reached(_Table):
    """How a cluster of the user's is reached, of whatever kind."""

    system: str | None = Field(
        None, description="The system that it is, a plug-in in targets/; by default plans' own."
    )
    bootstrap: list[Annotated[str, StringConstraints(pattern=_ADDRESS)]] = Field(
        min_length=1, max_length=64, description="The bootstrap servers: HOST:PORT."
    )
    client: dict[
        Annotated[str, StringConstraints(pattern=_PROPERTY)], str | int | bool | Reference
    ] = Field(default_factory=dict, description="Properties of clients, secrets by reference.")


ReachedT = TypeVar("ReachedT", bound=Reached)


def kind_in(path: Path) -> object:
    """The kind that a file names, whatever else is in it, or `None`. Raises PlanError."""
    return _document(path).get("kind")


def read_cluster_file(path: Path, model: type[ReachedT]) -> ReachedT:
    """The content of a file. Raises PlanError that says which key is wrong."""
    document = _document(path)
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise _explained(error, model, document, path) from error


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PlanError(
            f"the cluster file cannot be read: {error}", file=str(path), hint=_EXAMPLE
        ) from error


def _explained(
    error: ValidationError, model: type[Reached], document: dict[str, Any], path: Path
) -> PlanError:
    """The first finding in words that quote no value of a property: it may be a secret."""
    first = error.errors(include_url=False)[0]
    client = document.get("client")
    if first["loc"][:1] == ("bootstrap",) and first["type"] == "string_pattern_mismatch":
        where = f"bootstrap.{first['loc'][1]}"
        what = f"{first['input']!r} is not an address with a port"
        return PlanError(what, file=str(path), key=where, hint="write it as HOST:PORT")
    if first["loc"][:1] != ("client",) or not isinstance(client, dict):
        return explain(error, model, file=str(path))
    name = str(first["loc"][1]) if len(first["loc"]) > 1 else ""
    wrong = "is neither text, number, true or false, nor { env = ... } or { file = ... }"
    if not re.fullmatch(_PROPERTY, name):
        wrong = "is not the name of a property"
    return PlanError(wrong, file=str(path), key=f'client."{name}"', hint=_EXAMPLE)


def access_of(content: Reached, path: Path) -> Access:
    """How the cluster is reached, with the secrets that the file refers to.

    Raises EnvironmentFailure for a secret that is not there.
    """
    folder = path.resolve().parent
    properties = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in content.client.items()
        if not isinstance(value, Reference)
    }
    secrets = {
        name: _secret(value, folder, path, key=f'client."{name}"')
        for name, value in content.client.items()
        if isinstance(value, Reference)
    }
    return Access(
        file=path, addresses=tuple(content.bootstrap), properties=properties, secrets=secrets
    )


def _secret(reference: Reference, folder: Path, path: Path, *, key: str) -> Secret:
    if reference.env is not None:
        if not (text := os.environ.get(reference.env)):
            raise EnvironmentFailure(
                f"the environment variable {reference.env} is not set",
                file=str(path),
                key=key,
                hint=f"export {reference.env}, or name a file",
            )
        return Secret(text)
    assert reference.file is not None
    place = folder / reference.file.expanduser()
    try:
        with place.open("rb") as file:
            text = file.read(_MOST_BYTES).decode().removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise EnvironmentFailure(
            f"the secret in {place} cannot be read: {why}", file=str(path), key=key
        ) from error
    if not text:
        raise EnvironmentFailure(f"the secret in {place} is empty", file=str(path), key=key)
    return Secret(text)


# Undoes what the own levers of a target did, on a cluster that is still there when the process of
# the run is gone: from the journal and the plan in the folder of the run. Where a kind of cluster
# removes its nodes, what was done on them is gone with them.

_OF_THE_RUN: Final = frozenset({ClientLever.name, ConsumerLever.name, ManualLever.name})
"""Levers over what ended with the process of the run, or what only the operator can undo."""
_AGAIN: Final = "run `ackloss clean` again"


@dataclass(frozen=True)
class StillThere:
    """See `harness.protocols.Cluster`: that of a run whose process is gone."""

    nodes: Mapping[str, Node]
    levers: Mapping[str, Lever[Any]]


def undo_own(
    run_id: str,
    on: AbstractContextManager[Target[Any]],
    nodes_of: Callable[[Any, Plan], Mapping[str, Node]],
    levers: Mapping[str, Lever[Any]],
) -> None:
    """Undo, by the target's own levers, what the journal of a run does not report as undone, the
    latest first. `on` gives the target on the cluster, and is entered only if there is something;
    `levers` are those of the cluster.

    Tries all of it. Raises HarnessFailure for what could not be undone, EnvironmentFailure if the
    cluster cannot be reached, HistoryError for a lever that the target does not have.
    """
    if (run := state.registration(run_id)) is None:
        return
    rundir = RunDir(run.folder)
    left = open_acts(rundir.faults)
    others = _OF_THE_RUN.union(levers)
    acts = [act for act in reversed(left.acts) if act.lever not in others]
    own = frozenset[str]()
    if acts or left.foreign:
        with on as target:
            own = target.own_levers
            if mine := [act for act in acts if act.lever in own]:
                plan = _stored_plan(rundir)
                _undo(mine, target.levers(StillThere(nodes_of(target, plan), levers), plan))
    for error in left.foreign:
        hint = f"{error.hint}, then {_AGAIN}" if error.hint else _AGAIN
        raise HistoryError(
            f"{error.what}: its fault may still be in force", file=error.file, hint=hint
        )
    for act in acts:
        if act.lever not in own:
            raise HistoryError(
                f"the fault {act.fault!r} may still be in force: its lever {act.lever!r} is not "
                "one that the run's target has on this cluster",
                file=str(rundir.faults),
                hint=f"use the ackloss and the packages of the run, then {_AGAIN}",
            )


def _undo(acts: Sequence[OpenAct], levers: Mapping[str, Lever[Any]]) -> None:
    failed = []
    for act in acts:
        try:
            levers[act.lever].undo(act.record)
        except Exception as error:  # a plug-in's own mistake too: the others are still undone
            why = error if isinstance(error, AcklossError) else failures.what(error)
            failed.append(f"{act.lever} of fault {act.fault!r} on {act.record.node} ({why})")
    if failed:
        raise HarnessFailure(f"is still in force: {'; '.join(failed)}", hint=_AGAIN)


def _stored_plan(rundir: RunDir) -> Plan:
    """The plan of a run, as its target declares it. Raises HistoryError, PlanError."""
    document = rundir.read_json(rundir.plan)
    section = document.get("target")
    system = section.get("system") if isinstance(section, dict) else None
    model = plan_model(system, file=str(rundir.plan))
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise explain(error, model, file=str(rundir.plan)) from error


ASK_S = 20.0


@dataclass(frozen=True)
class ExternalNode(Node):
    """A node that is reached by clients alone: nothing can be done on it."""

    name: str
    roles: frozenset[str]
    address: str

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        self._refuse()

    def run(self, argv: Sequence[str], *, timeout_s: float = 30) -> Completed:
        self._refuse()

    def pid(self) -> int | None:
        return None

    def put(self, files: Mapping[str, bytes]) -> None:
        self._refuse()

    def get(self, name: str) -> dict[str, bytes]:
        return {}

    def start(self) -> None:
        self._refuse()

    def process(self) -> ProcessState:
        return ProcessState(running=True)

    def _refuse(self) -> NoReturn:
        raise HarnessFailure(f"{self.name} at {self.address} is not ours: nothing is done on it")


def nodes_there(guest: GuestTarget[Any], plan: Plan) -> dict[str, Node]:
    """The nodes, as the cluster itself names them. Raises EnvironmentFailure."""
    return {
        each.name: ExternalNode(each.name, each.roles, each.address)
        for each in guest.members(plan, timeout_s=ASK_S)
    }


@dataclass
class ExternalCluster(RunCluster):
    """Nodes that ackloss did not start: what a run makes there are objects of the system, by its
    clients alone."""

    order: Order
    access: Access
    guest: GuestTarget[Any]
    run_id: str
    nodes: dict[str, Node] = field(default_factory=dict)
    _begun: bool = False

    @property
    def levers(self) -> Mapping[str, Lever[Any]]:
        return {}

    def start(self) -> None:
        """Ask the cluster who its nodes are; note what the run is about to make there."""
        self.nodes |= nodes_there(self.guest, self.order.plan)
        state.remember_cluster(KIND, self.run_id, self.entry())
        self._begun = True

    def entry(self) -> dict[str, state.Note]:
        """What another process must know to remove what the run makes there."""
        return {
            "cluster": str(self.access.file.resolve()),
            "addresses": list(self.access.addresses),
            "system": self.order.plan.target.system,
            "objects": list(self.guest.objects(self.order.plan)),
        }

    def undo_own(self) -> None:
        """Undo what the target's own levers have left in force. Raises HarnessFailure."""
        undo_own(self.run_id, nullcontext(self.guest), lambda *_: self.nodes, self.levers)

    def down(self) -> list[str]:
        """Undo what the target's own levers have left in force; remove what the run made there."""
        with closing(self.guest):
            if not self._begun:
                return []
            try:
                self.undo_own()
            finally:
                removed = self.guest.remove(self.guest.objects(self.order.plan), dry_run=False)
            state.forget_cluster(KIND, self.run_id)
            return removed


KIND: Final = "external"


class ClusterFile(Reached):
    """The complete file."""

    kind: Literal["external"] = Field(description="ackloss did not start it.")


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
        return self._reaching(read_cluster_file(file, ClusterFile), file)

    def _reaching(self, content: Reached, file: Path) -> Self:
        """With the target that the file names, or the default one, and its access."""
        system = content.system or registry.default_target()
        registry.check_name("targets", system, key="system", file=str(file))
        return self.stating(system=str(system), access=access_of(content, file))

    def why_no_lever(self, lever: str) -> str:
        return "ackloss causes no faults on a cluster that it did not start"

    def runs(self, target: type[Target[Any]]) -> bool:
        return target.does("reached_by") or issubclass(target, GuestTarget)

    def outline(self, order: Order) -> list[NodeOutline]:
        """None: nothing would start, and nodes are known only once the cluster has been queried."""
        return []

    def cost(self, order: Order, *, kept: bool) -> Cost:
        return Cost(memory_mb=0, seconds=order.plan.workload.duration_s + _BESIDE_S)

    def reach(self) -> None:
        """Nothing but the file: the cluster is queried when a run begins."""
        self._access()

    def require(self, order: Order) -> None:
        self._access()

    def checkup(self) -> Sequence[Finding]:
        """This machine needs nothing; with a file: what the cluster lets us do."""
        if self.access is None or self.system is None:
            return ()
        with closing(guest_on(self.system, self.access, kind=self.plugin)) as guest:
            return guest.checkup(timeout_s=_CHECKUP_S)

    def cluster(self, order: Order, run_id: str, say: Callable[[str], None]) -> RunCluster:
        access, target = self._access(), order.target
        assert isinstance(target, GuestTarget)
        return ExternalCluster(order, access, target, run_id)

    def remove(self, run_id: str, *, dry_run: bool = False) -> list[str]:
        """What a dead run of this machine made on its cluster, and what the target's own levers did
        there. What is needed to try again is kept until nothing is left."""
        entry = state.remembered_cluster(self.plugin, run_id)
        if entry is None:
            return []
        try:
            if not dry_run:
                undo_own(run_id, self._guest(entry, run_id), nodes_there, {})
        finally:
            removed = self._remove_objects(entry, run_id, dry_run=dry_run)
        if not dry_run:
            state.forget_cluster(self.plugin, run_id)
        return removed

    def _remove_objects(self, entry: Mapping[str, Any], run_id: str, *, dry_run: bool) -> list[str]:
        with self._guest(entry, run_id) as guest:
            return guest.remove(tuple(entry["objects"]), dry_run=dry_run)

    @contextmanager
    def _guest(self, entry: Mapping[str, Any], run_id: str) -> Iterator[GuestTarget[Any]]:
        """The target of a dead run on its cluster. Raises HarnessFailure if it is not reached."""
        access = self.access or self._access_of(Path(entry["cluster"]), run_id)
        with closing(guest_on(str(entry["system"]), access, kind=self.plugin)) as guest:
            try:
                yield guest
            except EnvironmentFailure as error:
                raise HarnessFailure(
                    f"not everything of run {run_id} could be removed: {error}",
                    hint="run `ackloss clean --cluster FILE` again once the cluster can be reached",
                ) from error

    def concerns(self, run_id: str) -> bool:
        """Its file was this one, or has an address of this one."""
        entry = state.remembered_cluster(self.plugin, run_id)
        if entry is None or self.access is None:
            return True
        same_file = entry["cluster"] == str(self.access.file.resolve())
        return same_file or bool({*entry["addresses"]} & {*self.access.addresses})

    def of_others(self, known: set[str]) -> list[str]:
        """What some other ackloss made there: it may be in use."""
        if self.access is None or self.system is None:
            return []
        entries = (state.remembered_cluster(self.plugin, run_id) for run_id in known)
        own = {name for entry in entries if entry is not None for name in entry["objects"]}
        with closing(guest_on(self.system, self.access, kind=self.plugin)) as guest:
            return [
                f"{name} is of no run in this machine's state folder: left alone"
                for name in guest.ours()
                if name not in own
            ]

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
