"""Blocks: what must stand together in every legal order, once sources are known.

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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checkers.register.operations import CAS, Bools, Ints
from checkers.register.sources import NOTHING, Sources


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
