"""From ZooKeeper to KRaft while the cluster runs (KIP-866), and back as long as that is possible:
the nodes of such a cluster at each stage, and what proves it; the functions of
`targets.kafka.modes.Mode`.

    provisioned    controllers run beside brokers that use ZooKeeper
    dual-write     brokers know the controllers, which copy the metadata and write both
    kraft          brokers use the controllers alone; these still write to ZooKeeper, too
    final          controllers forget ZooKeeper: there is no way back
    deprovisioned  nodes do nothing and have stored nothing: controllers at the start and after the
                   way back, ZooKeeper's servers at the end
    zookeeper      brokers use ZooKeeper alone: at the start and at the end of the way back

Controllers must have the cluster's id, which ZooKeeper has only once a broker has come up. So the
files of a formatted folder lie beside a controller's, and it takes them when it is provisioned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final

import orjson

from harness.errors import HarnessFailure, PlanError
from harness.faults.own_traffic import NoAnswer
from harness.faults.records import StageRecord
from harness.images.keeping import Say
from harness.levers.commands import poll_until
from harness.protocols import (
    NODE_DATA,
    Cluster,
    ImageRef,
    Ingredients,
    Lever,
    Node,
    NodeSpec,
    NodeView,
    Proof,
    with_role,
)
from harness.servers import properties
from targets.kafka import brokers, kraft, zookeeper
from targets.kafka.configuration import CONTROLLER_PORT, DATA, node_ids, node_spec
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import DEFAULT_VERSION, ZOOKEEPER, metadata_of, release_line, version_of
from targets.zookeeper import asking
from targets.zookeeper.configuration import CLIENT_PORT

_GONE: Final = "deprovisioned"
STAGES: Final[Mapping[str, frozenset[str]]] = {
    "provisioned": frozenset({"controller"}),
    "dual-write": frozenset({"broker"}),
    "kraft": frozenset({"broker"}),
    "final": frozenset({"controller"}),
    _GONE: frozenset({"controller", "zookeeper"}),
    "zookeeper": frozenset({"broker"}),
}
"""Each with the roles of the nodes that come to it."""

_CLUSTER, _CONTROLLER, _MIGRATION = "/cluster/id", "/controller", "/migration"
_BRIDGE: Final = "3.9."
_WHY: Final = "3.9 is the last version with ZooKeeper, and what every cluster is to migrate with"
_MIGRATES: Final = "zookeeper.metadata.migration.enable"
_FORMAT: Final = "format"
_FORMATTED: Final = (
    f"mkdir -p {DATA}; [ -s {DATA}/meta.properties ] || cp {NODE_DATA}/{_FORMAT}/* {DATA}/; "
    'exec "$0" "$@"'
)
_AT_FIRST: Final = frozenset({"controller"})
_RESTS: Final = f"mkdir -p {DATA}; rm -rf {DATA}/*; exec sleep 1000000"
_REACHED_S: Final = 30.0
_ESTABLISHED: Final = "01"  # a state in the kernel's table, which is behind the remote address


def stages(plan: KafkaPlan) -> dict[str, KafkaPlan]:
    """The plan at each stage that its nodes are to come to. Raises PlanError for a migration of
    what does not migrate."""
    for key, options in plan.faults_of("migrate"):
        to, version = options.get("to") or "", version_of(plan) or DEFAULT_VERSION
        if not version.startswith(_BRIDGE):
            what, where = f"Kafka {version} does not migrate here: {_WHY}", "target.version"
            hint = 'version = "3.9.2"'
        elif metadata_of(plan) != ZOOKEEPER:
            what = "a migration begins with ZooKeeper, and this cluster has KRaft already"
            where, hint = "target.metadata", 'metadata = "zookeeper"'
        elif plan.target.combined:
            what = "there are no controllers to migrate to: they must be nodes of their own"
            where, hint = "target.combined", "remove it"
        elif any(True for _ in plan.upgrades()):
            what = "a plan gives nodes another version or migrates them, not both"
            where, hint = key, "make two plans"
        elif to not in STAGES:
            what = f"{to!r} is not a stage of a migration"
            where, hint = f"{key}.to", f"one of {', '.join(STAGES)}"
        else:
            continue
        raise PlanError(what, key=where, hint=hint)
    for step in plan.faults:
        roles = STAGES[step.options["to"]] if step.nemesis == "migrate" else ()
        words = [word for role in sorted(roles) for word in (f"role:{role}", f"node:{role[0]}")]
        if words and not step.nodes.startswith(tuple(words)):
            raise PlanError(
                f"{step.nodes!r} do not come to the stage {step.options['to']!r}",
                key=f"faults.{step.id}.nodes",
                hint=f'such as nodes = "{words[0]}"',
            )
    return {to: plan.at_stage(to) for _, each in plan.faults_of("migrate") for to in [each["to"]]}


defaults = zookeeper.defaults
create_topic = zookeeper.create_topic
forget = zookeeper.forget
leadership = zookeeper.leadership


def ingredients(plan: KafkaPlan, image: ImageRef, say: Say) -> Ingredients:
    """Those of KRaft: the controllers are formatted."""
    zookeeper.ingredients(plan, image, say)  # what it refuses
    return kraft.ingredients(plan, image, say)


def specs(plan: KafkaPlan, made: Ingredients, addresses: Mapping[str, str]) -> list[NodeSpec]:
    """Every node with its files as the cluster begins, or as it is at the stage of the plan if it
    comes to that."""
    nodes = zookeeper.specs(plan, made, addresses)
    nodes += [_controller(n, plan, made, addresses) for n in node_ids(plan) if n.startswith("c")]
    resting = {None: _AT_FIRST, _GONE: STAGES[_GONE]}.get(plan.stage, frozenset())
    return [
        replace(spec, argv=["/bin/sh", "-c", _RESTS])
        if spec.roles & resting
        else _broker(spec, plan, addresses)
        if "broker" in spec.roles
        else spec
        for spec in nodes
    ]


def _broker(spec: NodeSpec, plan: KafkaPlan, addresses: Mapping[str, str]) -> NodeSpec:
    config = spec.files["server.properties"]
    if plan.stage == "kraft":
        config = kraft.server_properties(spec.name, plan, addresses)
    elif plan.stage == "dual-write":
        of_kraft = ("broker.", "controller.")
        config += properties(
            {
                _MIGRATES: True,
                **{key: n for key, n in kraft.DEFAULTS.items() if key.startswith(of_kraft)},
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                **kraft.quorum(plan, addresses, spec.name),
            }
        )
    return replace(spec, files={**spec.files, "server.properties": config})


def _controller(
    name: str, plan: KafkaPlan, made: Ingredients, addresses: Mapping[str, str]
) -> NodeSpec:
    release = release_line(made.image.version or DEFAULT_VERSION)
    config = kraft.server_properties(name, plan, addresses)
    if plan.stage != "final":
        config += properties(
            {_MIGRATES: True, "zookeeper.connect": zookeeper.connect(plan, addresses)}
        )
    files = {
        "server.properties": config,
        f"{_FORMAT}/{release.bootstrap}": made.files.get(kraft.BOOTSTRAP, b""),
    }
    role = frozenset({"controller"})
    spec = node_spec(name, role, plan, made, release.broker_class, files, ports=[CONTROLLER_PORT])
    return replace(spec, argv=["/bin/sh", "-c", _FORMATTED, *spec.argv])


def await_brokers(cluster: Cluster, plan: KafkaPlan, deadline: float) -> None:
    """Wait for the brokers, then give the controllers the cluster's id."""
    zookeeper.await_brokers(cluster, plan, deadline)
    server = with_role(cluster, "zookeeper")[0]
    found = asking.get(server.address, _CLUSTER, timeout_s=brokers.ASK_S)
    cluster_id, ids = orjson.loads(found or b"{}")["id"], node_ids(plan)
    for node in with_role(cluster, "controller"):
        meta = kraft.meta(cluster_id, ids[node.name], kraft.new_cluster_id())
        node.put({f"{_FORMAT}/meta.properties": meta})


