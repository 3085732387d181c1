"""Cells of a run on Kafka: separate topics, each written to by its own producers.

A cell may change what belongs to its topic or to its producers. Producers of several cells are
never shared: requests that wait for one topic's replicas delay those of another on the same
connection. All topics are first led by the same broker, so that a fault of that leader meets every
cell; with `topic.leaders = "spread"` each cell begins with the next broker.
"""

from __future__ import annotations

from typing import Final

from harness.errors import PlanError
from targets.kafka.clients import library_of
from targets.kafka.plan import KafkaPlan

KEYS: Final = (
    "topic.partitions",
    "topic.replication_factor",
    "topic.leaders",
    "topic.first_leader",
    "topic.settings",
    "workload.producer",
    "workload.consumer",
    "workload.consumer_client",
    "workload.options",
    "workload.clients",
    "workload.bootstrap",
)


def of_cell(plan: KafkaPlan, name: str, number: int) -> KafkaPlan:
    """The plan with its own topic. Raises PlanError for clients in nodes of the cluster, which
    all cells would share."""
    if nodes := library_of(plan).names(plan):
        raise PlanError(
            f"clients in their own nodes ({', '.join(nodes)}) would be shared by all cells",
            key="workload.client",
            hint="choose another client, or leave out cells",
        )
    topic = plan.topic
    first, leaders = topic.first_leader or 1, topic.leaders or "one"
    if leaders == "spread":
        first = (first - 1 + number) % plan.target.brokers + 1
    own = {"name": f"{topic.name}-{name}", "leaders": leaders, "first_leader": first}
    return plan.of_cell(name, topic.model_copy(update=own))
