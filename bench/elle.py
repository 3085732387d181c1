"""Judging transactions of reads and appends, or reads and writes: a million a minute on one core.

Histories are made from a seed, with their truth: twelve processes begin at once, their transactions
take effect one after the other, and then all end. A transaction has one to four steps on keys that
are in use together, and a key retires after about 25 writes. In a healthy history nothing is found.
With one stale read (a list without its newest element, long after it was acknowledged) strict
serializability is ruled out, and serializability is not.

    python -m bench.elle                    both models, and an exit code
    python -m bench.elle TRANSACTIONS       histories of this size
"""

from __future__ import annotations

import resource
import sys
import time
from typing import Final, NamedTuple

import numpy as np

from checkers.elle.dependencies import cycles_of, edges_of, ruled_out
from checkers.elle.history import anomalies_of, facts_of, history_of, versions_of
from harness.models.micro_ops import APPEND, HELD, READ, WIDTH, WRITE
from harness.protocols import NULL, Ints, Lists, Operations, Texts
from harness.protocols.runs import INVOKED, OK

SEED: Final = 2020
TRANSACTIONS: Final = 1_000_000
AT_MOST_S: Final = 60.0
"""For a million."""
_PROCESSES: Final = 12
_STEPS_AT_MOST: Final = 4
_KEYS: Final = 5
_OF_A_KEY: Final = 100
"""For how many transactions it is in use."""


class Made(NamedTuple):
    """The steps of transactions in the order in which they took effect: of each its transaction,
    kind, key and value, and how many values there were of its key before it."""

    op: Ints
    kind: Ints
    key: Ints
    value: Ints
    before: Ints


def made(number: int, *, lists: bool) -> Made:
    """The steps of so many transactions."""
    rng = np.random.default_rng(SEED)
    op = np.repeat(np.arange(number), rng.integers(1, _STEPS_AT_MOST + 1, number))
    size = len(op)
    key = op // _OF_A_KEY * _KEYS + rng.integers(0, _KEYS, size)
    writes = rng.random(size) < 0.5
    order = np.argsort(key, kind="stable")
    done = np.cumsum(writes[order])
    first = np.flatnonzero(np.append(True, np.diff(key[order]) != 0))
    until: Ints = np.repeat((done - writes[order])[first], np.diff(np.append(first, size)))
    before = np.empty(size, np.int64)
    before[order] = done - writes[order] - until
    kind = np.where(writes, APPEND if lists else WRITE, READ)
    return Made(op, kind, key, np.where(writes, np.arange(size), NULL), before)


