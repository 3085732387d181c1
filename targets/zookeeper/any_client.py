"""Clients that are processes of the user's: what ZooKeeper passes to them
(docs/how-to/any-client.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from harness.errors import PlanError
from harness.models import REGISTER, SET
from harness.protocols import Cluster
from harness.protocols.systems import EXEC, JSON
from targets.zookeeper.configuration import CLIENT_PORT
from targets.zookeeper.layout import SET as ELEMENTS
from targets.zookeeper.plan import ZooKeeperPlan

SERVED: Final = {SET.name: f"/{ELEMENTS}", REGISTER.name: ""}
"""The znode below the plan's parent below which they write, by the models that any client can
serve: operations of the others depend on a session of the process."""

_REQUESTS: Final = 3
"""The most that one operation takes: set, create, and set after all."""
_GRACE_S: Final = 5.0
"""How much longer than its settings allow an operation may take until it counts as blocked."""


def check(plan: ZooKeeperPlan, model: str) -> None:
    """Refuse a model that only ackloss' own clients serve. Raises PlanError."""
    if plan.workload.client == EXEC and model not in SERVED:
        raise PlanError(
            f"{plan.workload.name} needs a session of ackloss' own client for each process",
            key="workload.client",
            hint=f"leave it out; clients of yours serve the models: {', '.join(sorted(SERVED))}",
        )


def addresses_of(addresses: Iterable[str], plan: ZooKeeperPlan, number: int) -> list[str]:
    """The servers for client `number`, from 0, in the order in which it tries them."""
    all_of = list(addresses)
    first = number % len(all_of)
    turned = [*all_of[first:], *all_of[:first]]
    return turned if plan.workload.connect == "all" else turned[:1]


def connection(cluster: Cluster, plan: ZooKeeperPlan, number: int, model: str) -> dict[str, JSON]:
    """What client `number`, from 1, needs to know."""
    load = plan.workload
    names = {node.address: node.name for node in cluster.nodes.values()}
    given = addresses_of(names, plan, number - 1)
    servers: list[JSON] = [f"{address}:{CLIENT_PORT}" for address in given]
    nodes: dict[str, JSON] = {f"{address}:{CLIENT_PORT}": names[address] for address in given}
    return {
        "servers": servers,
        "nodes": nodes,
        "parent": f"{load.parent}{SERVED[model]}",
        "session_ms": load.session_ms,
        "request_ms": load.request_ms,
        "sync": load.read == "sync",
    }


def answers_within_s(plan: ZooKeeperPlan) -> float:
    """The time that the requests of an operation may take, a new session, and some."""
    load = plan.workload
    return (load.session_ms + _REQUESTS * load.request_ms) / 1000 + _GRACE_S
