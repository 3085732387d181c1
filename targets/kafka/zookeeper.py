"""Kafka whose metadata ZooKeeper keeps: every version before 4.0. Its nodes and their files, how
it is queried and changed; the functions of `targets.kafka.modes.Mode`.

ZooKeeper runs from the very jars that the version of Kafka brings: 3.3.4 with 0.8.0, 3.8.4 with
3.9, so that what an old server does can be seen with the brokers that had it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar

import orjson

from harness.errors import HarnessFailure, PlanError
from harness.faults.own_traffic import NoAnswer, first_answer
from harness.plan import number_of
from harness.protocols import (
    Cluster,
    ImageRef,
    Ingredients,
    Node,
    NodeSpec,
    NodeView,
    PartitionView,
    with_role,
)
from harness.servers import await_none, properties, setting_text
from targets.kafka import brokers
from targets.kafka.brokers import LEADERS_S, Leadership, broker_name
from targets.kafka.configuration import BROKER_PORT, DATA, assignment, node_ids, node_spec, rack_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import DEFAULT_VERSION, ZOOKEEPER, ReleaseLine, release_line, version_of
from targets.zookeeper import asking
from targets.zookeeper.configuration import CLIENT_PORT, PORTS, server_files

T = TypeVar("T")

# What ackloss sets unless the plan says otherwise, and the version from which Kafka knows it: short
# timeouts, so that a run takes a minute, and a leader that stays where it is.
DEFAULTS: Final[tuple[tuple[str, Any, tuple[int, ...]], ...]] = (
    ("num.network.threads", 2, (0, 8, 0)),
    ("num.io.threads", 2, (0, 8, 0)),
    ("zookeeper.session.timeout.ms", 4000, (0, 8, 0)),
    ("zookeeper.connection.timeout.ms", 15000, (0, 8, 0)),
    ("replica.lag.time.max.ms", 3000, (0, 8, 0)),
    ("replica.fetch.wait.max.ms", 200, (0, 8, 0)),
    ("replica.socket.timeout.ms", 3000, (0, 8, 0)),
    ("controller.socket.timeout.ms", 3000, (0, 8, 0)),
    ("auto.create.topics.enable", False, (0, 8, 0)),
    ("auto.leader.rebalance.enable", False, (0, 8, 1)),
    ("log.cleaner.dedupe.buffer.size", 2097152, (0, 8, 1)),
    ("offsets.topic.num.partitions", 3, (0, 8, 2)),
    ("replica.fetch.backoff.ms", 200, (0, 8, 3)),
    ("request.timeout.ms", 3000, (0, 9)),
    ("group.initial.rebalance.delay.ms", 0, (0, 11)),
    ("delete.topic.enable", True, (0, 11)),
)
# Sessions may be two to twenty ticks long.
_TICK_MS: Final = 500
_ZOOKEEPER: Final[Mapping[str, Any]] = {
    "tickTime": _TICK_MS,
    "initLimit": 20,
    "syncLimit": 6,
    "maxClientCnxns": 0,
    "admin.enableServer": False,
}
# Until 3.4 a server wants log4j's JMX beans, and reload4j has none.
_NO_LOG4J_BEANS: Final = ("-Dzookeeper.jmx.log4j.disable=true",)


def ingredients(plan: KafkaPlan, image: ImageRef, say: Callable[[str], None]) -> Ingredients:  # noqa: ARG001
    """The image alone: these JVMs are small and start fast."""
    if ZOOKEEPER not in release_line(image.version or DEFAULT_VERSION).metadata:
        raise PlanError(
            f"Kafka {image.version} has no ZooKeeper mode any more",
            key="target.metadata",
            hint="remove it",
        )
    if plan.target.coordinator is not None:
        raise PlanError(
            "who coordinates groups first can be chosen with KRaft only",
            key="target.coordinator",
            hint="remove it",
        )
    return Ingredients(image=image)


def specs(plan: KafkaPlan, made: Ingredients, addresses: Mapping[str, str]) -> list[NodeSpec]:
    """Every node with its files."""
    version = made.image.version or plan.target.version or DEFAULT_VERSION
    release = release_line(version)
    servers, brokers = ([n for n in node_ids(plan) if n[0] == kind] for kind in "zb")
    return [
        node_spec(
            name,
            frozenset({"zookeeper"}),
            plan,
            made,
            release.zookeeper_class,
            zookeeper_files(name, plan, addresses),
            ports=PORTS,
            flags=_NO_LOG4J_BEANS,
        )
        for name in servers
    ] + [
        node_spec(
            name,
            frozenset({"broker"}),
            plan,
            made,
            release.broker_class,
            {"server.properties": server_properties(name, plan, release, version, addresses)},
            ports=(BROKER_PORT,),
        )
        for name in brokers
    ]


def server_properties(
    name: str, plan: KafkaPlan, release: ReleaseLine, version: str, addresses: Mapping[str, str]
) -> bytes:
    """server.properties of one broker: our defaults, the plan's settings, what ackloss owns."""
    number, address = number_of(version), addresses[name]
    owned: dict[str, Any] = {
        "broker.id": node_ids(plan)[name],
        "log.dirs": DATA,
        "zookeeper.connect": connect(plan, addresses),
    }
    if release.host_keys:
        owned |= {"host.name": address, "port": BROKER_PORT}
    else:
        here = f"PLAINTEXT://{address}:{BROKER_PORT}"
        owned |= {"listeners": here, "advertised.listeners": here}
    if (rack := rack_of(name, plan)) and number >= (0, 10):
        owned["broker.rack"] = rack
    return properties({**_defaults(plan, version), **plan.target.settings, **owned})


