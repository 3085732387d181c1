"""Where the replicas of the plan's topic are put when it is made."""

from __future__ import annotations

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
