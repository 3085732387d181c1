"""The smallest cycle of a strongly connected component, by breadth-first search.

Every cycle has an edge that leads backwards in the order in which operations began, so the search
starts at each of those and looks for the shortest way back to its source. Nodes of the chain that
stands for real time count nothing. Where a cycle needs an edge of one kind, a node is visited once
before such an edge and once after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from checkers.transactional_log.edges import RT, Edges
from harness.protocols import NULL, Ints

EDGES_AT_MOST: Final = 200_000
"""How many edges are followed for one component before the search takes the smallest cycle that it
has found."""


class Step(NamedTuple):
    """An edge of a cycle."""

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
