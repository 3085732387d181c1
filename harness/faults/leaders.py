"""Selectors and conditions about leaders: words that a target with leaders adds to its vocabulary.

A condition concerns the partition that it names in brackets. Otherwise it concerns those that the
nodes of the last fault led when it began, or all partitions if they led none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from harness.protocols import PartitionView, Situation
from harness.protocols.faults import Choice, ConditionForm, Groups, Since, Vocabulary

PARTITION: Final = r"(?:\((?P<partition>\d+)\))?"
"""In a condition's pattern: a partition in brackets, or none."""

SIZE: Final = r"(?P<compare><|>|==) (?P<size>\d+)"
"""In a condition's pattern: what the number of in-sync members is compared with (`has_size`)."""

Test = Callable[[PartitionView, Groups, Since], bool]
"""Whether a condition holds for one partition."""


def controller(choice: Choice) -> set[str]:
    """The active controller."""
    active = choice.situation.controller
    return set() if active is None else {active}


def after_controller(choice: Choice) -> set[str]:
    """The member that follows the active controller in their order; the first one where the
    controller is none of them."""
    members = [*choice.members]
    active = choice.situation.controller
    place = members.index(active) + 1 if active in members else 0
    return {members[place % len(members)]} if members else set()


def coordinator(choice: Choice) -> set[str]:
    """The node that coordinates the run's group: of the first cell, if there are several."""
    view = choice.situation.coordination
    return set() if view is None or view.leader is None else {view.leader}


def coordinator_followers(choice: Choice) -> set[str]:
    """The in-sync members of the partition that the group's coordinator leads, without it."""
    view = choice.situation.coordination
    return set() if view is None else set(view.members) - {view.leader or ""}


def leading_most(choice: Choice) -> set[str]:
    """The node that leads most partitions; the lowest name when several do."""
    leaders = Counter(v.leader for v in choice.situation.partitions.values() if v.leader)
    return {min(leaders, key=lambda name: (-leaders[name], name))} if leaders else set()


def leader_of(choice: Choice, partition: int) -> set[str]:
    """The leader of a partition."""
    view = choice.situation.partitions.get(partition)
    return {view.leader} if view is not None and view.leader is not None else set()


def members_of(choice: Choice, partition: int) -> set[str]:
    """The in-sync members of a partition."""
    view = choice.situation.partitions.get(partition)
    return set() if view is None else set(view.members)


def followers_of(choice: Choice, partition: int) -> set[str]:
    """Its in-sync members without the leader."""
    return members_of(choice, partition) - leader_of(choice, partition)


def outsiders_of(choice: Choice, partition: int) -> set[str]:
    """The nodes that hold data and are not in-sync members of the partition."""
    if partition not in choice.situation.partitions:
        return set()
    return set(choice.members) - members_of(choice, partition)


def nth_member(choice: Choice, number: int) -> set[str]:
    """The Nth node that holds data, counted from 1."""
    return set(choice.members[number - 1 : number]) if number else set()


def on_partitions(form: str, pattern: str, test: Test, *, of_all: bool = False) -> ConditionForm:
    """A condition that holds when every concerned partition passes a test; `of_all`: without a
    partition in brackets it concerns all of them."""
    return ConditionForm(
        form=form,
        pattern=re.compile(pattern),
        holds=partial(_hold_all, test=test, of_all=of_all),
        why_never=_why_never,
    )


def has_size(view: PartitionView, groups: Groups, since: Since) -> bool:  # noqa: ARG001
    """Whether as many members are in sync as a condition with `SIZE` requests."""
    return view.in_sync is not None and _compared(view.in_sync, groups)


def _compared(size: int, groups: Groups) -> bool:
    wanted = int(groups["size"] or 0)
    return {"<": size < wanted, ">": size > wanted, "==": size == wanted}[groups["compare"] or ""]


def _why_never(groups: Groups, partitions: int, replicas: int) -> str | None:
    partition = groups.get("partition")
    if partition is not None and int(partition) >= partitions:
        return f"there is no partition {partition}, they are 0 to {partitions - 1}"
    if groups.get("size") and not any(_compared(size, groups) for size in range(replicas + 1)):
        return f"a partition has {replicas} replicas"
    return None


def _hold_all(groups: Groups, now: Situation, since: Since, *, test: Test, of_all: bool) -> bool:
    concerned = _concerned(groups, now, since, of_all=of_all)
    views = [now.partitions.get(partition) for partition in concerned]
    return bool(views) and all(view is not None and test(view, groups, since) for view in views)


