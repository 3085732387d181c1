"""Sequential consistency of one register where sources are known: blocks need an order without a
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

import numpy as np

from checkers.register.blocks import blocks
from checkers.register.operations import NULL, OK, Bools, Ints, Operations
from checkers.register.sources import Sources


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
