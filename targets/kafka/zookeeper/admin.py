"""Requests and queries to ZooKeeper about a Kafka cluster: its brokers, the topic, who leads.

The znodes are Kafka's own (`ZkData.scala`, before it `ZkUtils.scala`), alike from 0.8.0 to 3.9. In
this mode ZooKeeper holds what the controller decided: brokers' own metadata may lag behind it, and
until 2.0 it has no leader epoch. So the servers' word is the authority.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import orjson

from harness.errors import HarnessFailure
from harness.faults.own_traffic import NoAnswer
from harness.protocols import Cluster, Node, NodeView, PartitionView, with_role
from targets.kafka import brokers
from targets.kafka.configuration import names_by_id, node_ids, text
from targets.kafka.placements import assignment
from targets.kafka.plan import KafkaPlan
from targets.zookeeper import asking

_DELETE_S: Final = 15.0


def observe(node: Node, plan: KafkaPlan, *, timeout_s: float) -> NodeView | None:
    """One node's own view: a broker's partitions, or what a ZooKeeper server has."""
    (view,) = observe_each(node, [plan], timeout_s=timeout_s)
    return view


def observe_each(
    node: Node, plans: Sequence[KafkaPlan], *, timeout_s: float
) -> list[NodeView | None]:
    """One node's own view of the topics of several plans: a broker is queried once."""
    try:
        if "zookeeper" in node.roles:
            deadline = time.monotonic() + timeout_s
            return [_state(node, plan, deadline) for plan in plans]
        seen = brokers.partitions(node, plans, timeout_s=timeout_s)
        return [NodeView(answered_by=node.name, partitions=each) for each in seen]
    except (NoAnswer, orjson.JSONDecodeError):
        return [None] * len(plans)


def _state(node: Node, plan: KafkaPlan, deadline: float) -> NodeView:
    """The controller and the partitions, as this server has them. Raises NoAnswer.

    Where a leader's session is over, no leader is shown: until the controller has chosen another
    one, the znode continues to name the old one.
    """
    names = names_by_id(plan)

    def left_s() -> float:
        return max(0.001, deadline - time.monotonic())

    def read(path: str) -> Any:
        data = asking.get(node.address, path, timeout_s=left_s())
        return orjson.loads(data) if data else None

    topic = f"/brokers/topics/{plan.topic.name}"
    alive = {int(n) for n in asking.children(node.address, "/brokers/ids", timeout_s=left_s())}
    controller, epoch = read("/controller"), read("/controller_epoch")
    replicas = (read(topic) or {}).get("partitions", {})
    seen = []
    for number in sorted(map(int, replicas)):
        state = read(f"{topic}/partitions/{number}/state")
        if state is not None:
            placed = replicas[str(number)]
            seen.append(_partition(number, state, placed, alive, names))
    return NodeView(
        answered_by=node.name,
        partitions=tuple(seen),
        controller=names.get(controller["brokerid"]) if controller else None,
        controller_epoch=epoch,
        authority=True,
    )


def _partition(
    number: int, state: Any, replicas: list[int], alive: set[int], names: Mapping[int, str]
) -> PartitionView:
    leader = state["leader"]
    return PartitionView(
        partition=number,
        leader=names.get(leader) if leader in alive else None,
        leader_epoch=state["leader_epoch"],
        members=tuple(sorted(names.get(n, str(n)) for n in state["isr"])),
        replicas=tuple(names.get(n, str(n)) for n in replicas),
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

    brokers.await_none(cluster, missing, deadline)


def create_topic(cluster: Cluster, plan: KafkaPlan, deadline: float) -> None:
    """Write the plan's topic as Kafka's TopicCommand does; the controller takes it from there.

    ZooKeeper checks no setting: what the brokers made of them is compared later.
    """
    name = plan.topic.name
    settings = {key: text(value) for key, value in plan.topic.settings.items()}
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

    brokers.await_none(cluster, missing, deadline)


def forget(cluster: Cluster, topics: Sequence[str]) -> None:
    """Delete topics, and have a controller elected again. Raises HarnessFailure if a topic stays.

    A broker that was cut off or killed is the controller no longer: without another election, no
    later run on the cluster would have a fault of its first leader meet the controller, too.
    """
    deadline = time.monotonic() + _DELETE_S
    try:
        brokers.await_none(cluster, _deletion(cluster, topics), deadline)
        by_first_server(cluster.nodes, _elect_controller)
    except (TimeoutError, NoAnswer) as error:
        raise HarnessFailure(f"the cluster cannot be used for another run: {error}") from error


def _deletion(cluster: Cluster, topics: Sequence[str]) -> Callable[[], str | None]:
    """Requests it as Kafka's TopicCommand does, once; then says which topic is still there. The
    controller removes one when every replica of it is deleted."""
    requested = False

    def missing() -> str | None:
        nonlocal requested
        try:
            if not requested:
                by_first_server(
                    cluster.nodes, write({f"/admin/delete_topics/{t}": None for t in topics})
                )
                requested = True
            there = [
                asking.children(server.address, "/brokers/topics", timeout_s=brokers.ASK_S)
                for server in with_role(cluster, "zookeeper")
            ]
        except NoAnswer as error:
            return str(error)
        left = sorted(set(topics).intersection(chain(*there)))
        return f"the topic {left[0]} could not be deleted" if left else None

    return missing


def _elect_controller(address: str) -> None:
    asking.delete(address, "/controller", timeout_s=brokers.ASK_S)


def write(znodes: Mapping[str, Any]) -> Callable[[str], None]:
    """Writes these znodes, in this order, to the server at an address; null is an empty one."""

    def to(address: str) -> None:
        for path, document in znodes.items():
            data = b"" if document is None else orjson.dumps(document)
            asking.create(address, path, data, timeout_s=brokers.ASK_S)

    return to


def by_first_server(nodes: Mapping[str, Node], act: Callable[[str], None]) -> None:
    """Write to the first ZooKeeper server that answers. Raises NoAnswer when none does."""
    why = "there is no ZooKeeper server"
    for node in nodes.values():
        if "zookeeper" not in node.roles:
            continue
        try:
            return act(node.address)
        except NoAnswer as error:
            why = str(error)
    raise NoAnswer(why)
