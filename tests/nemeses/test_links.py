"""The shapes of partitions: who sees whom."""

from __future__ import annotations

import pytest

from nemeses import network
from nemeses.network import Grudge

NAMES = [f"b{n}" for n in range(1, 10)]


def sees(grudge: Grudge, nodes: list[str]) -> dict[str, set[str]]:
    """Who is seen from each node, itself included, when links are cut both ways."""
    cut = {frozenset((node, peer)) for node, peers in grudge.items() for peer in peers}
    return {a: {b for b in nodes if frozenset((a, b)) not in cut} for a in nodes}


def test_halves_see_their_own_side_and_rules_stand_at_the_chosen() -> None:
    grudge = network.halves(["b2", "b3"], ["b1", "b2", "b3", "c1"])
    assert grudge == {"b2": ["b1", "c1"], "b3": ["b1", "c1"], "b1": [], "c1": []}


def test_a_bridge_sees_both_halves_and_they_see_nothing_of_each_other() -> None:
    seen = sees(network.bridge(["b3"], NAMES[:5]), NAMES[:5])
    assert seen["b3"] == set(NAMES[:5])
    assert seen["b1"] == seen["b4"] == {"b1", "b3", "b4"}
    assert seen["b2"] == seen["b5"] == {"b2", "b3", "b5"}


@pytest.mark.parametrize("count", range(3, 10))
def test_in_a_ring_each_sees_a_majority_and_no_two_the_same(count: int) -> None:
    nodes = NAMES[:count]
    seen = sees(network.ring(nodes), nodes)
    assert all(len(view) >= count // 2 + 1 for view in seen.values())
    assert all(node in view for node, view in seen.items())
    assert len({frozenset(view) for view in seen.values()}) == count


@pytest.mark.parametrize("count", [5, 9])
def test_a_ring_with_an_odd_majority_is_the_smallest(count: int) -> None:
    seen = sees(network.ring(NAMES[:count]), NAMES[:count])
    assert {len(view) for view in seen.values()} == {count // 2 + 1}


def test_groups_leave_alone_who_is_in_none_and_who_is_in_two() -> None:
    grudge = network.groups([["b1", "b2"], ["b2", "b3"], ["b4"]])
    seen = sees(grudge, NAMES[:5])
    assert seen["b2"] == {"b1", "b2", "b3", "b5"}
    assert seen["b1"] == {"b1", "b2", "b5"}
    assert seen["b5"] == set(NAMES[:5])


def test_every_cut_link_stands_once() -> None:
    for grudge in (network.ring(NAMES), network.bridge(["b1"], NAMES)):
        cut = [frozenset((a, b)) for a, others in grudge.items() for b in others]
        assert len(cut) == len(set(cut))
