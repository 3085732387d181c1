"""Graphs of operations that depend on each other: components, and the smallest cycle of each.

Strongly connected components find whether there are any cycles (Kingsbury and Alvaro, "Elle", VLDB
14 (3), 2020). The graph is cut down first to what can be in a cycle: operations stand in the order
in which they began, and a cycle must come back by edges that lead backwards in it. Each span
between the ends of such an edge may hold cycles; edges that leave the spans that overlap cannot.
Real time leads forwards alone. It is drawn as a chain of completions: an operation leads to its
own, and the last one before an operation began leads to that.

The smallest cycle of a strongly connected component, by breadth-first search.

Every cycle has an edge that leads backwards in the order in which operations began, so the search
starts at each of those and looks for the shortest way back to its source. Nodes of the chain that
stands for real time count nothing. Where a cycle needs edges of some kinds, in some order, a node
is visited once in each state of an automaton that reads the kinds of edges.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from checkers.graphs.columns import Ops, codes_of, places, taken
from harness.protocols import NULL, Bools, Ints
from harness.protocols.runs import OK

WW, WR, RT, RW, PROCESS = range(5)
"""Kinds of edges: one wrote the value before that of the other; one wrote what the other read; one
had completed before the other began; one read the value before the one that the other wrote; both
are of one process."""

NAMES: Final = ("ww", "wr", "rt", "rw", "process")


class Edges(NamedTuple):
    """One row an edge, from an operation to another. `key` is the number of a key; `value` was sent
    by `source`, and `next`, the value after it, by `target` (NULL where it was polled)."""

    source: Ints
    target: Ints
    kind: Ints
    key: Ints
    value: Ints
    next: Ints

    def take(self, rows: Ints | Bools) -> Edges:
        chosen = places(rows)
        return self if chosen is None else Edges._make(taken(self, chosen))


def joined(parts: Sequence[Edges]) -> Edges:
    return Edges._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


def edges_of_kind(
    kind: int, source: Ints, target: Ints, key: Ints, value: Ints, then: Ints
) -> Edges:
    """Edges of one kind; none from an operation to itself."""
    found = Edges(source, target, np.full(len(source), kind), key, value, then)
    return found.take(source != target)


EDGES_AT_MOST: Final = 200_000
"""How many edges are followed for one component before the search takes the smallest cycle that it
has found."""


class Step(NamedTuple):
    source: int
    target: int
    kind: int
    key: int
    value: int
    next: int


class Shortest(NamedTuple):
    """A cycle; `exact`: none is smaller."""

    steps: tuple[Step, ...]
    exact: bool


_State = tuple[int, int]
"""A node, and the state of the automaton there."""


class Pattern(NamedTuple):
    """The cycles that are searched, by an automaton: the state that each state and kind of edge
    lead to (-1: none), and the state in which a cycle may end. It begins in state 0."""

    moves: tuple[tuple[int, ...], ...]
    end: int


ANY: Final = Pattern(((0,) * len(NAMES),), 0)
"""All cycles."""


def through(kind: int) -> Pattern:
    """Cycles with an edge of a kind."""
    first = tuple(int(each == kind) for each in range(len(NAMES)))
    return Pattern((first, (1,) * len(NAMES)), 1)


class _Search:
    """The edges of a component, and how many were followed so far."""

    def __init__(self, edges: Edges, nodes: int, pattern: Pattern) -> None:
        self.steps = [
            Step(*row) for row in zip(*(column.tolist() for column in edges), strict=True)
        ]
        self.followed = 0
        self._nodes, self._pattern = nodes, pattern
        self._leaving: dict[int, list[int]] = {}
        for row, step in enumerate(self.steps):
            self._leaving.setdefault(step.source, []).append(row)

    def back(self, start: int, at_most: int) -> list[int] | None:
        """The shortest cycle with an edge, as edges, where it has no more than so many."""
        first = self.steps[start]
        moves, end = self._pattern
        begin, goal = (first.target, moves[0][first.kind]), (first.source, end)
        if begin[1] < 0:
            return None
        came: dict[_State, tuple[int, _State]] = {}
        far = {begin: 1}
        queue = deque([begin])
        while queue:
            state = queue.popleft()
            if state == goal:
                return self._cycle(start, came, begin, goal)
            for row in self._leaving.get(state[0], ()):
                self.followed += 1
                _, target, kind, *_ = self.steps[row]
                then = (target, moves[state[1]][kind])
                if then[1] < 0:
                    continue
                cost = target < self._nodes
                length = far[state] + cost
                if length <= at_most and length < far.get(then, at_most + 1):
                    far[then], came[then] = length, (row, state)
                    if cost:
                        queue.append(then)
                    else:
                        queue.appendleft(then)
        return None

    def _cycle(
        self, start: int, came: dict[_State, tuple[int, _State]], begin: _State, goal: _State
    ) -> list[int]:
        rows, state = [], goal
        while state != begin:
            row, state = came[state]
            rows.append(row)
        return [start, *reversed(rows)]


def shortest(edges: Edges, rank: Ints, pattern: Pattern) -> Shortest:
    """The smallest cycle of a component that fits a pattern; there must be one. `rank`: of each
    operation; nodes beyond those stand for real time."""
    for part in _parts(edges, rank):
        whole = len(part.kind) == len(edges.kind)
        found = smallest(part, rank, pattern, patient=whole)
        if found is not None:
            return found._replace(exact=found.exact and whole)
    raise AssertionError("a strongly connected component has a cycle")


def _parts(edges: Edges, rank: Ints) -> Iterator[Edges]:
    """The edges; of a component too large to search, first those near the edge that leads back the
    least, more and more of them."""
    nodes = len(rank)
    real = (edges.source < nodes) & (edges.target < nodes)
    if len(edges.kind) > EDGES_AT_MOST and real.all():
        source, target = rank[edges.source], rank[edges.target]
        length = np.where(target < source, source - target, nodes)
        at = int(length.argmin())
        low, high, room = int(target[at]), int(source[at]), int(length[at])
        while room < nodes:
            near = (np.minimum(source, target) >= low - room) & (
                np.maximum(source, target) <= high + room
            )
            if np.count_nonzero(near) > EDGES_AT_MOST:
                break
            yield edges.take(near)
            room *= 4
    yield edges


def smallest(
    edges: Edges, rank: Ints, pattern: Pattern, *, patient: bool, starts: Bools | None = None
) -> Shortest | None:
    """The smallest cycle that is found; without patience none, where the search takes too long.
    It has one of the edges `starts`; by default one that leads backwards."""
    nodes = len(rank)
    real = np.flatnonzero((edges.source < nodes) & (edges.target < nodes))
    ahead = rank[edges.target[real]] - rank[edges.source[real]]
    if starts is None:
        begin = real[ahead < 0]
    else:
        begin = real[np.argsort(np.abs(ahead), kind="stable")]
        begin = begin[starts[begin]]
    search = _Search(edges, nodes, pattern)
    best: list[int] | None = None
    length = len(search.steps)
    exact = True
    for start in begin.tolist():
        if search.followed > EDGES_AT_MOST and (best is not None or not patient):
            exact = False
            break
        found = search.back(start, length)
        if found is not None:
            best = found
            length = sum(search.steps[row].target < nodes for row in found) - 1
    if best is None:
        return None
    return Shortest(_joined([search.steps[row] for row in best], nodes), exact)


def _joined(steps: list[Step], nodes: int) -> tuple[Step, ...]:
    """The steps of a cycle, those through real time as one; the first leaves an operation."""
    joined: list[Step] = []
    for step in steps:
        if step.source < nodes:
            joined.append(step)
        else:
            joined[-1] = Step(joined[-1].source, step.target, RT, NULL, NULL, NULL)
    return tuple(joined)


class Component(NamedTuple):
    """Its edges, as places among all; how many operations it has."""

    rows: Ints
    size: int


def within_spans(edges: Edges, rank: Ints) -> Edges:
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


def real_time(edges: Edges, ops: Ops) -> Edges:
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


def components(edges: Edges, number: int) -> list[Component]:
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
    found = [Component(rows, int(sizes[label[source[rows[0]]]])) for rows in groups]
    return sorted(found, key=lambda each: (each.size, int(each.rows[0])))


def nodes_of(components: Sequence[Component], edges: Edges) -> Ints:
    """The nodes of components."""
    rows = [np.empty(0, np.int64), *(each.rows for each in components)]
    return np.unique(edges.source[np.concatenate(rows)])


def without(components: list[Component], edges: Edges, nodes: Ints) -> list[Component]:
    """The components that hold none of some nodes."""
    if not len(nodes):
        return components
    return [each for each in components if not np.isin(edges.source[each.rows], nodes).any()]
