"""Cycles of operations that depend on each other, and the smallest cycle of each component.

    G0            of ww edges alone: writes of transactions that interleave
    G1c           with a wr edge: circular flow of information
    G1c-realtime  of wr edges and real time: an operation had completed before one began on which it
                  depends (as when a value is polled before it was sent)

Strongly connected components find whether there are any (Adya, "Weak Consistency", PhD thesis, MIT
1999, for the names; Kingsbury and Alvaro, "Elle", VLDB 14 (3), 2020, for the method). The graph is
cut down first to what can be in a cycle: operations stand in the order in which they began, and a
cycle must come back by edges that lead backwards in it. Each span between the ends of such an edge
may hold cycles; edges that leave the spans that overlap cannot. Real time leads forwards alone. It
is drawn as a chain of completions: an operation leads to its own, and the last one before an
operation began leads to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from checkers.transactional_log.columns import Ops, named
from checkers.transactional_log.edges import NAMES, RT, WR, WW, Edges, joined
from checkers.transactional_log.grouping import codes_of
from checkers.transactional_log.shortest import Step, shortest
from harness.protocols import NULL, Ints
from harness.protocols.runs import OK

G0: Final = "G0"
G1C: Final = "G1c"
REALTIME: Final = "G1c-realtime"
SHOWN: Final = 8
"""Of how many components of a kind a cycle is shown, the smallest components first."""


class Cycle(NamedTuple):
    """The smallest cycle of a component (`exact`: certainly). `wr_alone`: without ww edges; `size`:
    how many operations the component has; `steps`: from each operation to the next, and back."""

    kind: str
    wr_alone: bool
    size: int
    exact: bool
    steps: tuple[Step, ...]


class Cycles(NamedTuple):
    """How many components there are: of ww edges; of wr edges; of both, where wr edges alone make
    none; of wr edges and real time, likewise. And the cycles that are shown."""

    writes: int = 0
    polls: int = 0
    mixed: int = 0
    realtime: int = 0
    shown: tuple[Cycle, ...] = ()


class _Component(NamedTuple):
    """Its edges, as places among all; how many operations it has."""

    rows: Ints
    size: int


def cycles_of(edges: Edges, ops: Ops) -> Cycles:
    """All cycles of a history."""
    number = len(ops.begun)
    rank = np.empty(number, np.int64)
    rank[np.argsort(ops.begun, kind="stable")] = np.arange(number)
    every = _within_spans(edges, rank)
    ww = _within_spans(every.take(every.kind == WW), rank)
    wr = _within_spans(every.take(every.kind == WR), rank)
    timed = joined([wr, _real_time(wr, ops)])
    writes, polls = _components(ww, number), _components(wr, number)
    behind = _without(_components(timed, number), timed, _nodes(polls, wr))
    mixed = _without(_components(every, number), every, _nodes(polls, wr))
    mixed = [each for each in mixed if (every.kind[each.rows] == WR).any()]
    return Cycles(
        len(writes),
        len(polls),
        len(mixed),
        len(behind),
        (
            *_shown(G1C, polls, wr, rank, wr_alone=True),
            *_shown(REALTIME, behind, timed, rank, wr_alone=True),
            *_shown(G0, writes, ww, rank, wr_alone=False),
            *_shown(G1C, mixed, every, rank, wr_alone=False),
        ),
    )


def _within_spans(edges: Edges, rank: Ints) -> Edges:
    """The edges that may be in a cycle: within the spans of those that lead backwards."""
    source, target = rank[edges.source], rank[edges.target]
    back = np.flatnonzero(target < source)
    if not len(back):
        return edges.take(back)
    change = np.bincount(target[back], minlength=len(rank)).astype(np.int64)
    change -= np.bincount(source[back], minlength=len(rank))
    joins = np.cumsum(change) > 0  # a span holds both this rank and the next
    span = np.cumsum(np.append(True, ~joins[:-1]))
    return edges.take(span[source] == span[target])


def _real_time(edges: Edges, ops: Ops) -> Edges:
    """The chain of completions, of the operations that edges join; its nodes are numbered after the
    operations. What is not ok leads nowhere: it may take effect later."""
    some = np.unique(np.concatenate([edges.source, edges.target]))
    done = some[ops.mark[some] == OK]
    done = done[np.argsort(ops.ended[done])]
    node = len(ops.mark) + np.arange(len(done))
    last = np.searchsorted(ops.ended[done], ops.begun[some]) - 1
    later = last >= 0
    source = np.concatenate([done, node[:-1], node[last[later]]])
    target = np.concatenate([node, node[1:], some[later]])
    nothing = np.full(len(source), NULL)
    return Edges(source, target, np.full(len(source), RT), nothing, nothing, nothing)


def _components(edges: Edges, number: int) -> list[_Component]:
    """The strongly connected components of several nodes, the smallest first. `number`: of
    operations; other nodes do not count."""
    if not len(edges.kind):
        return []
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    ends = np.concatenate([edges.source, edges.target])
    at = codes_of(ends)
    nodes = at.firsts(ends)
    source, target = np.split(at.codes, 2)
    graph = csr_matrix((np.ones(len(source), np.bool_), (source, target)), (len(nodes),) * 2)
    _, label = connected_components(graph, directed=True, connection="strong")
    inside = np.flatnonzero(label[source] == label[target])
    if not len(inside):
        return []
    inside = inside[np.argsort(label[source[inside]], kind="stable")]
    of = label[source[inside]]
    sizes = np.bincount(label[nodes < number], minlength=int(label.max()) + 1)
    groups = np.split(inside, np.flatnonzero(np.diff(of)) + 1)
    found = [_Component(rows, int(sizes[label[source[rows[0]]]])) for rows in groups]
    return sorted(found, key=lambda each: (each.size, int(each.rows[0])))


def _nodes(components: Sequence[_Component], edges: Edges) -> Ints:
    """The nodes of components."""
    rows = [np.empty(0, np.int64), *(each.rows for each in components)]
    return np.unique(edges.source[np.concatenate(rows)])


def _without(components: list[_Component], edges: Edges, nodes: Ints) -> list[_Component]:
    """The components that hold none of some nodes."""
    if not len(nodes):
        return components
    return [each for each in components if not np.isin(edges.source[each.rows], nodes).any()]


def _shown(
    kind: str, components: list[_Component], edges: Edges, rank: Ints, *, wr_alone: bool
) -> list[Cycle]:
    shown = []
    for each in components[:SHOWN]:
        found = shortest(edges.take(each.rows), rank, through=None if kind == G0 else WR)
        shown.append(Cycle(kind, wr_alone, each.size, found.exact, found.steps))
    return shown


def document(cycle: Cycle, ops: Ops, texts: Sequence[str], *, tolerated: bool) -> dict[str, Any]:
    """A cycle as JSON: its operations by their index, and why each comes before the next."""

    def text(number: int) -> str | None:
        return None if number == NULL else named(number, texts)

    return {
        "kind": cycle.kind,
        "tolerated": tolerated,
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