def observe_each(
    node: Node, plans: Sequence[KafkaPlan], *, timeout_s: float
) -> list[NodeView | None]:
    """What brokers and ZooKeeper have of the topic, at any stage, and which of the controllers is
    active. ZooKeeper's word is old once brokers use it no longer, so it is no authority. Nodes that
    are to do nothing only answer."""
    observe = kraft.observe_each if "controller" in node.roles else zookeeper.observe_each
    views = observe(node, plans, timeout_s=timeout_s)
    if views[0] is None and "broker" not in node.roles and _rests(node):
        return [NodeView(answered_by=node.name)] * len(plans)
    if "zookeeper" in node.roles:
        return [view and replace(view, authority=False, controller=None) for view in views]
    return views


def _rests(node: Node) -> bool:
    """Whether a node's process is the one that does nothing."""
    pid = node.pid()
    return pid is not None and node.admin(["cat", f"/proc/{pid}/comm"]).output.strip() == "sleep"


def has_program(node: Node, plan: KafkaPlan) -> tuple[bool, str]:
    """Whether the settings that a node reports are those of the stage."""
    if "broker" not in node.roles and _rests(node):
        return plan.stage == _GONE, "rests, with nothing stored"
    if "zookeeper" in node.roles:
        return False, "runs"
    ask, number = brokers.ask_of({node.name: node}, plan), node_ids(plan)[node.name]
    try:
        own = brokers.configs(ask, node.name, brokers.BROKER, str(number)) or {}
    except NoAnswer as error:
        return False, f"does not answer: {error}"
    roles, migrates = own.get("process.roles") or "", own.get(_MIGRATES) == "true"
    if "controller" in node.roles:
        now = "provisioned" if migrates else "final"
    else:
        now = "kraft" if roles else "dual-write" if migrates else "zookeeper"
    reports = f"reports process.roles={roles or 'none'}, {_MIGRATES}={str(migrates).lower()}"
    return now == plan.stage, reports


