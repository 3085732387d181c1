"""Which transactions depend on each other, and the cycles among them.

    ww        one wrote a version, and another the next one of the key
    wr        one wrote the version that another read
    rw        one read a version, and another wrote a later one
    process   one ended before another of the same process began
    realtime  one had completed before another began

    G0             a cycle of ww edges alone
    G1c            of ww and wr edges
    G-single       with one rw edge
    G-nonadjacent  with several, of which no two follow each other
    G2-item        with any

Each is searched among these edges alone; then with those of processes, then with those of real
time: `G0-process`, `G0-realtime`. A component counts for a kind where none of its transactions is
in a cycle that rules out as much with fewer kinds of edges. Transactions that have failed are in no
graph; of those whose outcome is unknown, what they read is not known, and each of their writes has
edges to what follows only where a read has shown it.

What snapshot isolation forbids, G-single and G-nonadjacent, is found as components of a graph in
which each transaction stands twice: the second one, to which rw edges lead, has no rw edge to
another (Cerone and Gotsman, "Analysing Snapshot Isolation", JACM 65 (2), 2018).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from checkers.elle.history import Facts, History, Versions, last_things, looked_up, values_of
from checkers.elle.models import ruled_out
from checkers.graphs.columns import ABSENT, Ops
from checkers.graphs.cycles import (
    ANY,
    PROCESS,
    RT,
    RW,
    WR,
    WW,
    Component,
    Edges,
    Pattern,
    Step,
    components,
    edges_of_kind,
    joined,
    real_time,
    smallest,
    through,
    within_spans,
)
from harness.models.micro_ops import APPEND, WRITE
from harness.protocols import NULL, Bools, Ints
from harness.protocols.runs import FAIL, OK

LATER_AT_MOST: Final = 64
"""Of the writes that are only known to come after all that was read, how many of a key get edges:
those that completed first, since the most edges of real time lead away from them."""


def edges_of(history: History, versions: Versions, facts: Facts) -> Edges:
    """The edges of all keys."""
    by_key = (
        _of_lists(history, versions) if history.lists else _of_registers(history, versions, facts)
    )
    return joined([_wr(history, versions, facts), *by_key])


def _wr(history: History, versions: Versions, facts: Facts) -> Edges:
    steps = history.steps
    reads = np.flatnonzero(facts.writer != ABSENT)
    last = last_things(history, versions)[reads]
    if not history.lists:  # what was overwritten in its transaction is G1b
        shown = facts.final[versions.step[last]] & facts.external[reads]
        reads, last = reads[shown], last[shown]
    value, nothing = versions.value[last], np.full(len(reads), NULL)
    return edges_of_kind(
        WR, facts.writer[reads], steps.op[reads], history.keys[steps.key[reads]], value, nothing
    )


def _writes(history: History) -> Ints:
    """The steps that write, but for those of transactions that have failed."""
    kind = history.steps.kind
    possible = history.ops.mark[history.steps.op] != FAIL
    return np.flatnonzero(((kind == APPEND) | (kind == WRITE)) & possible)


def _of_lists(history: History, versions: Versions) -> Iterator[Edges]:
    steps, number = history.steps, len(history.keys)
    writes = _writes(history)
    good = np.zeros(number, np.bool_)  # keys whose order is known
    reads = np.flatnonzero(versions.agrees)
    good[steps.key[reads]] = True
    of = np.repeat(np.arange(number), np.diff(versions.start))
    written = np.zeros(len(versions.step), np.bool_)
    written[versions.things[writes]] = True
    slots = np.flatnonzero(written[versions.slots] & good[of])
    key, thing = of[slots], versions.slots[slots]
    writer = steps.op[versions.step[thing]]
    value = versions.value[thing]
    same = np.flatnonzero(key[1:] == key[:-1])
    yield edges_of_kind(
        WW, writer[same], writer[same + 1], history.keys[key[same]], value[same], value[same + 1]
    )
    shown = np.zeros(len(history.ops.mark), np.bool_)
    shown[writer] = True
    shown |= history.ops.mark == OK
    later = writes[versions.place[versions.things[writes]] == ABSENT]
    later = later[shown[steps.op[later]] & good[steps.key[later]]]
    ends = np.append(key[1:] != key[:-1], True)[: len(key)]
    yield _all_pairs(WW, history, (key[ends], writer[ends], value[ends]), later, steps.value[later])
    last = last_things(history, versions)
    reads = reads[looked_up(steps.op, looked_up(versions.step, last[reads])) != steps.op[reads]]
    last = values_of(versions, last[reads])
    due = versions.start[steps.key[reads]] + steps.size[reads]
    after = np.searchsorted(slots, due)
    there = after < len(slots)
    there[there] = key[after[there]] == steps.key[reads[there]]
    now, then = reads[there], after[there]
    yield edges_of_kind(
        RW, steps.op[now], writer[then], history.keys[steps.key[now]], last[there], value[then]
    )
    rest = reads[~there]
    yield _all_pairs(
        RW, history, (steps.key[rest], steps.op[rest], last[~there]), later, steps.value[later]
    )


def _of_registers(history: History, versions: Versions, facts: Facts) -> Iterator[Edges]:
    steps, ops = history.steps, history.ops
    reads = np.flatnonzero(facts.external)
    nothing = reads[steps.size[reads] == 0]
    shown = np.zeros(len(ops.mark), np.bool_)
    shown[facts.writer[facts.writer != ABSENT]] = True
    shown |= ops.mark == OK
    writes = _writes(history)
    writes = writes[facts.final[writes] & shown[steps.op[writes]]]
    first = (steps.key[nothing], steps.op[nothing], np.full(len(nothing), NULL))
    yield _all_pairs(RW, history, first, writes, steps.value[writes])
    # A transaction that reads a value and writes one: all that read the same come before it.
    last_write = np.full(len(steps.op), ABSENT)
    last_write[history.group[writes]] = writes
    reads = reads[steps.size[reads] > 0]
    things = versions.things[reads]
    over = reads[(last_write[reads] != ABSENT) & (ops.mark[steps.op[reads]] == OK)]
    source = looked_up(steps.op, versions.step[versions.things[over]])
    known = (source != ABSENT) & (facts.writer[over] != ABSENT)
    now = over[known]
    yield edges_of_kind(
        WW,
        source[known],
        steps.op[now],
        history.keys[steps.key[now]],
        steps.value[now],
        steps.value[last_write[now]],
    )
    place = np.argsort(versions.things[over], kind="stable")
    by_thing = versions.things[over][place]
    low, high = np.searchsorted(by_thing, things), np.searchsorted(by_thing, things, "right")
    times = np.minimum(high - low, LATER_AT_MOST)
    who = np.repeat(np.arange(len(reads)), times)
    ends = np.cumsum(times)
    nth = np.arange(len(who)) - np.repeat(ends - times, times)
    target = over[place[low[who] + nth]]
    now = reads[who]
    yield edges_of_kind(
        RW,
        steps.op[now],
        steps.op[target],
        history.keys[steps.key[now]],
        steps.value[now],
        steps.value[last_write[target]],
    )


def _all_pairs(
    kind: int, history: History, first: tuple[Ints, Ints, Ints], later: Ints, values: Ints
) -> Edges:
    """Edges from each of these operations (with its key and a value) to all these writes of its
    key."""
    steps = history.steps
    key, op, value = first
    ended = history.ops.ended[steps.op[later]]
    never = np.where(ended == ABSENT, len(ended) + np.max(ended, initial=0), ended)
    order = np.lexsort((never, steps.key[later]))
    later, values = later[order], values[order]
    low = np.searchsorted(steps.key[later], key)
    times = np.searchsorted(steps.key[later], key, "right") - low
    times = np.minimum(times, LATER_AT_MOST)
    who = np.repeat(np.arange(len(key)), times)
    nth = np.arange(len(who)) - np.repeat(np.cumsum(times) - times, times)
    target = low[who] + nth
    return edges_of_kind(
        kind, op[who], steps.op[later[target]], history.keys[key[who]], value[who], values[target]
    )


# Cycles.

_NO: Final = (-1, -1, -1, 1, -1)
SINGLE: Final = Pattern((_NO, (1, 1, 1, -1, 1)), 1)
"""Cycles that begin with their one rw edge. By kinds: ww, wr, realtime, rw, process."""
NONADJACENT: Final = Pattern((_NO, (2, 2, 2, -1, 2), (2, 2, 2, 1, 2)), 2)
"""Cycles that begin with an rw edge, and in which none follows another."""

LEVELS: Final = (("", ()), ("-process", (PROCESS,)), ("-realtime", (PROCESS, RT)))
SHOWN: Final = 3
"""Of how many components of a kind a cycle is shown, the smallest components first."""
_SEARCHED: Final = 50
"""In how many components an rw edge that is the only one is looked for; the others count as
G-nonadjacent, which every G-single is."""


class Cycle(NamedTuple):
    """The smallest cycle of a component (`exact`: certainly); `size`: how many operations it has;
    `steps`: from each operation to the next, and back."""

    kind: str
    size: int
    exact: bool
    steps: tuple[Step, ...]


class Cycles(NamedTuple):
    """How many components there are by kind, and the cycles that are shown."""

    numbers: dict[str, int]
    shown: tuple[Cycle, ...]


def cycles_of(edges: Edges, ops: Ops) -> Cycles:
    """All cycles of a history."""
    number = len(ops.mark)
    rank = np.empty(number, np.int64)
    rank[np.argsort(ops.begun, kind="stable")] = np.arange(number)
    edges = within_spans(edges, rank)
    if not len(edges.kind):
        return Cycles({}, ())
    edges = joined([edges, _processes(edges, ops, rank), real_time(edges, ops)])
    inside = [each.rows for each in components(edges, number)]
    edges = edges.take(np.sort(np.concatenate([np.empty(0, np.int64), *inside])))
    return _Search(edges, rank).cycles()


def _processes(edges: Edges, ops: Ops, rank: Ints) -> Edges:
    """From each operation that edges join to the next one of its process, if it was ok."""
    some = np.unique(np.concatenate([edges.source, edges.target]))
    some = some[np.lexsort((rank[some], ops.process[some]))]
    before, after = some[:-1], some[1:]
    same = (ops.process[before] == ops.process[after]) & (ops.mark[before] == OK)
    source, target = before[same], after[same]
    nothing = np.full(len(source), NULL)
    return edges_of_kind(PROCESS, source, target, nothing, nothing, nothing)


class _Search:
    """The search for each kind, the one that rules out most first; `_met`: the transactions in
    cycles of each kind so far."""

    def __init__(self, edges: Edges, rank: Ints) -> None:
        self._edges, self._rank = edges, rank
        self._met: dict[str, Bools] = {}
        self._numbers: dict[str, int] = {}
        self._shown: list[Cycle] = []

    def cycles(self) -> Cycles:
        for level, extra in LEVELS:
            before = dict(self._met)
            for name, kinds, needed in (
                ("G0", (WW, *extra), WW),
                ("G1c", (WW, WR, *extra), WR),
            ):
                found = self._new(name + level, before, self._components(kinds, needed))
                self._note(name + level, found)
                self._show(name + level, found, ANY if name == "G0" else through(WR))
            self._isolation(level, before, extra)
            stronger = {
                **before,
                **{k: self._met[k] for k in (f"G-single{level}", f"G-nonadjacent{level}")},
            }
            found = self._new(
                f"G2-item{level}", stronger, self._components((WW, WR, RW, *extra), RW)
            )
            self._note(f"G2-item{level}", found)
            self._show(f"G2-item{level}", found, ANY, start=RW)
        return Cycles({kind: n for kind, n in self._numbers.items() if n}, tuple(self._shown))

    def _components(self, kinds: Sequence[int], needed: int) -> list[Component]:
        rows = np.flatnonzero(np.isin(self._edges.kind, kinds))
        edges = self._edges.take(rows)
        found = components(edges, len(self._rank))
        found = [each for each in found if (edges.kind[each.rows] == needed).any()]
        return [each._replace(rows=rows[each.rows]) for each in found]

    def _isolation(self, level: str, before: dict[str, Bools], extra: Sequence[int]) -> None:
        """G-single and G-nonadjacent."""
        kind, nodes = self._edges.kind, len(self._rank)
        size = (
            max(
                nodes,
                int(max(self._edges.source.max(initial=0), self._edges.target.max(initial=0))),
            )
            + 1
        )
        plain = np.flatnonzero(np.isin(kind, (WW, WR, *extra)))
        anti = np.flatnonzero(kind == RW)
        rows = np.concatenate([plain, plain, anti])
        twice = self._edges.take(rows)
        behind = np.repeat((0, 1, 0), (len(plain), len(plain), len(anti))) * size
        to = np.repeat((0, 0, 1), (len(plain), len(plain), len(anti))) * size
        twice = twice._replace(source=twice.source + behind, target=twice.target + to)
        found = [
            Component(np.unique(rows[each.rows]), 0)
            for each in components(twice, nodes)
            if (twice.kind[each.rows] == RW).any()
        ]
        found = [each._replace(size=len(self._nodes(each))) for each in found]
        found = self._new(f"G-nonadjacent{level}", before, found)
        single, other = list[Component](), list[Component]()
        for place, each in enumerate(found):
            edges = self._edges.take(each.rows)
            starts = edges.kind == RW
            cycle = (
                smallest(edges, self._rank, SINGLE, patient=False, starts=starts)
                if place < _SEARCHED
                else None
            )
            if cycle is not None and len(single) < SHOWN:
                self._shown.append(Cycle(f"G-single{level}", each.size, cycle.exact, cycle.steps))
            (other if cycle is None else single).append(each)
        self._note(f"G-single{level}", single)
        self._note(f"G-nonadjacent{level}", other)
        self._show(f"G-nonadjacent{level}", other, NONADJACENT, start=RW)

    def _nodes(self, component: Component) -> Ints:
        """The transactions of a component."""
        edges = self._edges
        nodes = np.unique(
            np.concatenate([edges.source[component.rows], edges.target[component.rows]])
        )
        return nodes[nodes < len(self._rank)]

    def _new(self, kind: str, before: dict[str, Bools], found: list[Component]) -> list[Component]:
        """The components without transactions that are in a cycle which rules out as much."""
        out = ruled_out([kind])
        met = np.zeros(len(self._rank), np.bool_)
        for other, nodes in before.items():
            if ruled_out([other]) >= out:
                met |= nodes
        return [each for each in found if not met[self._nodes(each)].any()]

    def _note(self, kind: str, found: list[Component]) -> None:
        met = np.zeros(len(self._rank), np.bool_)
        for each in found:
            met[self._nodes(each)] = True
        self._met[kind], self._numbers[kind] = met, len(found)

    def _show(
        self, kind: str, found: list[Component], pattern: Pattern, *, start: int | None = None
    ) -> None:
        for each in found[:SHOWN]:
            edges = self._edges.take(each.rows)
            starts = None if start is None else edges.kind == start
            cycle = smallest(edges, self._rank, pattern, patient=True, starts=starts)
            if cycle is not None:
                self._shown.append(Cycle(kind, each.size, cycle.exact, cycle.steps))
