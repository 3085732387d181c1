"""Which transactions depend on each other, the cycles among them, and which consistency models
these and other anomalies rule out.

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

Models: Adya, "Weak Consistency", PhD thesis, MIT 1999; Cerone, Bernardi and Gotsman, "A Framework
for Transactional Consistency Models with Atomic Visibility", CONCUR 2015; Bailis et al., "Highly
Available Transactions", VLDB 7 (3), 2013. The lattice is the part of Elle's that these anomalies
reach; models without a phenomenon of their own are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, get_args

import numpy as np

from checkers.elle.history import Facts, History, Versions, looked_up, marks, values_of
from checkers.graphs import (
    ABSENT,
    ANY,
    PROCESS,
    RT,
    RW,
    WR,
    WW,
    Component,
    Cycle,
    Edges,
    Ops,
    Pattern,
    any_of,
    components,
    edges_of_kind,
    joined,
    ranks,
    real_time,
    smallest,
    through,
    within_spans,
)
from harness.models.micro_ops import APPEND, WRITE
from harness.protocols import NULL, Bools, Ints
from harness.protocols.runs import INFO, OK

LATER_AT_MOST: Final = 64
"""Of the writes that are only known to come after all that was read, how many of a key get edges:
those that completed first, since the most edges of real time lead away from them."""


def edges_of(history: History, versions: Versions, facts: Facts) -> Edges:
    """The edges of all keys."""
    make = _of_lists if history.lists else _of_registers
    return joined([_wr(history, versions, facts), *make(history, versions, facts)])


def _wr(history: History, versions: Versions, facts: Facts) -> Edges:
    steps = history.steps
    reads = np.flatnonzero(facts.writer != ABSENT)
    last = facts.last[reads]
    if not history.lists:  # what was overwritten in its transaction is G1b
        shown = facts.final[versions.step[last]] & facts.external[reads]
        reads, last = reads[shown], last[shown]
    value, nothing = versions.value[last], np.full(len(reads), NULL)
    return edges_of_kind(
        WR, facts.writer[reads], steps.op[reads], history.keys[steps.key[reads]], value, nothing
    )


def _writes(history: History, versions: Versions, facts: Facts) -> Ints:
    """The steps that write, of transactions that are known to have committed."""
    steps = history.steps
    committed = history.ops.mark == OK
    committed[facts.writer[facts.writer != ABSENT]] = True
    read = np.flatnonzero(
        marks(history, looked_up(steps.op, versions.step[versions.slots])) == INFO
    )
    committed[steps.op[versions.step[versions.slots[read]]]] = True
    return np.flatnonzero(((steps.kind == APPEND) | (steps.kind == WRITE)) & committed[steps.op])


def _of_lists(history: History, versions: Versions, facts: Facts) -> Iterator[Edges]:
    steps, number = history.steps, len(history.keys)
    writes = _writes(history, versions, facts)
    reads = np.flatnonzero(versions.agrees)
    good = any_of(steps.key[reads], number)  # keys whose order is known
    of = np.repeat(np.arange(number), np.diff(versions.start))
    written = any_of(versions.things[writes], len(versions.step))
    slots = np.flatnonzero(written[versions.slots] & good[of])
    key, step = of[slots], versions.step[versions.slots[slots]]
    same = key[1:] == key[:-1]
    yield _edges(WW, history, step[:-1][same], step[1:][same])
    later = writes[versions.place[versions.things[writes]] == ABSENT]
    later = later[good[steps.key[later]]]
    ends = step[np.append(key[1:] != key[:-1], True)[: len(key)]]
    yield _all_pairs(WW, history, ends, steps.key[ends], later, steps.key[later])
    source = looked_up(versions.step, facts.last[reads])
    reads = reads[looked_up(steps.op, source) != steps.op[reads]]
    after = np.searchsorted(slots, versions.start[steps.key[reads]] + steps.size[reads])
    there = after < len(slots)
    there[there] = key[after[there]] == steps.key[reads[there]]
    last = np.full(len(steps.op), NULL)
    last[reads] = values_of(versions, facts.last[reads])
    yield _edges(RW, history, reads[there], step[after[there]], last)
    rest = reads[~there]
    yield _all_pairs(RW, history, rest, steps.key[rest], later, steps.key[later], last)


def _of_registers(history: History, versions: Versions, facts: Facts) -> Iterator[Edges]:
    steps = history.steps
    reads = np.flatnonzero(facts.external)
    nothing, reads = reads[steps.size[reads] == 0], reads[steps.size[reads] > 0]
    writes = _writes(history, versions, facts)
    writes = writes[facts.final[writes]]
    yield _all_pairs(RW, history, nothing, steps.key[nothing], writes, steps.key[writes])
    # A transaction that reads a value and writes one: all that read the same come before it.
    own = np.full(len(steps.op), ABSENT)
    own[history.group[writes]] = writes
    over = reads[own[reads] != ABSENT]
    known = over[facts.writer[over] != ABSENT]
    yield _edges(WW, history, versions.step[versions.things[known]], own[known])
    things, replaced = versions.things[reads], versions.things[over]
    yield _all_pairs(RW, history, reads, things, own[over], replaced)


def _edges(
    kind: int, history: History, first: Ints, later: Ints, values: Ints | None = None
) -> Edges:
    """From the transactions of some steps to those of others, with the values of both."""
    steps = history.steps
    value = (steps.value if values is None else values)[first]
    key = history.keys[steps.key[first]]
    return edges_of_kind(kind, steps.op[first], steps.op[later], key, value, steps.value[later])


def _all_pairs(
    kind: int,
    history: History,
    first: Ints,
    of: Ints,
    later: Ints,
    later_of: Ints,
    values: Ints | None = None,
) -> Edges:
    """Edges from each of these steps to all later writes of the same key or version (`of`)."""
    ended = history.ops.ended[history.steps.op[later]]
    order = np.lexsort((np.where(ended == ABSENT, np.max(ended, initial=0) + 1, ended), later_of))
    later, later_of = later[order], later_of[order]
    low = np.searchsorted(later_of, of)
    times = np.minimum(np.searchsorted(later_of, of, "right") - low, LATER_AT_MOST)
    who = np.repeat(np.arange(len(of)), times)
    nth = np.arange(len(who)) - np.repeat(np.cumsum(times) - times, times)
    return _edges(kind, history, first[who], later[low[who] + nth], values)


# Cycles.

_NO: Final = (-1, -1, -1, 1, -1)
SINGLE: Final = Pattern((_NO, (1, 1, 1, -1, 1)), 1)
"""Cycles that begin with their one rw edge. By kinds: ww, wr, realtime, rw, process."""
NONADJACENT: Final = Pattern((_NO, (2, 2, 2, -1, 2), (2, 2, 2, 1, 2)), 2)
"""Cycles that begin with an rw edge, and in which none follows another."""

LEVELS: Final = (("", ()), ("-process", (PROCESS,)), ("-realtime", (PROCESS, RT)))
SHOWN: Final = 3
"""Of how many components of a kind a cycle is shown, the smallest components first."""
_SEARCHED: Final = 2000
"""In how many components an rw edge that is the only one is looked for; the others count as
G-nonadjacent, which every G-single is."""


class Cycles(NamedTuple):
    """How many components there are by kind, and the cycles that are shown."""

    numbers: dict[str, int]
    shown: tuple[Cycle, ...]


def cycles_of(edges: Edges, ops: Ops) -> Cycles:
    """All cycles of a history."""
    rank = ranks(ops)
    edges = within_spans(edges, rank)
    if not len(edges.kind):
        return Cycles({}, ())
    edges = joined([edges, _processes(edges, ops, rank), real_time(edges, ops)])
    inside = [each.rows for each in components(edges, len(rank))]
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
            self._take(f"G0{level}", before, (WW, *extra), WW, ANY)
            self._take(f"G1c{level}", before, (WW, WR, *extra), WR, through(WR))
            self._isolation(level, before, extra)
            stronger = {
                **before,
                **{k: self._met[k] for k in (f"G-single{level}", f"G-nonadjacent{level}")},
            }
            self._take(f"G2-item{level}", stronger, (WW, WR, RW, *extra), RW, ANY, start=RW)
        return Cycles({kind: n for kind, n in self._numbers.items() if n}, tuple(self._shown))

    def _take(
        self,
        name: str,
        before: dict[str, Bools],
        kinds: Sequence[int],
        needed: int,
        pattern: Pattern,
        *,
        start: int | None = None,
    ) -> None:
        """The components of these kinds of edges that have one which is needed."""
        rows = np.flatnonzero(np.isin(self._edges.kind, kinds))
        edges = self._edges.take(rows)
        found = components(edges, len(self._rank))
        found = [each for each in found if (edges.kind[each.rows] == needed).any()]
        found = [each._replace(rows=rows[each.rows]) for each in found]
        found = self._new(name, before, found)
        self._note(name, found)
        self._show(name, found, pattern, start=start)

    def _isolation(self, level: str, before: dict[str, Bools], extra: Sequence[int]) -> None:
        """G-single and G-nonadjacent."""
        kind, nodes = self._edges.kind, len(self._rank)
        size = int(
            max(nodes, *(c.max(initial=0) for c in (self._edges.source, self._edges.target)))
        )
        size += 1
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


Model = Literal[
    "strict-serializable",
    "strong-session-serializable",
    "serializable",
    "strong-snapshot-isolation",
    "strong-session-snapshot-isolation",
    "snapshot-isolation",
    "parallel-snapshot-isolation",
    "repeatable-read",
    "consistent-view",
    "cursor-stability",
    "read-atomic",
    "strong-read-committed",
    "strong-session-read-committed",
    "read-committed",
    "strong-read-uncommitted",
    "strong-session-read-uncommitted",
    "read-uncommitted",
]
"""The strongest first."""

MODELS: Final[tuple[str, ...]] = get_args(Model)

_IMPLIES: Final = {
    "strict-serializable": ("strong-session-serializable", "strong-snapshot-isolation"),
    "strong-session-serializable": ("serializable", "strong-session-snapshot-isolation"),
    "serializable": ("repeatable-read", "snapshot-isolation"),
    "strong-snapshot-isolation": (*("strong-session-snapshot-isolation", "strong-read-committed"),),
    "strong-session-snapshot-isolation": (
        *("snapshot-isolation", "strong-session-read-committed"),
    ),
    "snapshot-isolation": ("parallel-snapshot-isolation", "consistent-view"),
    "parallel-snapshot-isolation": ("read-atomic",),
    "repeatable-read": ("cursor-stability",),
    "consistent-view": ("cursor-stability",),
    "cursor-stability": ("read-committed",),
    "read-atomic": ("read-committed",),
    "strong-read-committed": ("strong-session-read-committed", "strong-read-uncommitted"),
    "strong-session-read-committed": ("read-committed", "strong-session-read-uncommitted"),
    "read-committed": ("read-uncommitted",),
    "strong-read-uncommitted": ("strong-session-read-uncommitted",),
    "strong-session-read-uncommitted": ("read-uncommitted",),
}
"""What a model promises, its weaker ones promise too."""

_FORBIDDEN_BY: Final = {
    "duplicate-elements": ("read-uncommitted",),
    "G0": ("read-uncommitted",),
    **dict.fromkeys(
        ("unexpected", "incompatible-order", "dirty-update", "future-read", "G1a", "G1b", "G1c"),
        ("read-committed",),
    ),
    "internal": ("read-atomic",),
    "lost-update": ("cursor-stability", "parallel-snapshot-isolation"),
    "G-single": ("consistent-view", "repeatable-read"),
    "G-nonadjacent": ("snapshot-isolation", "repeatable-read"),
    "G2-item": ("repeatable-read",),
    "G0-process": ("strong-session-read-uncommitted",),
    "G1c-process": ("strong-session-read-committed",),
    "G-single-process": ("strong-session-snapshot-isolation",),
    "G-nonadjacent-process": ("strong-session-snapshot-isolation",),
    "G2-item-process": ("strong-session-serializable",),
    "G0-realtime": ("strong-read-uncommitted",),
    "G1c-realtime": ("strong-read-committed",),
    "G-single-realtime": ("strong-snapshot-isolation",),
    "G-nonadjacent-realtime": ("strong-snapshot-isolation",),
    "G2-item-realtime": ("strict-serializable",),
}
"""The weakest models that forbid each anomaly."""


def _promised(model: str) -> set[str]:
    """A model and all that are weaker."""
    return {model}.union(*map(_promised, _IMPLIES.get(model, ())))


_PROMISED: Final = {model: _promised(model) for model in MODELS}


def ruled_out(anomalies: Iterable[str]) -> set[str]:
    """The models that do not hold where there are these anomalies."""
    direct = {model for each in anomalies for model in _FORBIDDEN_BY[each]}
    return {model for model in MODELS if _PROMISED[model] & direct}


def weakest(models: set[str]) -> list[str]:
    """Those of the models that no other of them is weaker than."""
    return [each for each in MODELS if each in models and _PROMISED[each] & models == {each}]


_KNOWN: Final = (
    *("strict-serializable", "serializable", "snapshot-isolation", "repeatable-read"),
    *("read-committed", "read-uncommitted"),
)
"""Models that are named where they are ruled out, even if weaker ones are too."""


def in_words(anomalies: Iterable[str]) -> str:
    """The models that are ruled out, the weakest first: "not repeatable read, not serializable"."""
    out = ruled_out(anomalies)
    named = [each for each in reversed(MODELS) if each in out and each in (*weakest(out), *_KNOWN)]
    return ", ".join(f"not {each.replace('-', ' ')}" for each in named)
