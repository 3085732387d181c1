"""Judging a set: 100,000 elements and 200 reads of the whole set, beside Python sets.

Histories are made from a seed, with their truth: adds and reads take turns, each read returns what
was acknowledged by then, and some elements are lost, stale, twice in a read, or nobody's. `spread`
has values over all 64 bits instead of dense ones. Python sets do what Jepsen's set-full does, read
by read and element by element, on a small history; its time per element and read is set beside
ours. Memory is the most that judging allocates, beside what the reads hold.

    python -m bench.sets                      all shapes, and an exit code
    python -m bench.sets ELEMENTS READS       one history of this size
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from typing import Final, NamedTuple

import numpy as np

from checkers.sets import tally
from checkers.sets.columns import Adds, SetHistory, SetReads, history_of
from harness.protocols.runs import NULL, OK, Ints

SEED: Final = 2013
AT_MOST_S: Final = 10.0
LOST: Final = 0.01
STALE: Final = 0.01


class Shape(NamedTuple):
    """A history to make and judge."""

    elements: int
    reads: int
    spread: bool = False


SHAPES: Final = (
    Shape(100_000, 200),
    Shape(100_000, 200, spread=True),
    Shape(2_000, 20_000),
)
PYTHON: Final = Shape(10_000, 200)


def made(shape: Shape) -> tuple[SetHistory, dict[str, int]]:
    """A history and what is true of it: reads begin at even steps among the adds, and the last one
    after all of them."""
    rng = np.random.default_rng(SEED)
    size, reads = shape.elements, shape.reads
    values = np.arange(size)
    if shape.spread:
        values = np.unique(rng.integers(-(2**63) + 1, 2**63 - 1, size))
        size = len(values)
    order = rng.permutation(size)
    # Two places an add, two a read: a read begins once so many adds have completed.
    after = np.linspace(0, size, reads + 1, dtype=np.int64)[1:]
    began = 2 * np.arange(size) + 2 * np.searchsorted(after, np.arange(size), side="right")
    read_at = 2 * after + 2 * np.arange(reads)
    kind = rng.random(size)
    lost, stale = kind < LOST, (kind >= LOST) & (kind < LOST + STALE)
    first = np.searchsorted(after, np.arange(size), side="right")  # the first read to have it
    stale &= first + 1 < reads
    parts = []
    for row, held in enumerate(after.tolist()):
        shown = ~lost[:held] & ~(stale[:held] & (first[:held] == row))
        parts.append(values[order[:held][shown]])
    adds = Adds(
        value=values[order],
        process=np.arange(size) % 20,
        mark=np.full(size, OK, np.uint8),
        invoke_index=began,
        complete_index=began + 1,
        invoke_ns=began * 1_000_000,
        complete_ns=(began + 1) * 1_000_000,
    )
    stops = np.cumsum([len(part) for part in parts])
    read = SetReads(
        process=np.zeros(reads, np.int64),
        mark=np.full(reads, OK, np.uint8),
        invoke_index=read_at,
        complete_index=read_at + 1,
        invoke_ns=np.full(reads, NULL),
        complete_ns=np.full(reads, NULL),
        start=np.concatenate([[0], stops[:-1]]),
        stop=stops,
        elements=np.concatenate(parts),
    )
    truth = {"attempted": size, "lost": int(lost.sum()), "stale": int(stale.sum())}
    truth["stable"] = size - truth["lost"]
    return history_of(adds, read), truth


def by_python_sets(history: SetHistory) -> dict[str, int]:
    """Counts as Jepsen's set-full makes them: every read updates every element."""
    adds, reads = history.adds, history.reads
    known = dict(zip(adds.value.tolist(), adds.complete_index.tolist(), strict=True))
    present, absent = dict.fromkeys(known, -1), dict.fromkeys(known, -1)
    for row, began in enumerate(reads.invoke_index.tolist()):
        held = set(_read(history, row).tolist())
        for value in known:
            if value in held:
                present[value] = max(present[value], began)
            elif reads.complete_index[row] > known[value] - 1:
                absent[value] = max(absent[value], began)
    after = {value for value in known if absent[value] > known[value]}
    stable = {value for value in known if present[value] > absent[value]}
    return {
        "attempted": len(known),
        "lost": len(after - stable),
        "stale": len(after & stable),
        "stable": len(stable),
    }


def _read(history: SetHistory, row: int) -> Ints:
    elements: Ints = history.reads.elements[history.reads.start[row] : history.reads.stop[row]]
    return elements


def measured(shape: Shape) -> bool:
    """Judge one history and print what it took; whether the counts are the truth, in time."""
    history, truth = made(shape)
    held = len(history.reads.elements)
    began = time.perf_counter()
    counts = tally(history).counts
    took_s = time.perf_counter() - began
    tracemalloc.start()
    tally(history)
    allocated_mb = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    right = {name: counts[name] for name in truth} == truth
    print(
        f"{shape.elements:,} elements ({'spread' if shape.spread else 'dense'}), {shape.reads:,} "
        f"reads of {held:,} entries ({held * 8 / 2**20:,.0f} MB): "
        f"{took_s:.2f} s, {held / took_s / 1e6:.0f} M entries/s, {allocated_mb:,.0f} MB allocated"
        f"{'' if right else '  COUNTS DIFFER FROM THE TRUTH'}",
        flush=True,
    )
    return right and took_s <= AT_MOST_S


def beside_python() -> bool:
    """Print the time of Python sets and of ours on one small history; whether both are right."""
    history, truth = made(PYTHON)
    began = time.perf_counter()
    counts = by_python_sets(history)
    python_s = time.perf_counter() - began
    began = time.perf_counter()
    tally(history)
    ours_s = time.perf_counter() - began
    print(
        f"{PYTHON.elements:,} elements, {PYTHON.reads:,} reads: ours {ours_s * 1e3:.0f} ms, Python "
        f"sets {python_s * 1e3:.0f} ms, {python_s / ours_s:.0f} x",
        flush=True,
    )
    return counts == truth


def main(arguments: list[str]) -> int:
    """The shapes; 1 if a count differs from the truth or one takes longer than it may."""
    if len(arguments) == 2:
        shapes: tuple[Shape, ...] = (Shape(int(arguments[0]), int(arguments[1])),)
    else:
        shapes = SHAPES
    met = [measured(shape) for shape in shapes]
    return 0 if all(met) and beside_python() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
