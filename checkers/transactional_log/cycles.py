"""Cycles of operations that depend on each other, and the smallest cycle of each component.

    G0            of ww edges alone: writes of transactions that interleave
    G1c           with a wr edge: circular flow of information
    G1c-realtime  of wr edges and real time: an operation had completed before one began on which it
                  depends (as when a value is polled before it was sent)

Names: Adya, "Weak Consistency", PhD thesis, MIT 1999. How they are found: `checkers.graphs`.

What operations depend on each other by: the edges of Jepsen's graph of a log's transactions.

    ww   one sent the value that stands directly before a value of the other in their log
    wr   one sent a value that the other polled

No edge says that a poll came before a send (rw): polls may always lag behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from checkers.graphs import (
    ABSENT,
    ANY,
    NAMES,
    WR,
    WW,
    Component,
    Cycle,
    Edges,
    Ops,
    components,
    edges_of_kind,
    joined,
    named,
    nodes_of,
    ranks,
    real_time,
    shortest,
    through,
    within_spans,
    without,
)
from checkers.transactional_log.columns import History
from checkers.transactional_log.values import NOWHERE, Values, Versions
from harness.models.micro_ops import POLL
from harness.protocols import NULL, Ints


def edges_of(history: History, values: Values, versions: Versions) -> Edges:
    """The edges of all keys of a history."""
    return joined([_follows(history, values, versions), polled(history, values)])


def _follows(history: History, values: Values, versions: Versions) -> Edges:
    there = np.flatnonzero((versions.slot != NOWHERE) & (values.writer != ABSENT))
    slot, key = versions.slot[there], history.key_of[there]
    later = slot > versions.begins[key]
    there, slot = there[later], slot[later]
    before = versions.holds[slot - 1]
    known = values.writer[before] != ABSENT
    there, before = there[known], before[known]
    return edges_of_kind(
        WW,
        values.writer[before],
        values.writer[there],
        history.keys[history.key_of[there]],
        history.value_of[before],
        history.value_of[there],
    )


def polled(history: History, values: Values) -> Edges:
    """From who sent a value to who polled it."""
    polls = history.micro.take(history.micro.kind == POLL)
    writer = values.writer[polls.thing]
    known = writer != ABSENT
    nothing = np.full(int(known.sum()), NULL)
    polls = polls.take(known)
    return edges_of_kind(
        WR, np.compress(known, writer), polls.op, history.keys[polls.key], polls.value, nothing
    )


G0: Final = "G0"
G1C: Final = "G1c"
REALTIME: Final = "G1c-realtime"
SHOWN: Final = 8
"""Of how many components of a kind a cycle is shown, the smallest components first."""


class Cycles(NamedTuple):
    """How many components there are by kind, those of G1c and G1c-realtime where `wr` edges alone
    make none; `polls`: those of `wr` edges, which G1c counts too. And the cycles that are shown."""

    numbers: dict[str, int]
    polls: int
    shown: tuple[Cycle, ...]


def cycles_of(edges: Edges, ops: Ops) -> Cycles:
    """All cycles of a history."""
    rank, number = ranks(ops), len(ops.begun)
    every = within_spans(edges, rank)
    ww = within_spans(every.take(every.kind == WW), rank)
    wr = within_spans(every.take(every.kind == WR), rank)
    timed = joined([wr, real_time(wr, ops)])
    writes, polls = components(ww, number), components(wr, number)
    behind = without(components(timed, number), timed, nodes_of(polls, wr))
    mixed = without(components(every, number), every, nodes_of(polls, wr))
    mixed = [each for each in mixed if (every.kind[each.rows] == WR).any()]
    return Cycles(
        {G0: len(writes), G1C: len(polls) + len(mixed), REALTIME: len(behind)},
        len(polls),
        (
            *_shown(G1C, polls, wr, rank),
            *_shown(REALTIME, behind, timed, rank),
            *_shown(G0, writes, ww, rank),
            *_shown(G1C, mixed, every, rank),
        ),
    )


def _shown(kind: str, components: list[Component], edges: Edges, rank: Ints) -> Iterator[Cycle]:
    for each in components[:SHOWN]:
        found = shortest(edges.take(each.rows), rank, ANY if kind == G0 else through(WR))
        yield Cycle(kind, each.size, found.exact, found.steps)


def document(cycle: Cycle, ops: Ops, texts: Sequence[str]) -> dict[str, Any]:
    """A cycle as JSON: its operations by their index, and why each comes before the next. It is
    tolerated where it needs the order of writes."""

    def text(number: int) -> str | None:
        return None if number == NULL else named(number, texts)

    return {
        "kind": cycle.kind,
        "tolerated": any(step.kind == WW for step in cycle.steps),
        "operations": cycle.size,
        "smallest": cycle.exact,
        "steps": [
            {
                "from": int(ops.place[step.source]),
                "to": int(ops.place[step.target]),
                "type": NAMES[step.kind],
                "key": text(step.key),
                "value": text(step.value),
                "next": text(step.next),
            }
            for step in cycle.steps
        ],
    }