def connect(plan: KafkaPlan, addresses: Mapping[str, str]) -> str:
    """Where its ZooKeeper servers are reached."""
    servers = (addresses[name] for name in node_ids(plan) if name.startswith("z"))
    return ",".join(f"{server}:{CLIENT_PORT}" for server in servers)


def defaults(plan: KafkaPlan) -> dict[str, Any]:
    """What ackloss sets unless the plan does."""
    return _defaults(plan, version_of(plan) or DEFAULT_VERSION)


def _defaults(plan: KafkaPlan, version: str) -> dict[str, Any]:
    number = number_of(version)
    known = {key: value for key, value, since in DEFAULTS if number >= since}
    if "offsets.topic.num.partitions" in known:
        known["offsets.topic.replication.factor"] = min(3, plan.target.brokers)
    return known


def zookeeper_files(name: str, plan: KafkaPlan, addresses: Mapping[str, str]) -> dict[str, bytes]:
    """zoo.cfg of one server, and its number if there are several."""
    ensemble = {node: addresses[node] for node in node_ids(plan) if node.startswith("z")}
    return server_files(name, ensemble, _ZOOKEEPER)


# The znodes are Kafka's own (`ZkData.scala`, before it `ZkUtils.scala`), alike from 0.8.0 to 3.9.
# ZooKeeper holds what the controller decided: brokers' own metadata may lag behind it, and until
# 2.0 it has no leader epoch. So the servers' word is the authority.

_DELETE_S: Final = 15.0


def observe_each(
    node: Node, plans: Sequence[KafkaPlan], *, timeout_s: float
) -> list[NodeView | None]:
    """A broker's partitions as it reports them to clients; what a ZooKeeper server has of them."""
    try:
        if "zookeeper" in node.roles:
            deadline = time.monotonic() + timeout_s
            return [_state(node, plan, deadline) for plan in plans]
        ask, topics = brokers.ask_of({node.name: node}, plans[0]), [p.topic.name for p in plans]
        seen = brokers.partitions(ask, node.name, topics, timeout_s=timeout_s)
        return [NodeView(answered_by=node.name, partitions=each) for each in seen]
    except (NoAnswer, orjson.JSONDecodeError):
        return [None] * len(plans)


