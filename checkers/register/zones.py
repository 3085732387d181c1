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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from checkers.register.blocks import Blocks, blocks
from checkers.register.operations import NEVER, OK, Bools, Ints
from checkers.register.sources import Sources

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
