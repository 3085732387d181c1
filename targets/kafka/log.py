"""Kafka as a log that clients write to and readers read to the end, on any cluster.

Kafka's words in plans: selectors of its nodes, and conditions that a step can wait for.

    controller          the active controller
    after-controller    the broker after it in their order: never the controller; the first broker
                        where controllers are nodes of their own
    leader              the broker that leads most partitions (the lowest name when several do)
    followers           those that do not, while one does; one-follower: one of them, by the seed
    leader(P)           the leader of partition P
    isr(P)              its in-sync replicas; follower(P): without the leader
    out-of-isr(P)       the brokers that are not among them
    broker(N)           the Nth broker: 1, 2 ...
    coordinator         the coordinator of the run's group of consumers: the leader of its partition
                        of __consumer_offsets; coordinator-followers: its other in-sync replicas

`members`, `one`, `minority`, `majority` and `random` mean brokers. A step can wait until

    isr == [leader]     every concerned partition has its leader as the only in-sync replica
    fully replicated    all replicas of every partition are in sync; also `isr whole`
    isr < N, isr == N   the size of the ISR of every concerned partition
    leader moved        every concerned partition has a new leader
    no leader           every concerned partition has no leader
    controller moved    a different controller is active
    coordinator alone   the coordinator is the only in-sync replica of that partition
    coordinator moved   a different broker coordinates the group

A condition may name its partition: `isr(0) == [leader]`, `leader(0) moved`. Otherwise the concerned
partitions are those that the nodes of the last fault led when it began, or all if they led none.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa

from harness.errors import Mistakes
from harness.faults import leaders
from harness.faults.leaders import PARTITION, SIZE, has_size, on_partitions
from harness.history.run_folder import RunDir
from harness.protocols import (
    Cluster,
    End,
    Explanation,
    Fact,
    Promises,
    Range,
    Target,
    Vocabulary,
)
from harness.protocols.explanations import Removed
from harness.protocols.systems import JSON
from harness.run.cells import group_of
from targets.kafka import definitions, explain, removed
from targets.kafka.clients import ANY_CLIENT, library_of
from targets.kafka.clients.library import READERS
from targets.kafka.configuration import check_settings
from targets.kafka.plan import KafkaPlan
from targets.kafka.reading import Source, read_from, read_ranges_from

VOCABULARY: Final = Vocabulary(
    owner="kafka",
    member_roles=frozenset({"broker"}),
    words={
        "controller": leaders.controller,
        "after-controller": leaders.after_controller,
        "leader": leaders.leading_most,
        "followers": leaders.followers,
        "one-follower": leaders.one_follower,
        "coordinator": leaders.coordinator,
        "coordinator-followers": leaders.coordinator_followers,
    },
    numbered={
        "leader": leaders.leader_of,
        "follower": leaders.followers_of,
        "isr": leaders.members_of,
        "out-of-isr": leaders.outsiders_of,
        "broker": leaders.nth_member,
    },
    conditions=(
        on_partitions(
            "isr == [leader]",
            rf"isr{PARTITION} == \[leader\]",
            lambda view, *_: view.members == (view.leader,),
        ),
        on_partitions(
            "isr whole",
            rf"isr{PARTITION} whole",
            lambda view, _, since: len(view.members) == since.replication_factor,
            of_all=True,
        ),
        on_partitions("fully replicated", "fully replicated", leaders.replicated, of_all=True),
        on_partitions("isr < N", rf"isr{PARTITION} {SIZE}", has_size),
        leaders.LEADER_MOVED,
        leaders.NO_LEADER,
        leaders.CONTROLLER_MOVED,
        leaders.COORDINATOR_ALONE,
        leaders.COORDINATOR_MOVED,
    ),
)
"""Kafka's words."""


class KafkaLog(Target[KafkaPlan]):
    """What our own clusters and those of users have in common."""

    plan: ClassVar[type[KafkaPlan]] = KafkaPlan
    causes: ClassVar[Mapping[str, str]] = explain.CAUSES
    defects: ClassVar[frozenset[str]] = explain.DEFECTS

    @abstractmethod
    def addresses(self, cluster: Cluster) -> str:
        """The bootstrap servers, comma separated."""

    @abstractmethod
    def source(self, cluster: Cluster, plan: KafkaPlan) -> AbstractContextManager[Source]:
        """What the final read reads."""

    def check(self, plan: KafkaPlan) -> None:
        """Refuse settings that a plan may not touch, and what clients cannot do."""
        mistakes = Mistakes()
        with mistakes.noted():
            check_settings(plan.target.settings, where="target.settings")
        with mistakes.noted():
            check_settings(plan.topic.settings, where="topic.settings", level="topic")
        for check in self.checks(plan):
            with mistakes.noted():
                check(plan)
        mistakes.refuse()

    def checks(self, plan: KafkaPlan) -> Sequence[Callable[[KafkaPlan], None]]:
        """What else is checked, each raising PlanError."""
        return [library_of(plan).check]

    def requested(self, plan: KafkaPlan) -> dict[str, Any]:
        settings = {
            "broker": plan.target.settings,
            "topic": plan.topic.settings,
            "producer": plan.workload.producer,
            **({"consumer": plan.workload.consumer} if group_of(plan) is not None else {}),
        }
        return {"settings": settings, "features": plan.target.features}

    def vocabulary(self) -> Vocabulary:
        return VOCABULARY

    def promises(self, plan: Mapping[str, Any], effective: Mapping[str, Any]) -> Promises:
        return definitions.promises(plan, effective.get("producer") or plan["workload"]["producer"])

    def explain(self, folder: Path, lost: pa.Table) -> Sequence[Explanation]:
        return explain.explain(folder, lost)

    def coordinators(self, folder: Path) -> Sequence[Fact]:
        return explain.coordinators(folder)

    def removed(self, folder: Path) -> Removed | None:
        return removed.removed(RunDir(folder))

    def connection(self, cluster: Cluster, plan: KafkaPlan, number: int) -> Mapping[str, JSON]:
        return ANY_CLIENT.connection(self.addresses(cluster), plan, number)

    def answers_within_s(self, plan: KafkaPlan) -> float:
        return ANY_CLIENT.answers_within_s(plan)

    def writer(self, plan: KafkaPlan) -> str:
        return library_of(plan).software(plan)

    def readers(self, plan: KafkaPlan) -> tuple[str, str]:
        return READERS

    def read_all(
        self, cluster: Cluster, plan: KafkaPlan, *, reader: str, timeout_s: float
    ) -> tuple[pa.Table, list[End]]:
        with self.source(cluster, plan) as source:
            return read_from(source, plan, reader=reader, timeout_s=timeout_s)

    def read_ranges(
        self,
        cluster: Cluster,
        plan: KafkaPlan,
        *,
        reader: str,
        ranges: Mapping[int, Sequence[Range]],
        timeout_s: float,
    ) -> tuple[pa.Table, list[End]]:
        with self.source(cluster, plan) as source:
            return read_ranges_from(source, plan, ranges, timeout_s=timeout_s)
