"""The reference system's words in plans: selectors of its nodes, and conditions.

    controller          the node that decides who leads
    leader              the replica that leads most partitions (the lowest name when several do)
    leader(P)           the leader of partition P
    followers           the replicas that do not lead most partitions
    one-follower        one of them, drawn from the seed
    follower(P)         the in-sync replicas of partition P without its leader
    replica(N)          the Nth replica: 1, 2 ...
    coordinator         the node that coordinates the group of consumers
    coordinator-followers  the other in-sync replicas of the partition that the group commits to

`one`, `minority`, `majority` and `random` mean replicas. A step can wait until

    fully replicated    all replicas of every partition are in sync
    leader moved        every concerned partition has a new leader
    no leader           every concerned partition has no leader
    coordinator alone   the coordinator is the only in-sync replica of that partition
    coordinator moved   a different node coordinates the group

"New", "different" and "concerned" mean what they mean for Kafka; `leader(0) moved` names a
partition.
"""

from __future__ import annotations

from typing import Final

from harness.faults import leaders
from harness.faults.leaders import PARTITION, on_partitions
from harness.protocols.faults import Vocabulary
from targets.memory.system import REPLICA_ROLE

VOCABULARY: Final = Vocabulary(
    owner="memory",
    member_roles=frozenset({REPLICA_ROLE}),
    words={
        "controller": leaders.controller,
        "leader": leaders.leading_most,
        "followers": leaders.followers,
        "one-follower": leaders.one_follower,
        "coordinator": leaders.coordinator,
        "coordinator-followers": leaders.coordinator_followers,
    },
    numbered={
        "leader": leaders.leader_of,
        "follower": leaders.followers_of,
        "replica": leaders.nth_member,
    },
    conditions=(
        on_partitions(
            "fully replicated", rf"fully replicated{PARTITION}", leaders.replicated, of_all=True
        ),
        leaders.LEADER_MOVED,
        leaders.NO_LEADER,
        leaders.COORDINATOR_ALONE,
        leaders.COORDINATOR_MOVED,
    ),
)
"""The reference system's words."""
