"""One cluster for many runs: each on a topic of its own, removed when the run is over."""

from __future__ import annotations

import time
from typing import Final

import orjson
from kafka.errors import for_code
from kafka.protocol.admin import DeleteTopicsRequest

from harness.errors import HarnessFailure
from harness.plan import Plan
from harness.protocols import NODE_DATA, Cluster, with_role
from targets.kafka.asking import NoAnswer, ask
from targets.kafka.clients.nodes import client_names
from targets.kafka.configuration import BROKER_PORT

_GONE: Final = (0, 3)  # deleted; unknown topic
_DELETE_S: Final = 15.0


def cluster_key(plan: Plan) -> str:
    """What a cluster is made of: everything of the plan's target, and nodes of clients."""
    body = {**plan.target.model_dump(mode="json"), "clients": client_names(plan)}
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS).decode()


def fresh(plan: Plan, number: int) -> Plan:
    """The plan with a topic that no earlier run on its cluster has had."""
    topic = plan.topic.model_copy(update={"name": f"{plan.topic.name}-{number}"})
    return plan.model_copy(update={"topic": topic})


def forget(cluster: Cluster, plan: Plan, *, logs: str) -> None:
    """Delete the run's topic and empty the nodes' log files, which the run has kept.

    Raises HarnessFailure when the topic stays.
    """
    _delete_topic(cluster, plan.topic.name)
    for node in cluster.nodes.values():
        folder = f"{NODE_DATA}/{logs}"
        node.admin(["find", folder, "-type", "f", "-exec", "truncate", "-s", "0", "{}", "+"])


def _delete_topic(cluster: Cluster, name: str) -> None:
    request = DeleteTopicsRequest[3](topic_names=[name], timeout_ms=5000)
    deadline, why = time.monotonic() + _DELETE_S, "nobody was asked"
    while time.monotonic() < deadline:
        for broker in with_role(cluster, "broker"):
            try:
                answer = ask(broker.address, BROKER_PORT, request, timeout_s=6)
            except NoAnswer as error:
                why = str(error)
                continue
            code = answer.responses[0].error_code
            if code in _GONE:
                return
            why = for_code(code).__name__
        time.sleep(0.2)
    raise HarnessFailure(f"the topic {name} could not be deleted: {why}")