def _state(node: Node, plan: KafkaPlan, deadline: float) -> NodeView:
    """The controller and the partitions, as this server has them. Raises NoAnswer.

    Where a leader's session is over, no leader is shown: until the controller has chosen another
    one, the znode continues to name the old one.
    """

    def read(path: str) -> Any:
        data = asking.get(node.address, path, timeout_s=asking.left_s(deadline))
        return orjson.loads(data) if data else None

    topic = f"/brokers/topics/{plan.topic.name}"
    left_s = asking.left_s(deadline)
    alive = {int(n) for n in asking.children(node.address, "/brokers/ids", timeout_s=left_s)}
    controller, epoch = read("/controller"), read("/controller_epoch")
    replicas = (read(topic) or {}).get("partitions", {})
    seen = []
    for number in sorted(map(int, replicas)):
        state = read(f"{topic}/partitions/{number}/state")
        if state is not None:
            leader = state["leader"]
            view = PartitionView(
                partition=number,
                leader=broker_name(leader) if leader in alive else None,
                leader_epoch=state["leader_epoch"],
                members=tuple(sorted(map(broker_name, state["isr"]))),
                replicas=tuple(map(broker_name, replicas[str(number)])),
            )
            seen.append(view)
    return NodeView(
        answered_by=node.name,
        partitions=tuple(seen),
        controller=broker_name(controller["brokerid"]) if controller else None,
        controller_epoch=epoch,
        authority=True,
    )


def await_brokers(cluster: Cluster, plan: KafkaPlan, deadline: float) -> None:
    """Wait until every ZooKeeper server has every broker, and a controller. Raises TimeoutError."""
    wanted = {str(n) for name, n in node_ids(plan).items() if name.startswith("b")}

    def missing() -> str | None:
        for node in with_role(cluster, "zookeeper"):
            try:
                there = asking.children(node.address, "/brokers/ids", timeout_s=brokers.ASK_S)
                controller = asking.get(node.address, "/controller", timeout_s=brokers.ASK_S)
            except NoAnswer:
                return f"{node.name} does not answer"
            if set(there) != wanted:
                return f"{node.name} has {len(there)} of {len(wanted)} brokers"
            if controller is None:
                return f"{node.name} has no controller"
        return None

    await_none(cluster, missing, deadline)


def create_topic(cluster: Cluster, plan: KafkaPlan, deadline: float) -> None:
    """Write the plan's topic as Kafka's TopicCommand does; the controller takes it from there.

    ZooKeeper checks no setting: what the brokers made of them is compared later.
    """
    name = plan.topic.name
    settings = {key: setting_text(value) for key, value in plan.topic.settings.items()}
    placed = {str(n): ids for n, ids in assignment(plan).items()}
    znodes = {
        f"/config/topics/{name}": {"version": 1, "config": settings},
        f"/brokers/topics/{name}": {"version": 1, "partitions": placed},
    }

    def missing() -> str | None:
        try:
            by_first_server(cluster.nodes, write(znodes))
        except NoAnswer as error:
            return f"the topic could not be made: {error}"
        return None

    await_none(cluster, missing, deadline)


