"""The reference system's words in plans are those of Kafka, with replicas for brokers: selectors
`controller`, `leader`, `followers`, `one-follower`, `leader(P)`, `follower(P)`, `replica(N)`,
`coordinator`, `coordinator-followers`, and conditions `fully replicated`, `leader moved`,
`no leader`, `coordinator alone`, `coordinator moved`.
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
