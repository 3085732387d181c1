"""Where the replicas of the plan's topic are placed when it is created."""

from __future__ import annotations

from typing import Final

from targets.kafka.groups.offsets import OFFSETS_TOPIC
from targets.kafka.plan import KafkaPlan


def assignment(plan: KafkaPlan) -> dict[int, list[int]]:
    """By partition the ids of its brokers, the first of which leads: with `topic.leaders` `one`
    the first leader leads every partition, else one broker after the other does, from it on."""
    brokers, replicas = plan.target.brokers, plan.topic.replication_factor
    turns, begin = range(plan.topic.partitions), (plan.topic.first_leader or 1) - 1
    firsts = [begin if plan.topic.leaders == "one" else begin + turn for turn in turns]
    return {
        turn: [(first + place) % brokers + 1 for place in range(replicas)]
        for turn, first in zip(turns, firsts, strict=True)
    }


_AS_KAFKA_MAKES_IT: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": 100 * 1024 * 1024,
    "compression.type": "producer",
}


def of_commits(plan: KafkaPlan, partitions: int) -> KafkaPlan:
    """The plan with the topic of the groups' commits for its own, as Kafka makes it when the first
    group comes, but led by the broker that is to coordinate."""
    replicas = min(3, plan.target.brokers)
    settings = plan.target.settings
    return plan.with_topic(
        name=OFFSETS_TOPIC,
        partitions=int(settings.get("offsets.topic.num.partitions", partitions)),
        replication_factor=int(settings.get("offsets.topic.replication.factor", replicas)),
        leaders="one",
        first_leader=plan.target.coordinator,
        settings=_AS_KAFKA_MAKES_IT,
    )
