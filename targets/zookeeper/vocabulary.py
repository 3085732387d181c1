"""ZooKeeper's words in plans: selectors of its servers, and conditions that a step can wait for.

    leader              the server that leads
    followers           the servers with a vote that do not lead
    follower(N)         the Nth of them: 1, 2 ...
    server(N)           the Nth server with a vote: 1, 2 ...

`one`, `minority`, `majority` and `random` mean servers with a vote; observers are
`role:observer`. A step can wait until

    leader moved        a different server leads
    no leader           no server leads
    quorum lost         no server leads with a majority in sync
    fully replicated    every server with a vote is in sync with the leader
    in sync == N        the number of servers in sync, the leader included; also `in sync < N`,
                        `in sync > N`

"Different" compares with the moment when the last fault began. How many are in sync is what the
leader reports: where that is unknown, `fully replicated` and `in sync` do not hold, and `quorum
lost` only while no server leads.
"""

from __future__ import annotations

from typing import Final

from harness.faults import leaders
from harness.faults.leaders import SIZE, has_size, on_partitions
from harness.protocols import PartitionView
from harness.protocols.vocabulary import Choice, Groups, Since, Vocabulary
from targets.zookeeper.layout import VOTER


def _followers(choice: Choice) -> set[str]:
    return set(choice.members) - leaders.leading_most(choice)


def _nth_follower(choice: Choice, number: int) -> set[str]:
    return set(sorted(_followers(choice))[number - 1 : number]) if number else set()


def _lost(view: PartitionView, groups: Groups, since: Since) -> bool:  # noqa: ARG001
    in_sync = view.in_sync
    return view.leader is None or (in_sync is not None and 2 * in_sync <= since.replication_factor)


def _replicated(view: PartitionView, groups: Groups, since: Since) -> bool:  # noqa: ARG001
    return view.leader is not None and len(view.members) == since.replication_factor


def _size(view: PartitionView, groups: Groups, since: Since) -> bool:
    return view.leader is not None and has_size(view, groups, since)


VOCABULARY: Final = Vocabulary(
    owner="zookeeper",
    member_roles=frozenset({VOTER}),
    words={"leader": leaders.leading_most, "followers": _followers},
    numbered={"server": leaders.nth_member, "follower": _nth_follower},
    conditions=(
        leaders.LEADER_MOVED,
        leaders.NO_LEADER,
        on_partitions("quorum lost", "quorum lost", _lost, of_all=True),
        on_partitions("fully replicated", "fully replicated", _replicated, of_all=True),
        on_partitions("in sync == N", rf"in sync {SIZE}", _size, of_all=True),
    ),
)
"""ZooKeeper's words."""
