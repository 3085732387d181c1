"""Who is a member, who reads what, and whose commits are refused."""

from __future__ import annotations

import pytest

from targets.memory.leading import STALE_GENERATION, UNKNOWN_MEMBER, Coordinator

SESSION_NS = 1000


def joined(*members: str, partitions: int = 3) -> tuple[Coordinator, dict[str, int]]:
    """A coordinator of its third epoch, and the generation in which each member joined."""
    one = Coordinator(3, partitions, SESSION_NS)
    return one, {member: one.answer("join", member, None, 0)[1][0] for member in members}


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_every_partition_is_shared_out_once(count: int) -> None:
    members = [f"m{number}" for number in range(count)]
    one, _ = joined(*members)
    shares = [one.share_of(member) for member in members]
    assert sorted(partition for share in shares for partition in share) == [0, 1, 2]
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_whoever_joined_before_hears_of_a_new_member_by_its_heartbeat() -> None:
    one, generation = joined("a", "b")
    assert generation["b"] > generation["a"]
    assert one.answer("heartbeat", "a", generation["a"], 1) == ("fail", STALE_GENERATION)
    assert one.answer("heartbeat", "b", generation["b"], 1) == ("ok", None)
    assert one.answer("join", "a", None, 1) == ("ok", (generation["b"], [0]))


def test_commits_of_an_earlier_generation_are_refused() -> None:
    one, generation = joined("a", "b")
    assert one.refuses("a", generation["a"], 1) == STALE_GENERATION
    assert one.refuses("a", generation["b"], 1) is None
    assert one.refuses("c", generation["b"], 1) == UNKNOWN_MEMBER


def test_a_member_that_is_not_heard_of_is_removed() -> None:
    one, generation = joined("a", "b")
    one.answer("heartbeat", "b", generation["b"], SESSION_NS)
    assert one.refuses("a", generation["b"], SESSION_NS + 1) == UNKNOWN_MEMBER
    assert one.share_of("b") == [0, 1, 2]
    assert one.refuses("b", generation["b"], SESSION_NS + 1) == STALE_GENERATION


def test_generations_of_a_later_epoch_are_higher_than_all_before() -> None:
    _, generation = joined(*(f"m{number}" for number in range(50)))
    later = Coordinator(4, 3, SESSION_NS)
    assert later.answer("join", "a", None, 0)[1][0] > max(generation.values())


def test_one_that_assigns_itself_may_commit_while_there_are_no_members() -> None:
    one, _ = joined()
    assert one.refuses("a", None, 0) is None
    one.answer("join", "b", None, 0)
    assert one.refuses("a", None, 0) == STALE_GENERATION