def rows_of(steps: Made, *, lists: bool, stale: bool) -> Operations:
    """The rows of a run: all of a round begin, then all end; with one stale read."""
    number = int(steps.op[-1]) + 1
    writes, order = steps.kind != READ, np.argsort(steps.key, kind="stable")
    written = order[writes[order]]  # key by key, in order
    low = np.searchsorted(steps.key[written], steps.key)
    size = np.where(writes, NULL, steps.before)
    if stale:
        # The last element was acknowledged, by another one, hundreds of transactions ago.
        last = written[low + steps.before - 1]
        old = ~writes & (steps.before > 2) & (steps.op - steps.op[last] > 2 * _PROCESSES)
        alone = np.bincount(steps.op, minlength=number)[steps.op] == 1
        size[np.flatnonzero(old & alone)[0]] -= 1
    value = steps.value.copy()
    if not lists:
        reads = np.flatnonzero(size > 0)
        value[reads] = steps.value[written[low[reads] + size[reads] - 1]]
        size = np.minimum(size, 1)
    blocks = np.where(lists & (size > 0), -(-size // (WIDTH - 1)), 0)
    place = np.cumsum(blocks + 1) - blocks - 1  # of each step among micro-operations
    ended = np.full((len(size) + int(blocks.sum()), WIDTH), NULL)
    ended[:, 0] = HELD
    ended[place] = np.stack([steps.kind, steps.key, size, value], axis=1)
    if lists:
        many = np.maximum(size, 0)
        nth = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        at = np.repeat(place + 1, many) + nth // (WIDTH - 1)
        ended[at, 1 + nth % (WIDTH - 1)] = steps.value[written[np.repeat(low, many) + nth]]
    begun = np.stack([steps.kind, steps.key, np.full(len(size), NULL), steps.value], axis=1)
    of_begun = np.bincount(steps.op, minlength=number)
    of_ended = np.bincount(steps.op, blocks + 1, number).astype(np.int64)
    # A round: its invocations, then its completions.
    row = np.arange(number) // _PROCESSES * 2 * _PROCESSES + np.arange(number) % _PROCESSES
    lengths = np.zeros(2 * number + 2 * _PROCESSES, np.int64)
    lengths[row], lengths[row + _PROCESSES] = of_begun, of_ended
    starts = np.append(0, np.cumsum(lengths))
    elements = np.empty((starts[-1], WIDTH), np.int64)
    for micro, rows, count in ((begun, row, of_begun), (ended, row + _PROCESSES, of_ended)):
        inside = np.arange(len(micro)) - np.repeat(np.cumsum(count) - count, count)
        elements[np.repeat(starts[rows], count) + inside] = micro
    there = lengths > 0
    starts = np.append(starts[:-1][there], starts[-1]) * WIDTH
    rows_there = np.flatnonzero(there)
    total = len(rows_there)
    nothing, absent = np.full(total, NULL), Texts.nulls(total)
    return Operations(
        place=np.arange(total),
        f=Texts(np.zeros(total, np.int32), ["txn"]),
        key=absent,
        value=nothing,
        expected=nothing,
        result=nothing,
        elements=Lists(starts, elements.ravel(), np.ones(total, np.bool_)),
        mark=np.where(rows_there // _PROCESSES % 2, OK, INVOKED).astype(np.uint8),
        process=rows_there % _PROCESSES,
        partition=nothing,
        offset=nothing,
        node=absent,
        error=absent,
        intended_ns=np.arange(total) * 1_000,
        time_ns=np.arange(total) * 1_000,
    )


def found_in(rows: Operations, *, lists: bool) -> tuple[set[str], float]:
    """The anomalies of a history, and the seconds of one core that it took."""
    began = time.process_time()
    history = history_of([rows], lists=lists, file="bench")
    versions = versions_of(history, file="bench")
    facts = facts_of(history, versions)
    found = {each.kind for each in anomalies_of(history, versions, facts) if len(each.op)}
    cycles = cycles_of(edges_of(history, versions, facts), history.ops)
    return found | set(cycles.numbers), time.process_time() - began


def measured(number: int, *, lists: bool) -> bool:
    """Judge a healthy history and one with a stale read, and print what it took; whether the truth
    was found, in time."""
    steps, well = made(number, lists=lists), True
    for stale in (False, True) if lists else (False,):
        found, took_s = found_in(rows_of(steps, lists=lists, stale=stale), lists=lists)
        out = ruled_out(found)
        right = ("strict-serializable" in out) == stale and "serializable" not in out
        well = well and right and took_s * TRANSACTIONS / number <= AT_MOST_S
        print(
            f"{number:,} transactions of {len(steps.op):,} steps, "
            f"{'lists' if lists else 'registers'}{', one stale read' * stale}: {took_s:.1f} s, "
            f"{number / took_s:,.0f}/s, {', '.join(sorted(found)) or 'nothing found'}"
            f"{'' if right else '  WHICH DIFFERS FROM THE TRUTH'}",
            flush=True,
        )
    return well


def main(arguments: list[str]) -> int:
    """1 if something else is found than there is, or more than a minute is taken for a million."""
    number = int(arguments[0]) if arguments else TRANSACTIONS
    met = [measured(number, lists=lists) for lists in (True, False)]
    most_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"at most {most_mb:,} MB")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
