"""Kafka's words in plans: selectors of its nodes, and conditions that a step can wait for.

    controller          the active controller
    after-controller    the broker after it in their order: never the controller; the first broker
                        where controllers are nodes of their own
    leader              the broker that leads most partitions (the lowest name when several do)
    followers           the brokers that do not; one-follower: one of them, drawn from the seed
    leader(P)           the leader of partition P
    isr(P)              its in-sync replicas; follower(P): without the leader
    out-of-isr(P)       the brokers that are not among them
    broker(N)           the Nth broker: 1, 2 ...
    coordinator         the coordinator of the run's group of consumers: the leader of its partition
                        of __consumer_offsets; coordinator-followers: its other in-sync replicas

`one`, `minority`, `majority` and `random` mean brokers. A step can wait until

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

from typing import Final

from harness.faults import leaders
from harness.faults.leaders import PARTITION, SIZE, has_size, on_partitions
from harness.protocols import PartitionView
from harness.protocols.faults import Groups, Since, Vocabulary


def _leader_alone(view: PartitionView, groups: Groups, since: Since) -> bool:  # noqa: ARG001
    return view.members == (view.leader,)


def _whole(view: PartitionView, groups: Groups, since: Since) -> bool:  # noqa: ARG001
    return len(view.members) == since.replication_factor


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
        on_partitions("isr == [leader]", rf"isr{PARTITION} == \[leader\]", _leader_alone),
        on_partitions("isr whole", rf"isr{PARTITION} whole", _whole, of_all=True),
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