def forget(cluster: Cluster, topics: Sequence[str]) -> None:
    """Delete topics, and have a controller elected again. Raises HarnessFailure if a topic stays.

    A broker that was cut off or killed is the controller no longer: without another election, no
    later run on the cluster would have a fault of its first leader meet the controller, too.
    """
    deadline, requested = time.monotonic() + _DELETE_S, False
    requests = write({f"/admin/delete_topics/{topic}": None for topic in topics})

    def missing() -> str | None:
        """A topic that is still there; its deletion is requested once, as Kafka's TopicCommand does
        it. The controller removes it when every replica of it is deleted."""
        nonlocal requested
        try:
            if not requested:
                by_first_server(cluster.nodes, requests)
                requested = True
            there = [
                asking.children(server.address, "/brokers/topics", timeout_s=brokers.ASK_S)
                for server in with_role(cluster, "zookeeper")
            ]
        except NoAnswer as error:
            return str(error)
        left = sorted(set(topics).intersection(chain(*there)))
        return f"the topic {left[0]} could not be deleted" if left else None

    try:
        await_none(cluster, missing, deadline)
        by_first_server(
            cluster.nodes, lambda at: asking.delete(at, "/controller", timeout_s=brokers.ASK_S)
        )
    except (TimeoutError, NoAnswer) as error:
        raise HarnessFailure(f"the cluster cannot be used for another run: {error}") from error


def write(znodes: Mapping[str, Any]) -> Callable[[str], None]:
    """Writes these znodes, in this order, to the server at an address; null is an empty one."""

    def to(address: str) -> None:
        for path, document in znodes.items():
            data = b"" if document is None else orjson.dumps(document)
            asking.create(address, path, data, timeout_s=brokers.ASK_S)

    return to


def by_first_server(nodes: Mapping[str, Node], act: Callable[[str], T]) -> T:
    """Ask, or write to, the first ZooKeeper server that answers. Raises NoAnswer when none does."""
    servers = (node for node in nodes.values() if "zookeeper" in node.roles)
    return first_answer(servers, lambda node: act(node.address), kind="ZooKeeper server")


# Moves the leaders of the plan's topic by the znodes with which Kafka's own tools ask for it.
#
# The controller takes a request from its znode and removes that when it is done:
# `/admin/reassign_partitions`, `/admin/preferred_replica_election`. A refusal is only in its log,
# so the outcome of a request shows in who leads afterwards.

_POLL_S = 0.1
_NOT_MOVED = "PREFERRED_LEADER_NOT_AVAILABLE"


class ZooKeeperLeadership(Leadership):
    """By the znodes that Kafka's own tools write."""

    role = "zookeeper"

    def look(self, node: Node) -> NodeView | None:
        return observe_each(node, [self.plan], timeout_s=brokers.ASK_S)[0]

    def reorder(self, wanted: Mapping[int, Sequence[str]]) -> None:
        """A reassignment to the same replicas in another order."""
        ids, topic = node_ids(self.plan), self.plan.topic.name
        self._ask(
            "/admin/reassign_partitions",
            [
                {"topic": topic, "partition": n, "replicas": [ids[name] for name in names]}
                for n, names in wanted.items()
            ],
        )
        there = self.placements()
        for n, names in wanted.items():
            if there[n].replicas != tuple(names):
                raise HarnessFailure(f"partition {n}: the reassignment was refused")

    def elect(self, partitions: Sequence[int]) -> Mapping[int, str]:
        """A preferred replica election, of these partitions alone."""
        topic = self.plan.topic.name
        self._ask(
            "/admin/preferred_replica_election",
            [{"topic": topic, "partition": n} for n in partitions],
        )
        there = self.placements()
        return {n: _NOT_MOVED for n in partitions if there[n].leader != there[n].replicas[0]}

    def _ask(self, path: str, partitions: list[dict[str, Any]]) -> None:
        """Write the request and wait until the controller has removed it."""
        request = {path: {"version": 1, "partitions": partitions}}
        deadline, why = time.monotonic() + LEADERS_S, "the controller did not process it"
        look = partial(asking.get, path=path, timeout_s=brokers.ASK_S)
        requested = False
        while time.monotonic() < deadline:
            try:
                if not requested:
                    by_first_server(self.nodes, write(request))
                    requested = True
                elif by_first_server(self.nodes, look) is None:
                    return
            except NoAnswer as error:
                why = str(error)
            time.sleep(_POLL_S)
        raise HarnessFailure(f"leaders could not be moved within {LEADERS_S:g} s: {why}")


leadership = ZooKeeperLeadership
