"""Whether each key is linearizable, or sequentially consistent: by columns where it can be, by a
search where it must.

A value that nothing can have stored makes a key invalid; known sources are decided in polynomial
time, all keys at once; only keys in which some value may come from several writes are searched.

The search for a sequentially consistent order of one key, where it is not known which write a
read returned: an interleaving of what the processes did, whatever the time.

It stands before the next operation of every process, lets one after the other take effect, and
keeps every configuration that was seen, as `linearization` does. So do its four savings: a read
takes effect as soon as it is next and the register holds its value; a write whose value nothing
consumes takes effect before the next write of another process that is not a compare-and-set; its
value is not a separate state; and an `info` write takes effect only where something that is next
consumes its value. That may be at any time after what its process did before it, or never.

A linearization, which is found sooner where there is one, is such an order too, unless operations
of one process touch. So that is searched first, with its own budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from checkers.register.linearization import MAX_STATES, Frontier, Outcome, linearization
from checkers.register.operations import (
    CAS,
    NEVER,
    NOTHING,
    READ,
    WRITE,
    Operation,
    Operations,
    Sources,
    by_key,
    sources,
)
from harness.protocols import INVALID, UNKNOWN, VALID
from harness.protocols.runs import (
    NULL,
    OK,
    Bools,
    Ints,
)

# Linearizability where sources are known: no two blocks may each have to precede the other.
#
# P (see `blocks`) is real time. Block A must precede block B when the earliest completion in A,
# f(A), is before the latest invocation in B, s(B). Two blocks suffice to look for circles: in a
# circle of blocks let M have the latest s; whatever precedes another in it precedes M too; so M and
# the block after it precede each other. So a key is linearizable if and only if its blocks are in
# order within and for no two of them f(A) < s(B) and f(B) < s(A).
#
# These are the zones of Gibbons and Korach ("Testing shared memories", 1997): *forward* zones, from
# f to s where f < s, may not overlap; and no *backward* zone, from s to f, may lie within a forward
# one. The sort makes it O(n log n); all keys are judged in one pass over columns.
#
# The initial value is written before everything: at 0, where other instants are counted from 1.
#
# Blocks: what must stand together in every legal order, once sources are known.
#
# The *cluster* of a write is that write and what reads its value; the initial value of a key has a
# cluster of its own. In a legal order nothing stands between the operations of a cluster, since
# whatever stored another value would be read instead. A compare-and-set stands directly behind the
# cluster of what it expects, so clusters that compare-and-sets join are a chain; chains, and
# clusters that are in none, are *blocks*. So a legal order is an order of blocks, each in the one
# order of its clusters, each cluster in the order: its write, then its reads.
#
# Let P be any partial order that the operations must keep. An order exists if and only if
#
#     no value is expected by two compare-and-sets, and no chain is a circle,
#     within each block P contradicts neither the order of clusters nor that each write is first,
#     and
#     the relation "an operation of A is in P before one of B" has no circle among blocks:
#
# then order the blocks by that relation, and what stands within each by P. Both consistency models
# are this with another P (`zones`, `process_order`). Clusters are Gibbons and Korach's ("Testing
# shared memories", 1997), for reads and writes; chains are what compare-and-sets add.
#
# Sequential consistency of one register where sources are known: blocks need an order without a
# circle.
#
# P (see `blocks`) is the order of each process: by invocation, then completion, then row. An `info`
# write stands behind what its process did before it and before nothing, since it may take effect at
# any later time. It is enough to look at neighbours: were something else of a process between two
# operations of one block, blocks would precede each other. The initial value stands before
# everything.
#
# This is what Cantin, Lipasti and Smith call verifying coherence ("The complexity of verifying
# memory coherence and consistency", IEEE TPDS 16 (7), 2005): NP-complete, but not where it is known
# which write each read returned.


@dataclass(frozen=True)
class Blocks:
    """Where operations are in their blocks. A cluster has the number of its write; the initial
    one of the key at place k has the number of operations plus k. `cluster`: of each operation;
    `writes`: whether each is the write of its cluster; `block`: of each cluster, the number of the
    first in its chain; `depth`: its place in the chain; `key`: its key's place; `broken`: whether
    each key has chains that cannot be. What keys have whose sources are not known means nothing."""

    cluster: Ints
    writes: Bools
    block: Ints
    depth: Ints
    key: Ints
    broken: Bools

    @property
    def rank(self) -> Ints:
        """Of each operation, its place in its block; reads of one cluster share theirs."""
        ranks: Ints = 2 * self.depth[self.cluster] + ~self.writes
        return ranks


def blocks(known: Sources) -> Blocks:
    operations, size = len(known.at), len(known.at) + len(known.keys)
    key = np.concatenate([known.at, np.arange(len(known.keys))])
    writes = known.written != NOTHING
    source = known.source[known.consumed]
    lost = source == NOTHING
    source = np.where(lost, operations + known.at, source)
    cluster = np.where(writes, np.arange(operations), source)
    joins = np.flatnonzero(known.operations.f == CAS)
    parent, wrong = np.arange(size), np.zeros(size, np.bool_)
    parent[joins] = source[joins]
    wrong[joins] = lost[joins]
    wrong |= np.bincount(source[joins], minlength=size) > 1
    block, depth = _chains(parent)
    wrong |= parent[block] != block
    broken = np.zeros(len(known.keys), np.bool_)
    broken[key[wrong]] = True
    return Blocks(cluster, writes, block, depth, key, broken)


def _chains(parent: Ints) -> tuple[Ints, Ints]:
    """The first of each chain and the distance to it, by doubling steps; in a circle, any of it."""
    above, depth = parent, (parent != np.arange(len(parent))).astype(np.int64)
    for _ in range(len(parent).bit_length()):
        further = above[above]
        if np.array_equal(further, above):
            break
        depth, above = depth + depth[above], further
    return above, depth


BEFORE_ALL: Final = 0
"""The rank of the instant at which initial values are written."""


@dataclass(frozen=True)
class _Ranks:
    """Instants as small numbers in their order: of operations, and one more than the last."""

    invoke: Ints
    complete: Ints
    end: int


def not_linearizable(known: Sources) -> Bools:
    """Whether each key has no linearization; means nothing where sources are not known."""
    found = blocks(known)
    ranks = _ranks(known)
    spans = _spans(found, ranks)
    starts = len(known.at) + np.arange(len(known.keys))
    clusters = np.concatenate([np.flatnonzero(found.writes), starts])
    order = clusters[np.lexsort((found.depth[clusters], found.block[clusters]))]
    broken = found.broken.copy()
    broken[found.key[order[_disordered(found, spans, order, ranks.end)]]] = True
    begins = np.flatnonzero(np.diff(found.block[order], prepend=-1))
    key = found.key[order[begins]]
    if len(begins):
        first = np.minimum.reduceat(spans.earliest[order], begins)
        last = np.maximum.reduceat(spans.latest[order], begins)
        broken[_conflicts(key, first, last, ranks.end)] = True
    return broken


def _ranks(known: Sources) -> _Ranks:
    operations = known.operations
    complete_ns = np.where(operations.type == OK, operations.complete_ns, NEVER)
    instants, rank = np.unique(
        np.concatenate([operations.invoke_ns, complete_ns]), return_inverse=True
    )
    rank = rank + BEFORE_ALL + 1
    return _Ranks(rank[: len(known.at)], rank[len(known.at) :], len(instants) + BEFORE_ALL + 1)


@dataclass(frozen=True)
class _Spans:
    """Of each cluster: when its write was invoked and completed, the earliest completion of a read,
    and the earliest completion and the latest invocation of all."""

    invoke: Ints
    complete: Ints
    read: Ints
    earliest: Ints
    latest: Ints


def _spans(found: Blocks, ranks: _Ranks) -> _Spans:
    size, operations = len(found.key), len(found.cluster)
    invoke, complete = np.full(size, BEFORE_ALL), np.full(size, BEFORE_ALL)
    invoke[:operations], complete[:operations] = ranks.invoke, ranks.complete
    reads = ~found.writes
    read, latest = np.full(size, ranks.end), invoke.copy()
    np.minimum.at(read, found.cluster[reads], ranks.complete[reads])
    np.maximum.at(latest, found.cluster[reads], ranks.invoke[reads])
    return _Spans(invoke, complete, read, np.minimum(complete, read), latest)


def _disordered(found: Blocks, spans: _Spans, order: Ints, end: int) -> Bools:
    """Whether something of each cluster, in order, precedes its write or a cluster before it."""
    within = np.cumsum(np.diff(found.block[order], prepend=-1) != 0) * end
    reached = np.maximum.accumulate(within + spans.latest[order])
    before = np.concatenate([[0], reached[:-1]])[: len(order)] - within
    before = before.clip(min=BEFORE_ALL)
    first = np.maximum(before, spans.invoke[order])
    wrong: Bools = (spans.complete[order] < before) | (spans.read[order] < first)
    return wrong


def _conflicts(key: Ints, first: Ints, last: Ints, end: int) -> Ints:
    """The keys of blocks that precede each other, from their earliest completion and their latest
    invocation. Numbers that begin with the key let all keys share one order."""
    low, high = key * end + first, key * end + last
    forward = np.flatnonzero(low < high)
    forward = forward[np.argsort(low[forward], kind="stable")]
    reached = np.maximum.accumulate(high[forward])
    overlap = forward[1:][low[forward[1:]] < reached[:-1]]
    backward = np.flatnonzero(low >= high)
    at = np.searchsorted(low[forward], high[backward], side="left")
    held = backward[at > 0]
    inside = held[low[held] < reached[at[at > 0] - 1]]
    conflicting: Ints = key[np.concatenate([overlap, inside])]
    return conflicting


def not_sequential(known: Sources) -> Bools:
    """Whether each key has no legal order that keeps the order of every process; means nothing
    where sources are not known."""
    found = blocks(known)
    before = preceding(known.operations)
    behind = np.flatnonzero(before >= 0)
    earlier = before[behind]
    source, target = found.block[found.cluster[earlier]], found.block[found.cluster[behind]]
    same, first = source == target, target >= len(known.at)
    wrong = np.where(same, found.rank[earlier] > found.rank[behind], first)
    broken = found.broken.copy()
    broken[known.at[behind[wrong]]] = True
    kept = ~same & (source < len(known.at))
    circular = in_circles(source[kept], target[kept], len(found.key))
    broken[found.key[circular]] = True
    return broken


def preceding(operations: Operations) -> Ints:
    """Of each operation, the last `ok` one before it in its process and key; -1 for the first."""
    size = len(operations)
    order = np.lexsort(
        (operations.complete_ns, operations.invoke_ns, operations.process, operations.key)
    )
    key, process = operations.key[order], operations.process[order]
    changes = (np.diff(key, prepend=NULL) != 0) | (np.diff(process, prepend=NULL) != 0)
    begin = np.maximum.accumulate(np.where(changes, np.arange(size), 0))
    sure = np.where(operations.type[order] == OK, np.arange(size), -1)
    last = np.concatenate([[-1], np.maximum.accumulate(sure)])[:size]
    before = np.full(size, -1)
    before[order] = np.where(last >= begin, order[last], -1)
    return before


def in_circles(source: Ints, target: Ints, size: int) -> Ints:
    """The nodes of a graph that are on a circle or behind one (Kahn, "Topological sorting of large
    networks", Communications of the ACM 5 (11), 1962)."""
    order = np.argsort(source, kind="stable")
    ends: Sequence[int] = target[order].tolist()
    begins: Sequence[int] = np.searchsorted(source[order], np.arange(size + 1)).tolist()
    waiting = np.bincount(target, minlength=size)
    free: list[int] = np.flatnonzero(waiting == 0).tolist()
    left: list[int] = waiting.tolist()
    for node in free:  # grows while it is gone through
        for end in ends[begins[node] : begins[node + 1]]:
            left[end] -= 1
            if not left[end]:
                free.append(end)
    return np.flatnonzero(np.array(left, np.int64) > 0)


class _Configuration(NamedTuple):
    """How far each process is, and what the register holds (None: what nothing will ask for)."""

    done: tuple[int, ...]
    state: int | None


class _Step(NamedTuple):
    """The operations that took effect together, and the steps before them."""

    placed: tuple[int, ...]
    before: _Step | None


@dataclass(frozen=True)
class _Processes:
    """A key's `ok` operations by process, in order; `gate`: of each `info` write, its process (-1:
    no matter) and how much of it comes before; `twin`: the bit of the one before it in its process
    that does the same, and is used first."""

    operations: Sequence[Operation]
    lines: Sequence[Sequence[int]]
    gate: Mapping[int, tuple[int, int]]
    twin: Mapping[int, int]

    @cached_property
    def mute(self) -> list[bool]:
        """Whether each operation is a write whose value nothing consumes."""
        consumed = {
            one.expected if one.f == CAS else one.value for one in self.operations if one.f != WRITE
        }
        return [one.f != READ and one.value not in consumed for one in self.operations]

    def keeps(self, order: Sequence[int]) -> bool:
        """Whether an order keeps the order of each process, and has `info` writes after their
        gates."""
        place = {at: number for number, at in enumerate(order)}
        gates = [
            (self.lines[line][before - 1], at)
            for at, (line, before) in self.gate.items()
            if at in place and before
        ]
        pairs = [pair for line in self.lines for pair in pairwise(line)]
        return all(place[first] < place[second] for first, second in pairs + gates)

    def next(self, done: tuple[int, ...]) -> list[tuple[int, int]]:
        """The processes that are not at their end, and what each does next."""
        ended = zip(self.lines, done, strict=True)
        return [(line, at[place]) for line, (at, place) in enumerate(ended) if place < len(at)]


def interleaving(
    operations: Sequence[Operation], *, initial: int = NULL, max_states: int = MAX_STATES
) -> Outcome:
    """Search for a legal order of a key's operations that keeps the order of each process."""
    processes, verdict = _processes(operations), INVALID
    timed = linearization(operations, initial=initial, max_states=max_states)
    if timed.verdict == VALID and processes.keeps(timed.order):
        return timed
    frontier = Frontier[_Configuration, _Step]()
    start, reads = _settled(processes, _Configuration((0,) * len(processes.lines), initial))
    frontier.add(start, 0, _Step(reads, None), progress=sum(start.done))
    best = start, _Step(reads, None)
    while (found := frontier.next()) is not None:
        here, infos, trail = found
        if sum(here.done) > sum(best[0].done):
            best = here, trail
        if not processes.next(here.done):
            verdict = VALID
            break
        if frontier.states > max_states + len(operations):
            verdict = UNKNOWN
            break
        for choice in reversed(list(_choices(processes, here, infos))):
            after, reads = _settled(processes, choice.leads)
            step = _Step(choice.placed + reads, trail)
            frontier.add(after, infos | choice.infos, step, progress=sum(after.done))
    left = [at for _, at in processes.next(best[0].done)]
    stuck = min(left, key=lambda at: operations[at].complete_ns, default=None)
    states = timed.states + frontier.states
    return Outcome(verdict, states, stuck, lambda: _order(best[1]))


def _processes(operations: Sequence[Operation]) -> _Processes:
    before = preceding(Operations.of(operations)).tolist()
    order = sorted(
        range(len(operations)),
        key=lambda at: (operations[at].invoke_ns, operations[at].complete_ns, at),
    )
    lines: dict[int, tuple[int, list[int]]] = {}
    place = {-1: (-1, 0)}
    for at in order:
        one = operations[at]
        if one.type == OK:
            number, line = lines.setdefault(one.process, (len(lines), []))
            line.append(at)
            place[at] = (number, len(line))
    infos = [at for at in order if operations[at].type != OK]
    twin: dict[int, int] = {}
    like: dict[tuple[int, ...], int] = {}
    for at in infos:
        one = operations[at]
        what = (*one[:3], one.process)
        twin[at] = like.get(what, 0)
        like[what] = 1 << at
    gate = {at: place[before[at]] for at in infos}
    return _Processes(operations, [line for _, line in lines.values()], gate, twin)


def _settled(processes: _Processes, here: _Configuration) -> tuple[_Configuration, tuple[int, ...]]:
    """Let what is next and reads what the register holds take effect."""
    done, placed = list(here.done), []
    for line, order in enumerate(processes.lines):
        while done[line] < len(order):
            one = processes.operations[order[done[line]]]
            if one.f != READ or one.value != here.state:
                break
            placed.append(order[done[line]])
            done[line] += 1
    return here._replace(done=tuple(done)), tuple(placed)


class _Choice(NamedTuple):
    """What may take effect next, all that takes effect with it, the `info` write that it uses, as
    a bit, and what it leads to."""

    leads: _Configuration
    placed: tuple[int, ...]
    infos: int = 0


def _choices(processes: _Processes, here: _Configuration, infos: int) -> Iterator[_Choice]:
    """What may take effect next; the earliest completion first."""
    operations, mute = processes.operations, processes.mute
    ahead = processes.next(here.done)
    quiet = False
    for line, at in sorted(ahead, key=lambda each: operations[each[1]].complete_ns):
        one = operations[at]
        if one.f == READ or (one.f == CAS and one.expected != here.state):
            continue
        if one.f == WRITE and mute[at]:
            quiet = True
            continue
        yield _written(processes, here, at, line)
    for at in _wanted(processes, here, infos, [at for _, at in ahead]):
        yield _written(processes, here, at, None)
    if quiet:
        done, placed = _quietened(processes, here.done, None)
        yield _Choice(_Configuration(done, None), placed)


def _written(processes: _Processes, here: _Configuration, at: int, line: int | None) -> _Choice:
    """What a write leads to, next in a process or an `info` one."""
    one, done = processes.operations[at], here.done
    placed: tuple[int, ...] = ()
    if one.f == WRITE:
        done, placed = _quietened(processes, done, line)
    if line is not None:
        done = (*done[:line], done[line] + 1, *done[line + 1 :])
    after = _Configuration(done, None if processes.mute[at] else one.value)
    return _Choice(after, (*placed, at), 1 << at if line is None else 0)


def _quietened(
    processes: _Processes, done: tuple[int, ...], but: int | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Let writes whose value nothing consumes take effect where they are next, except those of one
    process."""
    after, placed = list(done), []
    for line, order in enumerate(processes.lines):
        while line != but and after[line] < len(order):
            at = order[after[line]]
            if processes.operations[at].f != WRITE or not processes.mute[at]:
                break
            placed.append(at)
            after[line] += 1
    return tuple(after), tuple(placed)


def _wanted(
    processes: _Processes, here: _Configuration, infos: int, ahead: Sequence[int]
) -> Iterator[int]:
    """The `info` writes that may take effect now and whose value something next consumes."""
    operations = processes.operations
    nexts = (operations[at] for at in ahead)
    values = dict.fromkeys(
        one.expected if one.f == CAS else one.value for one in nexts if one.f != WRITE
    )
    found = list(values)
    for value in found:  # grows while it is gone through
        for at in _unused(processes, here, infos, value):
            expected = operations[at].expected
            if operations[at].f != CAS or expected == here.state:
                yield at
            if operations[at].f == CAS and expected not in values:
                values[expected] = None
                found.append(expected)


def _unused(processes: _Processes, here: _Configuration, infos: int, value: int) -> Iterator[int]:
    """The `info` writes of a value that may take effect now, of a process one of those that do the
    same."""
    for at, (line, before) in processes.gate.items():
        twin = processes.twin[at]
        used = infos >> at & 1 or infos & twin != twin
        passed = line < 0 or here.done[line] >= before
        if processes.operations[at].value == value and passed and not used:
            yield at


def _order(trail: _Step | None) -> tuple[int, ...]:
    """What steps placed, in order."""
    steps = []
    while trail is not None:
        steps.append(trail.placed)
        trail = trail.before
    return tuple(at for placed in reversed(steps) for at in placed)


LINEARIZABLE: Final = "linearizable"
SEQUENTIAL: Final = "sequential"


Search = Callable[..., Outcome]
"""A search for an order of one key's operations, by their initial value and a budget."""


@dataclass(frozen=True)
class Consistency:
    """What is decided for each key: whether real time counts, and the two ways to decide."""

    in_real_time: bool
    broken: Callable[[Sources], Bools]
    search: Search


CONSISTENCIES: Final = {
    LINEARIZABLE: Consistency(True, not_linearizable, linearization),
    SEQUENTIAL: Consistency(False, not_sequential, interleaving),
}


@dataclass(frozen=True)
class Answers:
    """The verdict on each key, and how many configurations were seen for it: 0 where no search was
    needed."""

    keys: Ints
    verdicts: tuple[str, ...]
    states: Ints

    def of(self, verdict: str) -> Ints:
        return self.keys[[each == verdict for each in self.verdicts]]


def answers(
    operations: Operations,
    *,
    consistency: str = LINEARIZABLE,
    initial: int = NULL,
    max_states: int = MAX_STATES,
) -> Answers:
    """Judge every key. Raises ValueError for an unknown consistency."""
    model = consistency_named(consistency)
    of_keys = sources(operations, initial=initial, in_real_time=model.in_real_time)
    searched = of_keys.ambiguous & ~of_keys.unwritten
    broken = of_keys.unwritten | (model.broken(of_keys) & ~searched)
    verdicts = np.where(broken, INVALID, VALID).tolist()
    states = np.zeros(len(of_keys.keys), np.int64)
    left = of_keys.operations.take(searched[of_keys.at])
    for key, rows in by_key(left):
        place = int(np.searchsorted(of_keys.keys, key))
        found = model.search(list(left.take(rows)), initial=initial, max_states=max_states)
        verdicts[place], states[place] = found.verdict, found.states
    return Answers(of_keys.keys, tuple(verdicts), states)


def consistency_named(name: str) -> Consistency:
    """One of the consistencies. Raises ValueError for an unknown name."""
    if name not in CONSISTENCIES:
        raise ValueError(f"consistency is {name!r}; use one of {', '.join(CONSISTENCIES)}")
    return CONSISTENCIES[name]