@dataclass(frozen=True)
class Metadata:
    """Who has the cluster's metadata: the node that /controller names, the offset of the quorum's
    log up to which ZooKeeper has it by /migration, the active controller of the quorum, and the
    nodes that are connected to ZooKeeper."""

    owner: str | None
    copied: int
    by_owner: bool
    """Whether the controller that has /controller has written that offset: a new one takes the
    metadata for copied by what an old one has left, and waits, or deletes what it does not know."""
    active: str | None
    connected: tuple[str, ...]
    there: frozenset[str]
    """Those of the znodes to delete that there are."""

    def __str__(self) -> str:
        copied = f"offset {self.copied}" if self.copied >= 0 else "no offset"
        by = "" if self.by_owner or self.copied < 0 else " by another controller"
        return (
            f"/controller names {self.owner or 'nobody'}, /migration has {copied}{by}, the active "
            f"controller is {self.active or 'none'}, connected to ZooKeeper: "
            f"{', '.join(self.connected) or 'no node'}"
        )

    def is_of(self, stage: str) -> bool:
        """Whether it is as it should be at the end of a stage."""
        copies = (self.owner or "").startswith("c") and self.copied > 0 and self.by_owner
        by_broker = (self.owner or "").startswith("b")
        made_anew = {_CONTROLLER} if by_broker else set()
        return (
            self.there <= made_anew
            and {
                _GONE: True,
                "provisioned": self.active is not None,
                "dual-write": copies,
                "kraft": copies,
                "final": self.active is not None and not self.connected,
                "zookeeper": by_broker,
            }[stage]
        )


@dataclass(frozen=True)
class StageLever(Lever[StageRecord]):
    """The end of a stage: znodes are deleted, as an operator does it after the way back, and the
    cluster as a whole has come to the stage."""

    nodes: Mapping[str, Node]
    plan: KafkaPlan
    name: ClassVar[str] = "stage"

    def capture_prior_state(self, record: StageRecord) -> StageRecord:
        return replace(record, found=str(self._now(record)))

    def apply(self, record: StageRecord) -> None:
        for path in record.remove:
            try:
                zookeeper.by_first_server(
                    self.nodes, partial(asking.delete, path=path, timeout_s=brokers.ASK_S)
                )
            except NoAnswer as error:
                raise HarnessFailure(f"{path} was not deleted: {error}") from error

    def undo(self, record: StageRecord) -> None:
        """Nothing: to go back is a stage of its own."""

    def probe(self, record: StageRecord, *, applied: bool) -> Proof:
        """In force: the metadata is with whom it should be, waited for."""
        if not applied:
            return Proof(True, [])  # nothing was to be undone
        now = self._now(record)

        def reached() -> bool:
            nonlocal now
            now = self._now(record)
            return now.is_of(record.to)

        proven = poll_until(reached, within_s=_REACHED_S, every_s=0.5)
        return Proof(proven, [str(now)])

    def _now(self, record: StageRecord) -> Metadata:
        names = {number: name for name, number in node_ids(self.plan).items()}
        found: dict[str, bytes] = {}
        for path in {_CONTROLLER, _MIGRATION, *record.remove}:
            read = partial(asking.get, path=path, timeout_s=brokers.ASK_S)
            with suppress(NoAnswer):
                if (data := zookeeper.by_first_server(self.nodes, read)) is not None:
                    found[path] = data
        views = [
            kraft.observe_each(node, [self.plan], timeout_s=brokers.ASK_S)[0]
            for node in self.nodes.values()
            if "controller" in node.roles
        ]
        actives = {view.controller for view in views if view and view.controller}
        owner, copy = (orjson.loads(found.get(p, b"{}")) for p in (_CONTROLLER, _MIGRATION))
        return Metadata(
            owner=names.get(owner.get("brokerid")),
            copied=copy.get("kraft_metadata_offset", -1),
            by_owner=copy.get("kraft_controller_epoch") == owner.get("kraftControllerEpoch"),
            active=actives.pop() if len(actives) == 1 else None,
            connected=tuple(node.name for node in self.nodes.values() if is_connected(node)),
            there=frozenset(found).intersection(record.remove),
        )


def is_connected(node: Node) -> bool:
    """Whether the kernel has a connection from this node to a ZooKeeper server."""
    table = node.admin(["cat", "/proc/net/tcp", "/proc/net/tcp6"]).output
    return f":{CLIENT_PORT:04X} {_ESTABLISHED} " in table
