"""Where the replicas of the plan's topic are put when it is made."""

from __future__ import annotations

from targets.kafka.plan import KafkaPlan


def assignment(plan: KafkaPlan) -> dict[int, list[int]]:
    """By partition the ids of its brokers, the first of which leads: with `topic.leaders` `one`
    broker 1 leads every partition, with `spread` one broker after the other does."""
    brokers, replicas = plan.target.brokers, plan.topic.replication_factor
    turns = range(plan.topic.partitions)
    firsts = [0 if plan.topic.leaders == "one" else turn for turn in turns]
    return {
        turn: [(first + place) % brokers + 1 for place in range(replicas)]
        for turn, first in zip(turns, firsts, strict=True)
    }
