"""Kafka's own topics on a cluster with KRaft that is kept: they stay from run to run.

A broker that was cut off or killed leads none of their partitions any more, while the leaders of a
run's topic are the same brokers in every run. So after a run those lead again that did at first:
else no fault of a later run would meet a leader of the topic that coordinates groups or
transactions, too.
"""

from __future__ import annotations

import time
from typing import Final

from harness.errors import HarnessFailure
from harness.protocols import Cluster
from targets.kafka import brokers
from targets.kafka.groups.offsets import OFFSETS_TOPIC
from targets.kafka.modes import mode_of
from targets.kafka.plan import KafkaPlan

OWN_TOPICS: Final = (OFFSETS_TOPIC, "__transaction_state")
_WITHIN_S: Final = 30.0


def restore_leaders(cluster: Cluster, plan: KafkaPlan) -> None:
    """Wait until the topics that exist are fully replicated, then have their preferred leaders
    elected, which led when they were made.

    Raises TimeoutError if replicas stay out of sync, HarnessFailure if an election is refused.
    """
    deadline = time.monotonic() + _WITHIN_S
    for name in OWN_TOPICS:
        if (own := _existing(cluster, plan, name)) is not None:
            mode = mode_of(own)
            brokers.await_whole(cluster, own, mode.observe, deadline)
            every = range(own.topic.partitions)
            if refused := mode.leadership(cluster.nodes, own).elect(every):
                number, why = next(iter(refused.items()))
                raise HarnessFailure(f"{name}, partition {number}: no election: {why}")


def _existing(cluster: Cluster, plan: KafkaPlan, name: str) -> KafkaPlan | None:
    """The plan with this topic for its own, as it is; `None`: there is none."""
    own = plan.with_topic(name=name)
    first = brokers.first(cluster)
    view = mode_of(plan).observe(first, own, timeout_s=brokers.ASK_S)
    if view is None:
        raise HarnessFailure(f"{first.name} does not say whether there is {name}")
    if not view.partitions:
        return None
    replicas = len(view.partitions[0].replicas)
    return own.with_topic(partitions=len(view.partitions), replication_factor=replicas)
