"""Which configuration a search looks at next, and what is open at each of its completions."""

from __future__ import annotations

from checkers.register.linearization import COST, Frontier, timeline
from tests.checkers.register.histories import r, w


def taken(frontier: Frontier[str, int]) -> list[tuple[str, int]]:
    found = []
    while (one := frontier.next()) is not None:
        found.append(one[:2])
    return found


def test_the_furthest_is_next_and_of_those_the_last_found():
    frontier = Frontier[str, int]()
    for where, progress in (("near", 1), ("far", 9), ("farther", 10), ("as far", 9)):
        frontier.add(where, 0, 0, progress=progress)
    assert [where for where, _ in taken(frontier)] == ["farther", "as far", "far", "near"]


def test_an_unanswered_write_is_worth_some_operations():
    frontier = Frontier[str, int]()
    frontier.add("spent", 0b101, 0, progress=2 * COST)
    frontier.add("a little less", 0b001, 0, progress=COST + 1)
    frontier.add("as far", 0, 0, progress=0)
    assert [where for where, _ in taken(frontier)] == ["a little less", "as far", "spent"]


def test_of_equals_only_those_stay_that_used_no_more_than_another():
    frontier = Frontier[str, int]()
    frontier.add("here", 0b011, 0, progress=0)
    frontier.add("here", 0b111, 0, progress=0)
    frontier.add("here", 0b011, 0, progress=0)
    frontier.add("there", 0b111, 0, progress=0)
    frontier.add("here", 0b100, 0, progress=0)
    assert frontier.states == 3
    assert taken(frontier) == [("here", 0b100), ("here", 0b011), ("there", 0b111)]


def test_what_used_more_than_one_found_later_is_not_looked_at():
    frontier = Frontier[str, int]()
    frontier.add("here", 0b11, 0, progress=2 * COST)
    frontier.add("here", 0b01, 0, progress=0)
    assert frontier.states == 2
    assert taken(frontier) == [("here", 0b01)]


def test_a_moment_holds_the_values_of_open_reads_alone():
    """Else a key of n values would take n times n entries."""
    writes = [w(value, 10 * value, 10 * value + 1) for value in range(1, 40)]
    reads = [r(value, 10 * value + 2, 10 * value + 15, process=1) for value in range(1, 40)]
    moments = timeline([*writes, *reads]).moments
    assert max(len(moment.reads_of) for moment in moments) == 2
    assert all(
        len(moment.reads_of) == len(moment.reads) and all(moment.reads_of.values())
        for moment in moments
    )
