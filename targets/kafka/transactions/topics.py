"""The topics of a plan's transactions, and where a log is in them.

The first topic is the plan's own; the others are created like it, and named after it. Log k is
partition k modulo P of topic k / P, where P is how many partitions each has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from harness.run.cells import transactions_of
from targets.kafka.plan import KafkaPlan


def topic_plans(plan: KafkaPlan) -> list[KafkaPlan]:
    """The plan with each of its topics for its own; the plan itself where it has one."""
    requested = transactions_of(plan)
    others = range(2, 1 if requested is None else requested.topics_count + 1)
    names = [f"{plan.topic.name}.{number}" for number in others]
    topics = [plan.topic.model_copy(update={"name": name}) for name in names]
    return [plan, *(plan.model_copy(update={"topic": topic}) for topic in topics)]


class Topic(NamedTuple):
    """One of them: the number of its first log, and the plan with it for its own."""

    first: int
    plan: KafkaPlan

    def partitions_of(self, goals: Mapping[int, int]) -> dict[int, int]:
        """Statements about logs; those of this topic are named by their partitions."""
        partitions = range(self.plan.topic.partitions)
        return {p: goals[self.first + p] for p in partitions if self.first + p in goals}


class Logs:
    """The logs of a plan by number."""

    def __init__(self, plan: KafkaPlan) -> None:
        self.partitions = plan.topic.partitions
        self.topics = [
            Topic(number * self.partitions, each) for number, each in enumerate(topic_plans(plan))
        ]
        self._first = {each.plan.topic.name: each.first for each in self.topics}

    def __len__(self) -> int:
        return len(self.topics) * self.partitions

    def topic(self, key: int) -> Topic:
        """That of a log."""
        return self.topics[key // self.partitions]

    def place(self, key: int) -> tuple[str, int]:
        """The topic's name and the partition of a log."""
        return self.topic(key).plan.topic.name, key % self.partitions

    def key(self, topic: str | None, partition: int) -> int:
        """The log of a topic's partition."""
        return self._first[topic or ""] + partition
