"""Graphs of transactions that depend on each other, for all checkers that look for cycles:
operations as numpy columns, components, and the smallest cycle of each.

Operations stand in the order in which they completed, those that never did at the end; `place` is
that of their completion (or invocation) in the history. What a row did is in the column `elements`,
four integers a micro-operation (`harness.models.micro_ops`). Integers are numbered and grouped by a
table where they lie close together, else by sorting.

Strongly connected components find whether there are any cycles (Kingsbury and Alvaro, "Elle", VLDB
14 (3), 2020). The graph is cut down first to what can be in a cycle: operations stand in the order
in which they began, and a cycle must come back by edges that lead backwards in it. Each span
between the ends of such an edge may hold cycles; edges that leave the spans that overlap cannot.
Real time leads forwards alone. It is drawn as a chain of completions: an operation leads to its
own, and the last one before an operation began leads to that.

The smallest cycle of a component is found by breadth-first search. Every cycle has an edge that
leads backwards in the order in which operations began, so the search starts at each of those and
looks for the shortest way back to its source. Nodes of the chain that stands for real time count
nothing. Where a cycle needs edges of some kinds, in some order, a node is visited once in each
state of an automaton that reads the kinds of edges.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from harness.errors import HistoryError
from harness.models.micro_ops import TEXT, WIDTH
from harness.protocols import NULL, Bools, Ints, Operations
from harness.protocols.runs import INFO, INVOKED, OK, Bits

_SPREAD: Final = 16
"""A table is made where it has at most so many places an integer."""
_ROOM: Final = 1 << 16


class Codes(NamedTuple):
    """`codes`: of each row, the place of its value among the distinct ones, in order; `number`: how
    many those are."""

    codes: Ints
    number: int

    def firsts(self, values: Ints) -> Ints:
        """The distinct values, in order."""
        found = np.zeros(self.number, np.int64)
        found[self.codes] = values
        return found


def codes_of(values: Ints, major: Ints | None = None) -> Codes:
    """The codes of values, ordered by `major` (small codes) first where it is given."""
    if not len(values):
        return Codes(np.zeros(0, np.int64), 0)
    low, high = int(values.min()), int(values.max())
    width, majors = high - low + 1, 1 if major is None else int(major.max()) + 1
    if width * majors >= 2**62:
        distinct, inner = np.unique(values, return_inverse=True)
        if major is None:
            return Codes(inner, len(distinct))
        one, width = inner + major * len(distinct), len(distinct)
    else:
        one = values - low if major is None else (values - low) + major * width
    if width * majors <= _SPREAD * len(values) + _ROOM:
        there = np.zeros(width * majors, np.bool_)
        there[one] = True
        place = np.cumsum(there, dtype=np.int32)
        return Codes(place[one].astype(np.int64) - 1, int(place[-1]))
    distinct, codes = np.unique(one, return_inverse=True)
    return Codes(codes, len(distinct))


def places(rows: Ints | Bools) -> Ints | None:
    """The places of the chosen rows; `None`: all are chosen."""
    if rows.dtype == np.bool_:
        return None if rows.all() else np.flatnonzero(rows)
    return rows.astype(np.int64, copy=False)


def taken(columns: Iterable[Ints], rows: Ints) -> Iterator[Ints]:
    """These rows of columns."""
    return (np.take(column, rows) for column in columns)


def ordered(codes: Ints, number: int) -> Ints:
    """The rows in the order of their codes, stable; codes that fit in 16 bits take one pass."""
    if len(codes) < 2 or bool((codes[1:] >= codes[:-1]).all()):
        return np.arange(len(codes))
    return np.argsort(codes.astype(np.uint16) if number <= _ROOM else codes, kind="stable")


def begins(codes: Ints) -> Bools:
    """Where a group of equal codes begins, in rows that are grouped."""
    first = np.ones(len(codes), np.bool_)
    first[1:] = codes[1:] != codes[:-1]
    return first


def starts(first: Bools) -> Ints:
    """Of each row, the row at which its group begins."""
    rows = np.where(first, np.arange(len(first)), 0)
    return np.maximum.accumulate(rows)


def any_of(places: Ints, size: int) -> Bools:
    """Whether each of `size` is among these places."""
    found = np.zeros(size, np.bool_)
    found[places] = True
    return found


ABSENT: Final = -1
"""The place of an invocation or completion that the history does not hold."""

ASSIGN, SUBSCRIBE, POLLING, OTHER = range(4)
_FUNCTIONS: Final = {"assign": ASSIGN, "subscribe": SUBSCRIBE, "poll": POLLING, "txn": POLLING}


class Ops(NamedTuple):
    """One row an operation. `mark` is OK, FAIL or INFO (also of one that never completed);
    `begun` and `ended` are places in the order of all rows, ABSENT if there is no such row;
    `f` is ASSIGN, SUBSCRIBE, POLLING (`poll` and `txn`) or OTHER."""

    place: Ints
    process: Ints
    mark: Bits
    f: Ints
    begun: Ints
    ended: Ints
    begun_ns: Ints
    ended_ns: Ints


def named(number: int, texts: Sequence[str]) -> str:
    """A key or value as people write it."""
    return texts[number - TEXT] if number >= TEXT else str(number)


class Rows(NamedTuple):
    """The columns of all rows; what a row did is in `micro` from `start` to `stop`."""

    place: Ints
    process: Ints
    mark: Bits
    f: Ints
    time_ns: Ints
    start: Ints
    stop: Ints
    elements: Ints

    @classmethod
    def of(cls, parts: list[Operations]) -> Rows:
        starts, stops, begin = [], [], 0
        for part in parts:
            starts.append(part.elements.starts[:-1] + begin)
            stops.append(part.elements.starts[1:] + begin)
            begin += len(part.elements.values)
        f = [
            np.array([*(_FUNCTIONS.get(n, OTHER) for n in p.f.names), OTHER])[p.f.codes]
            for p in parts
        ]
        return cls(
            place=_all([part.place for part in parts]),
            process=_all([part.process for part in parts]),
            mark=np.concatenate([np.empty(0, np.uint8), *(part.mark for part in parts)]),
            f=_all(f),
            time_ns=_all([part.time_ns for part in parts]),
            start=_all(starts),
            stop=_all(stops),
            elements=_all([part.elements.values for part in parts]),
        )


def _all(columns: list[Ints]) -> Ints:
    return columns[0] if len(columns) == 1 else np.concatenate([np.empty(0, np.int64), *columns])


def paired(rows: Rows) -> tuple[Ints, Ints]:
    """The rows of invocation and completion of each operation, ABSENT if there is none. A
    process does one thing at a time, so a completion belongs to the row before it of its process,
    where that is an invocation."""
    order = ordered(*codes_of(rows.process))
    begins = (rows.mark == INVOKED)[order]
    process = rows.process[order]
    answered = np.zeros(len(order), np.bool_)
    answered[:-1] = begins[:-1] & ~begins[1:] & (process[:-1] == process[1:])
    began = np.full(len(order), ABSENT)
    begun_at = np.flatnonzero(answered[:-1])
    began[np.take(order, begun_at + 1)] = np.take(order, begun_at)
    completions = np.flatnonzero(rows.mark != INVOKED)
    open_ = np.sort(order[begins & ~answered])
    return (
        np.concatenate([began[completions], open_]),
        np.concatenate([completions, np.full(len(open_), ABSENT)]),
    )


def ops_of(rows: Rows, began: Ints, ended: Ints) -> Ops:
    """The operations, from the rows of their invocations and completions."""
    known = np.where(ended == ABSENT, began, ended)
    completed, invoked = ended != ABSENT, began != ABSENT
    return Ops(
        place=rows.place[known],
        process=rows.process[known],
        mark=np.where(completed, rows.mark[known], INFO).astype(np.uint8),
        f=rows.f[known],
        begun=began,
        ended=ended,
        begun_ns=np.where(invoked, rows.time_ns[began], NULL),
        ended_ns=np.where(completed, rows.time_ns[ended], NULL),
    )


def elements_in(rows: Rows, source: Ints, file: str) -> tuple[Ints, Ints]:
    """What these rows hold, one row an operation: the operation and the four integers of each
    micro-operation."""
    there = source != ABSENT
    start = np.where(there, rows.start[source], 0)
    length = np.where(there, rows.stop[source], 0) - start
    if (length % WIDTH).any():
        raise HistoryError(
            f"an operation's elements are not {WIDTH} integers a micro-operation",
            file=file,
            key="elements",
        )
    numbers = length // WIDTH
    op = np.repeat(np.arange(len(numbers)), numbers)
    first = np.cumsum(numbers) - numbers
    at = start[op] // WIDTH + np.arange(len(op)) - first[op]
    return op, rows.elements.reshape(-1, WIDTH)[at]


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


class Cycle(NamedTuple):
    """The smallest cycle of a component (`exact`: certainly); `size`: how many operations it has;
    `steps`: from each operation to the next, and back."""

    kind: str
    size: int
    exact: bool
    steps: tuple[Step, ...]


def ranks(ops: Ops) -> Ints:
    """Of each operation, its place in the order in which they began."""
    rank = np.empty(len(ops.begun), np.int64)
    rank[np.argsort(ops.begun, kind="stable")] = np.arange(len(rank))
    return rank


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
