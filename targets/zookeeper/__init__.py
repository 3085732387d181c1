"""ZooKeeper as a system under test: the plug-in, and what Kafka's ZooKeeper mode shares with it.

configuration  plans, versions, settings, files and commands of servers
asking         one query to one server, four-letter words, who leads
clients        kazoo without its retries, one client for each model, and the table of errors
levers         the members of the ensemble, faults of single requests
transaction_log  what servers have written, as they leave it at the end
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version as installed
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Final

from harness import registry
from harness.errors import PlanError
from harness.faults.own_traffic import NoAnswer
from harness.history.run_folder import RunDir
from harness.images.recipe import Source
from harness.levers.protocol import ProtocolLever
from harness.models import LOCK, REGISTER, SEQUENCE, SET, WATCH
from harness.protocols import Client, Cluster, Ingredients, Lever, Node, NodeSpec, NodeView
from harness.protocols.checkers import counted
from harness.protocols.explanations import Holding, LogRow
from harness.protocols.systems import COMMAND, EXEC, JSON, LogLines
from harness.servers import CLIENT_KEYS, Server, ServerSystem, in_turn
from targets.zookeeper import asking, configuration, levers, transaction_log
from targets.zookeeper.configuration import (
    CLIENT_PORT,
    DEFAULT_VERSION,
    OBSERVER,
    OWN_KEYS,
    STARTERS,
    VOTER,
    Jars,
    ZooKeeperPlan,
    release_of,
)

LOG_LINES: Final = LogLines.read(files("targets.zookeeper").joinpath("log_lines.toml"))


_EVENTS: Final = (
    LogRow("begins", "Starting quorum peer", "started"),
    LogRow("ends", r"New election\. .*(?P<end>0x[0-9a-f]+)", "zxid {0}"),
    LogRow(
        "leads",
        r"Have quorum of supporters.*(?P<epoch>0x[0-9a-f]+)[0-9a-f]{8}",
        "was elected in epoch {epoch}",
    ),
    LogRow("cut", "Truncating log to get.*(?P<end>0x[0-9a-f]+)", "cut its log at zxid {0} (TRUNC)"),
    LogRow(
        "cut",
        "Getting a snapshot from.*(?P<end>0x[0-9a-f]+)",
        "took a snapshot of its leader at zxid {0} (SNAP)",
    ),
    LogRow(
        "joins", "Getting a diff.*(0x[0-9a-f]+)", "got what its leader had up to zxid {0} (DIFF)"
    ),
)
"""A server proposes itself with the last zxid that it has; a zxid begins with its epoch."""

SERVED: Final = {SET.name: f"/{configuration.SET}", REGISTER.name: ""}
"""The znode below the plan's parent below which they write, by the models that any client can
serve: operations of the others depend on a session of the process."""

_REQUESTS: Final = 3
"""The most that one operation takes: set, create, and set after all."""
_GRACE_S: Final = 5.0
"""How much longer than its settings allow an operation may take until it counts as blocked."""
_ASK_S: Final = 2.0
_SETTINGS_S: Final = 5.0
_PACKAGE: Final = "kazoo"
_MEMBERS: Final = "members"
_OF_ONE_SESSION: Final = frozenset({LOCK.name, WATCH.name})
"""Models of which a process must have the same session from one operation to the next."""


@dataclass(frozen=True)
class ZooKeeper(ServerSystem[ZooKeeperPlan]):
    """Apache ZooKeeper, 3.4 to 3.9: servers z1 ... with a vote, and observers o1 ... ."""

    plugin: ClassVar[str] = "zookeeper"
    plan: ClassVar[type[ZooKeeperPlan]] = ZooKeeperPlan
    starters: ClassVar[Mapping[str, str]] = STARTERS
    models: ClassVar[frozenset[str]] = frozenset(
        model.name for model in (LOCK, REGISTER, SEQUENCE, SET, WATCH)
    )
    source: ClassVar[Source] = Jars("org.apache.zookeeper:zookeeper", program="java")
    default_version: ClassVar[str] = DEFAULT_VERSION
    ports: ClassVar[tuple[int, ...]] = configuration.PORTS
    setting_keys: ClassVar[Mapping[str, str]] = OWN_KEYS
    voters: ClassVar[frozenset[str]] = frozenset({VOTER})
    packages: ClassVar[tuple[str, ...]] = (_PACKAGE,)
    cell_keys: ClassVar[tuple[str, ...]] = ("workload.read", "workload.session_ms", *CLIENT_KEYS)
    """What clients do: the servers and their settings are the same for all."""
    own_levers: ClassVar[frozenset[str]] = frozenset({_MEMBERS, ProtocolLever.name})
    synced: ClassVar[tuple[str, Any]] = ("ensemble.forceSync", True)
    events: ClassVar[Sequence[LogRow]] = _EVENTS
    alarms: ClassVar[Path | None] = Path(__file__).parent / "alarms.toml"

    def check(self, plan: ZooKeeperPlan) -> None:
        """Refuse settings that a plan may not touch, and versions that are not supported."""
        configuration.check_settings(plan.target.settings)
        if plan.target.image is not None:
            raise PlanError(
                "ZooKeeper runs from its artefacts only",
                key="target.image",
                hint=f'such as version = "{DEFAULT_VERSION}"',
            )
        if plan.target.version is None:
            raise PlanError(
                "is missing", key="target.version", hint=f'such as version = "{DEFAULT_VERSION}"'
            )
        release = release_of(plan.target.version)
        if plan.ensemble.reconfig and not release.reconfig:
            raise PlanError(
                f"ZooKeeper {plan.target.version} cannot change its members while it runs",
                key="ensemble.reconfig",
                hint="use 3.5 or later",
            )
        model = registry.model_of(plan.workload.name)
        if plan.workload.client == EXEC and model not in SERVED:
            raise PlanError(
                f"{plan.workload.name} needs a session of ackloss' own client for each process",
                key="workload.client",
                hint="leave it out; clients of yours serve the models: "
                f"{', '.join(sorted(SERVED))}",
            )
        levers.check(plan)
        if model in _OF_ONE_SESSION and plan.workload.processes != plan.workload.clients:
            raise PlanError(
                f"{plan.workload.name} needs one client for each process",
                key="workload.clients",
                hint=f"set it to workload.processes ({plan.workload.processes})",
            )

    def warnings(self, plan: ZooKeeperPlan) -> list[str]:
        """About more processes than clients, and sessions that no server grants."""
        load, tick = plan.workload, plan.ensemble.tickTime
        found = []
        if load.processes > load.clients and load.client != EXEC:
            found.append(
                f"workload.processes: {load.processes} processes share {load.clients} clients, "
                "each of which has one operation in flight: the others wait"
            )
        if not 2 * tick <= load.session_ms <= 20 * tick:
            found.append(
                f"workload.session_ms: servers grant 2 to 20 ticks, {2 * tick} to {20 * tick} ms, "
                f"not {load.session_ms}"
            )
        return found

    def log_lines(self) -> LogLines:
        return LOG_LINES

    def size(self, plan: Mapping[str, Any]) -> list[str]:
        roles, ensemble = ("servers", "observers"), plan.get("ensemble") or {}
        return [counted(n, f"{{n}} [{r[:-1]}|{r}]") for r in roles if (n := ensemble.get(r))]

    def stored_request(self, plan: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        ensemble = plan.get("ensemble") or {}
        decisive_first = sorted(OWN_KEYS, key=lambda key: key != "forceSync")
        named = {key: ensemble[key] for key in decisive_first if key in ensemble}
        return {"server": {**named, **((plan.get("target") or {}).get("settings") or {})}}

    def decisive(self) -> Sequence[tuple[str, str]]:
        """Whether what is acknowledged was fsynced."""
        return (("server", "forceSync"),)

    def names(self, plan: ZooKeeperPlan) -> list[str]:
        return configuration.names(plan)

    def role(self, name: str) -> str:
        """Observers have no vote."""
        return OBSERVER if name.startswith("o") else VOTER

    def argv(self, server: Server, plan: ZooKeeperPlan) -> list[str]:
        """The same for all: what differs is in files."""
        return configuration.argv(plan)

    def files(self, server: Server, plan: ZooKeeperPlan) -> Mapping[str, bytes]:
        """zoo.cfg, the server's number, and how it logs."""
        return configuration.files_of(server.name, server.addresses, plan)

    def prepare(self, plan: ZooKeeperPlan, say: Callable[[str], None]) -> Ingredients:
        """The image of the plan's version, and its proxy."""
        return levers.with_jar(super().prepare(plan, say), plan, say)

    def for_hosts(self, plan: ZooKeeperPlan, say: Callable[[str], None]) -> Ingredients:
        """The jars of the plan's version, and its proxy."""
        return levers.with_jar(super().for_hosts(plan, say), plan, say)

    def nodes(
        self, plan: ZooKeeperPlan, ingredients: Ingredients, addresses: Mapping[str, str]
    ) -> list[NodeSpec]:
        """Every node with its files, and its proxy where the plan needs it."""
        return levers.with_proxies(super().nodes(plan, ingredients, addresses), plan, ingredients)

    def programs(self, plan: ZooKeeperPlan) -> Mapping[str, ZooKeeperPlan]:
        """Servers of all versions speak to each other."""
        for key, _, later in plan.upgrades():
            release_of(later.target.version or "", key=key)
        return {to: later for _, to, later in plan.upgrades()}

    def has_program(self, node: Node, plan: ZooKeeperPlan) -> tuple[bool, str]:
        """By `srvr`, which a server answers that has a quorum."""
        try:
            status = asking.status_of(asking.ask_word(node.address, "srvr", timeout_s=_ASK_S))
        except NoAnswer as error:
            return False, f"does not answer: {error}"
        if status.mode is None:
            return False, "reports no version: it has no quorum"
        reports = f"reports ZooKeeper {status.version}, {status.mode}"
        return status.version == plan.target.version, reports

    def levers(self, cluster: Cluster, plan: ZooKeeperPlan) -> Mapping[str, Lever[Any]]:
        """The lever that changes the members of the ensemble, and the one that meets requests."""
        return {
            _MEMBERS: levers.MembersLever(cluster.nodes, plan),
            ProtocolLever.name: ProtocolLever(cluster.nodes, levers.requests()),
        }

    def bring_up(self, cluster: Cluster, plan: ZooKeeperPlan, *, timeout_s: float) -> None:
        """Every server is in sync with one leader, and the parents of what is written are there."""
        super().bring_up(cluster, plan, timeout_s=timeout_s)
        first = next(iter(cluster.nodes.values()))
        try:
            for path in configuration.parents(plan):
                asking.create(first.address, path, b"", timeout_s=2 * _ASK_S)
        except NoAnswer as error:
            raise TimeoutError(f"{first.name} made no znode: {error}") from error

    def wanted(self, plan: ZooKeeperPlan) -> Mapping[str, Any]:
        """Those of zoo.cfg and of the JVM; a single server has no limits of an ensemble."""
        wanted = {**configuration.file_settings(plan), **configuration.flag_settings(plan)}
        if len(configuration.names(plan)) == 1:
            del wanted["initLimit"], wanted["syncLimit"]
        return wanted

    def reported(self, node: Node, plan: ZooKeeperPlan) -> Mapping[str, str]:
        """What a server has read from zoo.cfg (`conf`; without how much it stores), and the command
        line of its JVM. Raises TimeoutError if it does not report it."""
        flags = configuration.flags_of(node.admin(["cat", f"/proc/{node.pid()}/cmdline"]).output)
        try:
            answer = asking.ask_word(node.address, "conf", timeout_s=_SETTINGS_S)
        except NoAnswer as error:
            raise TimeoutError(f"{node.name} did not report its settings: {error}") from error
        found = asking.settings_of(answer)
        return {**flags, **{key: found[key] for key in found if not key.endswith("Size")}}

    def effective(self, cluster: Cluster, plan: ZooKeeperPlan) -> dict[str, Any]:
        """What every server reports; from 3.6 on also whether it really calls fsync."""
        document = super().effective(cluster, plan)
        if release_of(plan.target.version or DEFAULT_VERSION).metrics:
            for node in cluster.nodes.values():
                _check_fsync(node, wanted=plan.ensemble.forceSync)
        else:
            document["warnings"].append(
                "ensemble.forceSync: this version does not count its calls of fsync"
            )
        return document

    def replicas(self, plan: Mapping[str, Any]) -> int:
        """Those with a vote."""
        return int(plan["ensemble"]["servers"])

    def client(self, cluster: Cluster, plan: ZooKeeperPlan) -> Client:
        from targets.zookeeper.clients import client_of  # imports kazoo

        model = registry.model_of(plan.workload.name)
        return client_of(cluster, plan, model, pinned=model in _OF_ONE_SESSION)

    def connection(self, cluster: Cluster, plan: ZooKeeperPlan, number: int) -> Mapping[str, JSON]:
        """Its servers, in the order in which it tries them, and the znode below which it writes."""
        load, model = plan.workload, registry.model_of(plan.workload.name)
        names = {node.address: node.name for node in cluster.nodes.values()}
        given = in_turn(list(names), load.connect, number - 1)
        nodes: dict[str, JSON] = {f"{address}:{CLIENT_PORT}": names[address] for address in given}
        return {
            "servers": [*nodes],
            "nodes": nodes,
            "parent": f"{load.parent}{SERVED[model]}",
            "session_ms": load.session_ms,
            "request_ms": load.request_ms,
            "sync": load.read == "sync",
        }

    def answers_within_s(self, plan: ZooKeeperPlan) -> float:
        """The time that the requests of an operation may take, a new session, and some."""
        load = plan.workload
        return (load.session_ms + _REQUESTS * load.request_ms) / 1000 + _GRACE_S

    def writer(self, plan: ZooKeeperPlan) -> str:
        """kazoo; a process of the user's reports itself what it is."""
        if plan.workload.client == EXEC:
            return COMMAND
        return f"{_PACKAGE} {installed(_PACKAGE)}"

    def readers(self, plan: ZooKeeperPlan) -> tuple[str, str]:
        """The clients themselves read, in operations of the history."""
        return _PACKAGE, _PACKAGE

    def observe(self, node: Node, plan: ZooKeeperPlan, *, timeout_s: float) -> NodeView | None:
        return asking.observe(node, plan, timeout_s=timeout_s)

    def of_cell(self, plan: ZooKeeperPlan, name: str, number: int) -> ZooKeeperPlan:
        """The plan below its own znode."""
        own = {"parent": f"{plan.workload.parent}/{name}"}
        return plan.model_copy(update={"workload": plan.workload.model_copy(update=own)})

    def metrics(self, node: Node, plan: ZooKeeperPlan, *, timeout_s: float) -> Mapping[str, float]:
        """What a server monitors of itself (`mntr`)."""
        return asking.metrics_of(asking.ask_word(node.address, "mntr", timeout_s=timeout_s))

    def logs(self, node: Node) -> dict[str, bytes]:
        """zookeeper.log, which has elections, syncing and sessions, and its transactions."""
        return {**transaction_log.copied(node), **node.get(configuration.LOGS)}

    def held(self, rundir: RunDir) -> Iterable[Holding]:
        return transaction_log.held(rundir)


def _check_fsync(node: Node, *, wanted: bool) -> None:
    """Raise PlanError when a server that was to call fsync has not, or the other way round: every
    server has logged something by now."""
    deadline = time.monotonic() + _SETTINGS_S
    while (calls := fsync_calls(node)) is None or (wanted and not calls):
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    if calls is None or bool(calls) != wanted:
        raise PlanError(f"{node.name} has called fsync {calls} times", key=OWN_KEYS["forceSync"])


def fsync_calls(node: Node) -> int | None:
    """How many transactions' logs a server has fsynced since it started."""
    try:
        figures = asking.figures_of(asking.ask_word(node.address, "mntr", timeout_s=_SETTINGS_S))
    except NoAnswer:
        return None
    count = figures.get("cnt_fsynctime")
    return None if count is None else int(float(count))
