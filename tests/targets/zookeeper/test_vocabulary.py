"""ZooKeeper's own selectors and conditions."""

from __future__ import annotations

import pytest

from harness.faults import selectors
from harness.protocols import PartitionView, Situation
from harness.protocols.faults import Choice, Since
from targets.zookeeper import ZooKeeper

VOCABULARY = ZooKeeper().vocabulary()

ROLES = {f"z{n}": frozenset({"voter"}) for n in range(1, 6)} | {"o1": frozenset({"observer"})}
ALL = tuple(f"z{n}" for n in range(1, 6))


def situation(leader: str | None, members: tuple[str, ...] = ()) -> Situation:
    seen = PartitionView(partition=0, leader=leader, leader_epoch=1, members=members)
    return Situation(time_ns=0, partitions={0: seen})


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("leader", ["z3"]),
        ("followers", ["z1", "z2", "z4", "z5"]),
        ("server(2)", ["z2"]),
        ("follower(2)", ["z2"]),
        ("follower(3)", ["z4"]),
        ("follower(5)", []),
        ("all", [*ALL, "o1"]),
        ("role:observer", ["o1"]),
        ("role:voter - leader", ["z1", "z2", "z4", "z5"]),
    ],
)
def test_a_selector_names_servers(selector: str, names: list[str]) -> None:
    choice = Choice(roles=ROLES, situation=situation("z3", ALL), vocabulary=VOCABULARY)
    selectors.check(selector, VOCABULARY, key="nodes")
    assert selectors.select(selector, choice) == names


def test_a_majority_is_of_those_with_a_vote() -> None:
    choice = Choice(roles=ROLES, situation=situation(None), vocabulary=VOCABULARY)
    assert len(selectors.select("majority", choice)) == 3
    assert "o1" not in selectors.select("majority", choice)


def test_nobody_follows_nobody() -> None:
    choice = Choice(roles=ROLES, situation=situation(None), vocabulary=VOCABULARY)
    assert selectors.select("leader + followers", choice) == []
    assert selectors.select("members", choice) == list(ALL)


@pytest.mark.parametrize(
    ("condition", "now", "holds"),
    [
        ("leader moved", situation("z2", ALL), True),
        ("leader moved", situation("z1", ALL), False),
        ("leader moved", situation(None), False),
        ("no leader", situation(None), True),
        ("no leader", situation("z1", ALL), False),
        ("quorum lost", situation(None), True),
        ("quorum lost", situation("z1", ("z1", "z2")), True),
        ("quorum lost", situation("z1", ("z1", "z2", "z3")), False),
        ("fully replicated", situation("z1", ALL), True),
        ("fully replicated", situation("z1", ("z1", "z2", "z3")), False),
        ("quorum lost", Situation(time_ns=0), False),
        ("in sync == 4", situation("z1", ALL[:4]), True),
        ("in sync == 4", situation("z1", ALL), False),
        ("in sync < 4", situation("z1", ALL[:3]), True),
        ("in sync > 4", situation("z1", ALL), True),
        ("in sync < 4", situation(None), False),
    ],
)
def test_a_condition_compares_with_before(condition: str, now: Situation, holds: bool) -> None:
    since = Since(nodes=("z1",), situation=situation("z1", ALL), replication_factor=5)
    assert selectors.parse_condition(condition, VOCABULARY, key="when").holds(now, since) is holds
