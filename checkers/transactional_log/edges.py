"""What operations depend on each other by: the edges of Jepsen's graph of a log's transactions.

    ww   one sent the value that stands directly before a value of the other in their log
    wr   one sent a value that the other polled

No edge says that a poll came before a send (rw): polls may always lag behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from checkers.transactional_log.columns import ABSENT, History
from checkers.transactional_log.grouping import places, taken
from checkers.transactional_log.values import Values
from checkers.transactional_log.versions import NOWHERE, Versions
from harness.models.micro_ops import POLL
from harness.protocols import NULL, Bools, Ints

WW, WR, RT = range(3)
"""Kinds of edges; RT: one had completed before the other began."""

NAMES: Final = ("ww", "wr", "rt")


class Edges(NamedTuple):
    """One row an edge, from an operation to another. `key` is the number of a key; `value` was sent
    by `source`, and `next`, the value after it, by `target` (NULL where it was polled)."""

    source: Ints
    target: Ints
    kind: Ints
    key: Ints
    value: Ints
    next: Ints

    def take(self, rows: Ints | Bools) -> Edges:
        """Some of them."""
        chosen = places(rows)
        return self if chosen is None else Edges._make(taken(self, chosen))


def edges_of(history: History, values: Values, versions: Versions) -> Edges:
    """The edges of all keys of a history."""
    return joined([_follows(history, values, versions), polled(history, values)])


def joined(parts: Sequence[Edges]) -> Edges:
    """The edges of several shards."""
    return Edges._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _follows(history: History, values: Values, versions: Versions) -> Edges:
    there = np.flatnonzero((versions.slot != NOWHERE) & (values.writer != ABSENT))
    slot, key = versions.slot[there], history.key_of[there]
    later = versions.place(slot, key) > 0
    there, slot = there[later], slot[later]
    before = versions.holds[slot - 1]
    known = values.writer[before] != ABSENT
    there, before = there[known], before[known]
    return _edges(
        WW,
        values.writer[before],
        values.writer[there],
        history.keys[history.key_of[there]],
        history.value_of[before],
        history.value_of[there],
    )


def polled(history: History, values: Values) -> Edges:
    """From who sent a value to who polled it."""
    polls = history.micro.take(history.micro.kind == POLL)
    writer = values.writer[polls.thing]
    known = writer != ABSENT
    nothing = np.full(int(known.sum()), NULL)
    polls = polls.take(known)
    return _edges(
        WR, np.compress(known, writer), polls.op, history.keys[polls.key], polls.value, nothing
    )


def _edges(kind: int, source: Ints, target: Ints, key: Ints, value: Ints, then: Ints) -> Edges:
    found = Edges(source, target, np.full(len(source), kind), key, value, then)
    return found.take(source != target)
