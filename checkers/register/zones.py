"""Linearizability where sources are known: no two blocks may each have to precede the other.

P (see `blocks`) is real time. Block A must precede block B when the earliest completion in A, f(A),
is before the latest invocation in B, s(B). Two blocks suffice to look for circles: in a circle of
blocks let M have the latest s; whatever precedes another in it precedes M too; so M and the block
after it precede each other. So a key is linearizable if and only if its blocks are in order within
and for no two of them f(A) < s(B) and f(B) < s(A).

These are the zones of Gibbons and Korach ("Testing shared memories", 1997): *forward* zones, from f
to s where f < s, may not overlap; and no *backward* zone, from s to f, may lie within a forward
one. The sort makes it O(n log n); all keys are judged in one pass over columns.

The initial value is written before everything: at 0, where other instants are counted from 1.

Blocks: what must stand together in every legal order, once sources are known.

The *cluster* of a write is that write and what reads its value; the initial value of a key has a
cluster of its own. In a legal order nothing stands between the operations of a cluster, since
whatever stored another value would be read instead. A compare-and-set stands directly behind the
cluster of what it expects, so clusters that compare-and-sets join are a chain; chains, and clusters
that are in none, are *blocks*. So a legal order is an order of blocks, each in the one order of its
clusters, each cluster in the order: its write, then its reads.

Let P be any partial order that the operations must keep. An order exists if and only if

    no value is expected by two compare-and-sets, and no chain is a circle,
    within each block P contradicts neither the order of clusters nor that each write is first, and
    the relation "an operation of A is in P before one of B" has no circle among blocks:

then order the blocks by that relation, and what stands within each by P. Both consistency models
are this with another P (`zones`, `process_order`). Clusters are Gibbons and Korach's ("Testing
shared memories", 1997), for reads and writes; chains are what compare-and-sets add.

Sequential consistency of one register where sources are known: blocks need an order without a
circle.

P (see `blocks`) is the order of each process: by invocation, then completion, then row. An `info`
write stands behind what its process did before it and before nothing, since it may take effect at
any later time. It is enough to look at neighbours: were something else of a process between two
operations of one block, blocks would precede each other. The initial value stands before
everything.

This is what Cantin, Lipasti and Smith call verifying coherence ("The complexity of verifying memory
coherence and consistency", IEEE TPDS 16 (7), 2005): NP-complete, but not where it is known which
write each read returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from checkers.register.operations import (
    CAS,
    NEVER,
    NOTHING,
    NULL,
    OK,
    Bools,
    Ints,
    Operations,
    Sources,
)


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
    """The blocks of keys."""
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
