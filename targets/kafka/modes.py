"""The two ways in which a Kafka cluster keeps its metadata: how it is laid out and queried.

kraft      controllers of Kafka's own, 3.3 and later
zookeeper  ZooKeeper servers, before 4.0

Both have the same methods. What cannot be queried raises HarnessFailure, what does not come in time
TimeoutError, and a topic's setting that is refused PlanError.
"""

from __future__ import annotations

from targets.kafka.kraft import Kraft
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import KRAFT, metadata_of
from targets.kafka.zookeeper import ZooKeeper


def mode_of(plan: KafkaPlan) -> Kraft | ZooKeeper:
    """The mode of a plan's cluster."""
    return Kraft() if metadata_of(plan) == KRAFT else ZooKeeper()