def _concerned(groups: Groups, now: Situation, since: Since, *, of_all: bool) -> list[int]:
    if (partition := groups.get("partition")) is not None:
        return [int(partition)]
    before = since.situation.partitions.values()
    led = [view.partition for view in before if view.leader in since.nodes]
    return led if led and not of_all else list(now.partitions)


def _has_moved(view: PartitionView | None, before: PartitionView | None) -> bool:
    if view is None or before is None:
        return False
    return view.leader is not None and view.leader != before.leader


LEADER_MOVED: Final = on_partitions(
    "leader moved",
    rf"leader{PARTITION} moved",
    lambda view, _, since: _has_moved(view, since.situation.partitions.get(view.partition)),
)
"""Every concerned partition has a new leader."""

NO_LEADER: Final = on_partitions(
    "no leader", rf"no leader{PARTITION}", lambda view, *_: view.leader is None
)
"""Every concerned partition has no leader."""

CONTROLLER_MOVED: Final = ConditionForm(
    form="controller moved",
    pattern=re.compile("controller moved"),
    holds=lambda _, now, since: now.controller not in (None, since.situation.controller),
)
"""A different controller is active."""

COORDINATOR_ALONE: Final = ConditionForm(
    form="coordinator alone",
    pattern=re.compile("coordinator alone"),
    holds=lambda _, now, __: (
        (view := now.coordination) is not None and view.members == (view.leader,)
    ),
)
"""The group's coordinator is the only in-sync member of the partition that it leads."""

COORDINATOR_MOVED: Final = ConditionForm(
    form="coordinator moved",
    pattern=re.compile("coordinator moved"),
    holds=lambda _, now, since: _has_moved(now.coordination, since.situation.coordination),
)
"""A different node coordinates the group."""


def followers(choice: Choice) -> set[str]:
    """The nodes that hold data and do not lead most partitions; none where any of them may lead."""
    leading = leading_most(choice)
    return set(choice.members) - leading if leading else set()


def one_follower(choice: Choice) -> set[str]:
    """One of them, drawn from the seed."""
    return set(choice.draw.sample(sorted(followers(choice)), 1)) if followers(choice) else set()


def _nth_follower(choice: Choice, number: int) -> set[str]:
    return set(sorted(followers(choice))[number - 1 : number]) if number else set()


def _lost(view: PartitionView, groups: Groups, since: Since) -> bool:  # noqa: ARG001
    in_sync = view.in_sync
    return view.leader is None or (in_sync is not None and 2 * in_sync <= since.replication_factor)


def replicated(view: PartitionView, groups: Groups, since: Since) -> bool:  # noqa: ARG001
    """Whether a partition has a leader, and all its replicas are in sync."""
    return view.leader is not None and len(view.members) == since.replication_factor


def _led_with_size(view: PartitionView, groups: Groups, since: Since) -> bool:
    return view.leader is not None and has_size(view, groups, since)


def quorum_vocabulary(owner: str, *, voters: frozenset[str] = frozenset()) -> Vocabulary:
    """Words for a system in which one server leads by a majority; `voters`: the roles of servers
    with a vote, by default all have one. Selectors of its servers:

        leader              the server that leads
        followers           the servers with a vote that do not lead, while one is known to lead
        one-follower        one of them, drawn from the seed
        follower(N)         the Nth of them: 1, 2 ...
        server(N)           the Nth server with a vote: 1, 2 ...

    `members`, `one`, `minority`, `majority`, `random`: servers with a vote. A step can wait until

        leader moved        a different server leads
        no leader           no server leads
        quorum lost         no server leads with a majority in sync
        fully replicated    every server with a vote is in sync with the leader
        in sync == N        the number of servers in sync, the leader included; also `in sync < N`,
                            `in sync > N`

    How many are in sync is what the leader reports: where that is unknown, `fully replicated` and
    `in sync` do not hold, and `quorum lost` only while no server leads.
    """
    return Vocabulary(
        owner=owner,
        member_roles=voters,
        words={"leader": leading_most, "followers": followers, "one-follower": one_follower},
        numbered={"server": nth_member, "follower": _nth_follower},
        conditions=(
            LEADER_MOVED,
            NO_LEADER,
            on_partitions("quorum lost", "quorum lost", _lost, of_all=True),
            on_partitions("fully replicated", "fully replicated", replicated, of_all=True),
            on_partitions("in sync == N", rf"in sync {SIZE}", _led_with_size, of_all=True),
        ),
    )
