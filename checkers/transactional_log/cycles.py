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

What operations depend on each other by: the edges of Jepsen's graph of a log's transactions.

    ww   one sent the value that stands directly before a value of the other in their log
    wr   one sent a value that the other polled

No edge says that a poll came before a send (rw): polls may always lag behind.

The smallest cycle of a strongly connected component, by breadth-first search.

Every cycle has an edge that leads backwards in the order in which operations began, so the search
starts at each of those and looks for the shortest way back to its source. Nodes of the chain that
stands for real time count nothing. Where a cycle needs an edge of one kind, a node is visited once
before such an edge and once after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from checkers.transactional_log.columns import ABSENT, History, Ops, codes_of, named, places, taken
from checkers.transactional_log.values import NOWHERE, Values, Versions
from harness.models.micro_ops import POLL
from harness.protocols import NULL, Bools, Ints
from harness.protocols.runs import OK

WW, WR, RT = range(3)
"""Kinds of edges; RT: one had completed before the other began."""

NAMES: Final = ("ww", "wr", "rt")


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


def edges_of(history: History, values: Values, versions: Versions) -> Edges:
    """The edges of all keys of a history."""
    return joined([_follows(history, values, versions), polled(history, values)])


def joined(parts: Sequence[Edges]) -> Edges:
    return Edges._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _follows(history: History, values: Values, versions: Versions) -> Edges:
    there = np.flatnonzero((versions.slot != NOWHERE) & (values.writer != ABSENT))
    slot, key = versions.slot[there], history.key_of[there]
    later = versions.place(slot, key) > 0
    there, slot = there[later], slot[later]
    before = versions.holds[slot - 1]
    known = values.writer[before] != ABSENT
    there, before = there[known], before[known]
    return _edges(
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
    return _edges(
        WR, np.compress(known, writer), polls.op, history.keys[polls.key], polls.value, nothing
    )


def _edges(kind: int, source: Ints, target: Ints, key: Ints, value: Ints, then: Ints) -> Edges:
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


_State = tuple[int, bool]
"""A node, and whether an edge of the kind that is needed leads to it."""


class _Search:
    """The edges of a component, and how many were followed so far."""

    def __init__(self, edges: Edges, nodes: int, through: int | None) -> None:
        self.steps = [
            Step(*row) for row in zip(*(column.tolist() for column in edges), strict=True)
        ]
        self.followed = 0
        self._nodes, self._through = nodes, through
        self._leaving: dict[int, list[int]] = {}
        for row, step in enumerate(self.steps):
            self._leaving.setdefault(step.source, []).append(row)

    def back(self, start: int, at_most: int) -> list[int] | None:
        """The shortest cycle with an edge, as edges, where it has no more than so many."""
        first = self.steps[start]
        begin, goal = (first.target, self._needed(start)), (first.source, True)
        came: dict[_State, tuple[int, _State]] = {}
        far = {begin: 1}
        queue = deque([begin])
        while queue:
            state = queue.popleft()
            if state == goal:
                return self._cycle(start, came, begin, goal)
            for row in self._leaving.get(state[0], ()):
                self.followed += 1
                target = self.steps[row].target
                cost = target < self._nodes
                then = (target, state[1] or self._needed(row))
                length = far[state] + cost
                if length <= at_most and length < far.get(then, at_most + 1):
                    far[then], came[then] = length, (row, state)
                    if cost:
                        queue.append(then)
                    else:
                        queue.appendleft(then)
        return None

    def _needed(self, row: int) -> bool:
        return self._through is None or self.steps[row].kind == self._through

    def _cycle(
        self, start: int, came: dict[_State, tuple[int, _State]], begin: _State, goal: _State
    ) -> list[int]:
        rows, state = [], goal
        while state != begin:
            row, state = came[state]
            rows.append(row)
        return [start, *reversed(rows)]


def shortest(edges: Edges, rank: Ints, *, through: int | None) -> Shortest:
    """The smallest cycle of a component that has an edge of the kind `through`. `rank`: of each
    operation; nodes beyond those stand for real time."""
    for part in _parts(edges, rank):
        whole = len(part.kind) == len(edges.kind)
        found = _smallest(part, rank, through, patient=whole)
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


def _smallest(edges: Edges, rank: Ints, through: int | None, *, patient: bool) -> Shortest | None:
    """The smallest cycle that is found; without patience none, where the search takes too long."""
    nodes = len(rank)
    real = np.flatnonzero((edges.source < nodes) & (edges.target < nodes))
    back = real[rank[edges.target[real]] < rank[edges.source[real]]]
    search = _Search(edges, nodes, through)
    best: list[int] | None = None
    length = len(search.steps)
    exact = True
    for start in back.tolist():
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
