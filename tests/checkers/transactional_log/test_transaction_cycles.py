"""Cycles: the smallest of each component, through real time as well; and what is cut away first."""

from __future__ import annotations

import numpy as np
import pytest

from checkers.graphs import WR, WW, Edges, Ops, shortest, through
from checkers.transactional_log.cycles import cycles_of, document
from harness.protocols import NULL
from harness.protocols.runs import OK


def edges(*rows: tuple[int, int, int]) -> Edges:
    """Edges of operations and a kind; each has its own value."""
    source, target, kind = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    value = np.arange(len(rows))
    return Edges(
        source, target, kind, np.zeros(len(rows), np.int64), value, np.full(len(rows), NULL)
    )


def ops(*spans: tuple[int, int]) -> Ops:
    """Operations that begin and end at these places."""
    begun, ended = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    ok = np.full(len(spans), OK, np.uint8)
    zeros = np.zeros(len(spans), np.int64)
    return Ops(ended, zeros, ok, zeros, begun, ended, begun, ended)


TOGETHER = ops(*((n, 100 + n) for n in range(30)))


def test_the_smallest_cycle_of_a_large_component_is_shown() -> None:
    ring = [(n, (n + 1) % 20, WR) for n in range(20)]
    found = cycles_of(edges(*ring, (7, 3, WR)), TOGETHER)
    assert (found.polls, found.numbers) == (1, {"G0": 0, "G1c": 1, "G1c-realtime": 0})
    (cycle,) = found.shown
    assert (cycle.size, cycle.exact) == (20, True)
    assert {step.source for step in cycle.steps} == {3, 4, 5, 6, 7}


def test_a_cycle_of_writes_alone_is_g0_and_with_a_poll_g1c() -> None:
    found = cycles_of(edges((0, 1, WW), (1, 0, WW), (2, 3, WW), (3, 2, WR)), TOGETHER)
    assert (found.polls, found.numbers) == (0, {"G0": 1, "G1c": 1, "G1c-realtime": 0})
    shown = [document(each, TOGETHER, ()) for each in found.shown]
    assert [(each["kind"], each["tolerated"]) for each in shown] == [("G0", True), ("G1c", True)]


def test_the_cycle_that_is_shown_as_g1c_has_a_poll() -> None:
    """The smallest cycle of the component has none."""
    found = cycles_of(edges((0, 1, WW), (1, 0, WW), (1, 2, WR), (2, 0, WW)), TOGETHER)
    (mixed,) = [each for each in found.shown if each.kind == "G1c"]
    assert {step.kind for step in mixed.steps} == {WW, WR}
    assert len(mixed.steps) == 3


def test_edges_that_lead_forwards_alone_make_no_cycle() -> None:
    found = cycles_of(edges((0, 1, WR), (1, 2, WW), (0, 2, WR)), TOGETHER)
    assert (found.polls, {*found.numbers.values()}, found.shown) == (0, {0}, ())


def test_cycles_in_different_spans_are_both_found() -> None:
    found = cycles_of(edges((0, 1, WR), (1, 0, WR), (1, 8, WR), (8, 9, WR), (9, 8, WR)), TOGETHER)
    assert found.polls == 2


def test_real_time_closes_a_cycle() -> None:
    """Operation 0 polls what 2 sends, which begins after 0 ended; 1 lies between them in time."""
    spans = ops((0, 1), (2, 3), (4, 5))
    found = cycles_of(edges((2, 0, WR)), spans)
    assert (found.numbers["G1c-realtime"], found.polls) == (1, 0)
    shown = document(found.shown[0], spans, ())
    assert not shown["tolerated"]
    assert [(s["from"], s["to"], s["type"]) for s in shown["steps"]] == [(5, 1, "wr"), (1, 5, "rt")]
    assert cycles_of(edges((2, 0, WR)), ops((0, 6), (2, 3), (4, 5))).numbers["G1c-realtime"] == 0


def test_operations_that_end_meanwhile_do_not_lengthen_a_cycle() -> None:
    """From 0 to 1 real time passes the ends of seven operations, and is one step all the same."""
    u, v, w, fillers = (90, 95), (0, 100), (1, 85), [(10 * n, 10 * n + 5) for n in range(1, 8)]
    spans = ops((1, 2), u, v, w, *fillers)
    forwards = [(n, n + 1, WR) for n in range(4, 10)]
    (cycle,) = cycles_of(edges((1, 2, WR), (2, 3, WR), *forwards, (1, 0, WR)), spans).shown
    assert [(step.source, step.target) for step in cycle.steps] == [(1, 0), (0, 1)]


def test_what_is_not_ok_leads_nowhere_in_real_time() -> None:
    spans = ops((0, 1), (4, 5))
    for mark, expected in ((OK, 1), (8, 0)):
        marked = spans._replace(mark=np.array([mark, OK], np.uint8))
        assert cycles_of(edges((1, 0, WR)), marked).numbers["G1c-realtime"] == expected


def test_a_search_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkers.graphs.EDGES_AT_MOST", 5)
    ring = [(n, (n + 1) % 20, WR) for n in range(20)]
    found = cycles_of(edges(*ring, (7, 3, WR), (19, 3, WR)), TOGETHER)
    assert [each.exact for each in found.shown] == [False]


def test_a_component_too_large_to_search_is_searched_near_its_tightest_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A ring of a million operations, and a turn of three in its middle."""
    number = 1_000_000
    ring = np.arange(number)
    source, target = np.append(ring, 500_002), np.append((ring + 1) % number, 500_000)
    zeros, nothing = np.zeros(number + 1, np.int64), np.full(number + 1, NULL)
    large = Edges(source, target, np.full(number + 1, WR), zeros, zeros, nothing)
    found = shortest(large, ring, through(WR))
    assert [step.source for step in found.steps] == [500_002, 500_000, 500_001]
    assert not found.exact
    monkeypatch.setattr("checkers.graphs.EDGES_AT_MOST", 10)
    writes = edges(*((n, (n + 1) % 20, WW) for n in range(20)), (5, 4, WW), (12, 19, WR))
    needs = shortest(writes, np.arange(20), through(WR))
    assert {step.kind for step in needs.steps} == {WW, WR}
