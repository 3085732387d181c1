"""The order of each log's values, as Jepsen infers it (`jepsen.tests.kafka/version-orders`).

Offsets are known from sends that have certainly committed and from all polls, of whatever outcome:
a poll is never to return what is not committed, so what a failed transaction polled is as good.
Gaps between offsets mean nothing (transactions leave markers in them): a *place* is the rank of an
offset among those of its log that are known. One value may have several places (a duplicate), and
one place several values (inconsistent offsets).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from checkers.transactional_log.columns import History
from checkers.transactional_log.grouping import codes_of
from checkers.transactional_log.set_order import rank
from harness.models.micro_ops import POLL, SEND
from harness.protocols import NULL, Bools, Ints

NOWHERE: Final = -1


class Versions(NamedTuple):
    """Slots number the places of all logs, those of a key in order. `first` and `last`: those of
    each thing, NOWHERE where it has none; `slot`: the one by which things are compared, the last
    that has no other thing in its stead. `begins`: the first slot of each key; `offset`: of each
    slot; `holds`: one thing of each slot (`set_order`). `duplicated`: things with several slots;
    `crowded`: slots with several things; `pairs`: the slots and things of both, row by row."""

    first: Ints
    last: Ints
    slot: Ints
    begins: Ints
    offset: Ints
    holds: Ints
    duplicated: Ints
    crowded: Ints
    pairs: Ints

    def place(self, slots: Ints, keys: Ints) -> Ints:
        """The places in their logs of slots."""
        return slots - self.begins[keys]


def versions_of(history: History, committed: Bools) -> Versions:
    """The orders of all logs. `committed`: whether each operation has."""
    micro = history.micro
    shown = (micro.kind == POLL) | ((micro.kind == SEND) & committed[micro.op])
    rows = np.flatnonzero(shown & (micro.offset != NULL))
    thing, key = micro.thing[rows], micro.key[rows]
    slot, slots = codes_of(micro.offset[rows], key)
    offset, key_of = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
    offset[slot], key_of[slot] = micro.offset[rows], key
    some_slot = np.full(history.things, NOWHERE)
    some_slot[thing] = slot
    some_thing = np.zeros(slots, np.int64)
    some_thing[slot] = thing
    first, last, holds = some_slot, some_slot.copy(), some_thing
    odd = (some_slot[thing] != slot) | (some_thing[slot] != thing)
    again = np.zeros(history.things, np.bool_)
    again[thing[odd]] = True
    busy = np.zeros(slots, np.bool_)
    busy[slot[odd]] = True
    few = again[thing] | busy[slot]
    pairs = np.unique(np.stack([slot[few], thing[few]], axis=1), axis=0)
    np.minimum.at(first, pairs[:, 1], pairs[:, 0])
    np.maximum.at(last, pairs[:, 1], pairs[:, 0])
    pairs = pairs[_in_sets(history, pairs)]
    holds[pairs[::-1, 0]] = pairs[::-1, 1]
    stands = holds[pairs[:, 0]] == pairs[:, 1]
    compared = last.copy()
    compared[pairs[:, 1]] = NOWHERE
    np.maximum.at(compared, pairs[stands, 1], pairs[stands, 0])
    return Versions(
        first=first,
        last=last,
        slot=compared,
        begins=np.searchsorted(key_of, np.arange(len(history.keys))),
        offset=offset,
        holds=holds,
        duplicated=np.flatnonzero(first != last),
        crowded=np.flatnonzero(np.bincount(pairs[:, 0], minlength=slots) > 1),
        pairs=pairs,
    )


def _in_sets(history: History, pairs: Ints) -> Ints:
    """The order of pairs by slot, and of those of one slot as a set has their things."""
    things, at = np.unique(pairs[:, 1], return_inverse=True)
    ranks = [rank(value) for value in history.value_of[things].tolist()]
    return np.lexsort((pairs[:, 1], np.array(ranks, np.int64)[at], pairs[:, 0]))
