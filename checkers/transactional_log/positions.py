"""Polls and sends that skip over values of a log or go back in it, within an operation (`int-`) and
from one operation of a process to the next.

The definitions are Jepsen's. Of a value with several places the last one counts; nothing is
concluded about values without a known place. From operation to operation the last value of the one
before is compared with the first of the next. What a failed operation polled, or one of unknown
outcome, is compared, and moves no position. `assign` and `subscribe` keep the positions of the keys
that they name and forget the others. (An operation that polls a key and gets nothing has no
micro-operation, and leaves the position where it is; Jepsen forgets it then.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from checkers.transactional_log.columns import ABSENT, SUBSCRIBE, History, MicroOps
from checkers.transactional_log.found import Found
from checkers.transactional_log.grouping import begins, codes_of, ordered, starts
from checkers.transactional_log.versions import NOWHERE, Versions
from harness.models.micro_ops import ASSIGNED, POLL, REBALANCED, SEND
from harness.protocols import Bools, Ints
from harness.protocols.runs import FAIL, OK


def anomalies(history: History, versions: Versions) -> Iterator[Found]:
    """All of them, kind by kind."""
    yield from of_polls(history, versions)
    sends = _grouped(history, SEND)
    yield from _split(_within(versions, sends), "int-send-skip", "int-nonmonotonic-send")
    done = sends.take(history.ops.mark[sends.op] != FAIL)
    followed = _between(history, versions, done, moves=np.ones(len(history.ops.mark), np.bool_))
    yield _backwards(followed, "nonmonotonic-send")


def of_polls(history: History, versions: Versions) -> Iterator[Found]:
    """Those of polls, kind by kind."""
    polls = _grouped(history, POLL)
    within = _within(versions, polls)
    kept = ~_rebalanced(history, within.op, within.key)
    yield from _split(within.take(kept), "int-poll-skip", "int-nonmonotonic-poll")
    yield from _split(
        _between(history, versions, polls, moves=history.ops.mark == OK),
        "poll-skip",
        "nonmonotonic-poll",
    )


def _grouped(history: History, kind: int) -> MicroOps:
    """The micro-operations of a kind, those of one operation and key together, in their order."""
    some = history.micro.take(history.micro.kind == kind)
    keys = max(1, len(history.keys))
    group = some.op * keys + some.key
    if bool((group[1:] >= group[:-1]).all()):
        return some
    return some.take(ordered(group, len(history.ops.mark) * keys))


def _split(steps: Found, skips: str, backwards: str) -> Iterator[Found]:
    yield steps.take(steps.delta > 1)._replace(kind=skips)
    yield _backwards(steps, backwards)


def _backwards(steps: Found, kind: str) -> Found:
    return steps.take(steps.delta < 1)._replace(kind=kind)


def _steps(versions: Versions, rows: MicroOps, before: Ints, after: Ints) -> Found:
    """Steps from the value of one row to that of another, those of known places that are not
    followed directly."""
    slot = np.take(versions.slot, rows.thing)
    here, there = np.take(slot, after), np.take(slot, before)
    delta = np.where((here == NOWHERE) | (there == NOWHERE), 1, here - there)
    wrong = np.flatnonzero(delta != 1)
    was, now = rows.take(before[wrong]), rows.take(after[wrong])
    found = Found.of("", key=now.key, value=now.value, op=now.op, other=was.op)
    return found._replace(before=was.value, delta=delta[wrong], offset=now.offset)


def _within(versions: Versions, rows: MicroOps) -> Found:
    """Steps within an operation."""
    together = (rows.op[1:] == rows.op[:-1]) & (rows.key[1:] == rows.key[:-1])
    after = np.flatnonzero(together) + 1
    found = _steps(versions, rows, after - 1, after)
    return found._replace(other=np.full(found.number, ABSENT))


def _rebalanced(history: History, op: Ints, key: Ints) -> Bools:
    """Whether the key was reassigned during the operation."""
    micro, keys = history.micro, len(history.keys)
    dealt = micro.kind == REBALANCED
    found: Bools = np.isin(op * keys + key, micro.op[dealt] * keys + micro.key[dealt])
    return found


class _Events(NamedTuple):
    """What processes did with keys, by process and key and in the order of operations. `row`: of
    the micro-operations the first one, ABSENT for an assignment; `behind`: the last one."""

    op: Ints
    lane: Ints
    row: Ints
    behind: Ints

    def take(self, rows: Ints) -> _Events:
        """Some of them."""
        return _Events._make(column[rows] for column in self)


def _between(history: History, versions: Versions, rows: MicroOps, *, moves: Bools) -> Found:
    """Steps from an operation of a process to its next one on the same key. `moves`: which
    operations take the position along."""
    events, lanes = _events(history, rows)
    events = events.take(ordered(events.lane, lanes))
    first = starts(begins(events.lane))
    assigned = events.row == ABSENT
    place = np.arange(len(events.op))
    moving = np.where(~assigned & moves[events.op], place, ABSENT)
    before = np.empty_like(place)
    before[:1] = ABSENT
    before[1:] = np.maximum.accumulate(moving)[:-1]
    at = np.flatnonzero(~assigned & (before >= first))
    was = before[at]
    if (history.ops.f <= SUBSCRIBE).any():
        resets = _assignments(history)
        listed = np.cumsum(assigned)  # of the lane; differences within one are all that is used
        kept = resets[events.op[at]] - resets[events.op[was]] == listed[at] - listed[was]
        at, was = at[kept], was[kept]
    return _steps(versions, rows, events.behind[was], events.row[at])


def _events(history: History, rows: MicroOps) -> tuple[_Events, int]:
    """The events of micro-operations that are grouped, and of assignments that took effect; and how
    many lanes, a process and a key each, there may be."""
    ops, keys = history.ops, max(1, len(history.keys))
    process, processes = codes_of(ops.process)
    first = np.flatnonzero(begins(rows.op * keys + rows.key))
    last = np.append(first[1:], len(rows.op)) - 1 if len(first) else first
    chosen = history.micro.take(history.micro.kind == ASSIGNED)
    chosen = chosen.take((ops.mark[chosen.op] != FAIL) & (ops.ended[chosen.op] != ABSENT))
    once = np.unique(chosen.op * keys + chosen.key)
    op = np.concatenate([rows.op[first], once // keys])
    key = np.concatenate([rows.key[first], once % keys])
    nothing = np.full(len(once), ABSENT)
    events = _Events(
        op,
        process[op] * keys + key,
        np.concatenate([first, nothing]),
        np.concatenate([last, nothing]),
    )
    if len(once):
        events = events.take(ordered(op, len(ops.mark)))
    return events, processes * keys


def _assignments(history: History) -> Ints:
    """Of each operation, how many assignments of its process took effect up to it."""
    ops = history.ops
    chooses = (ops.f <= SUBSCRIBE) & (ops.mark != FAIL) & (ops.ended != ABSENT)
    order = ordered(*codes_of(ops.process))
    counted = np.empty(len(order), np.int64)
    counted[order] = np.cumsum(chooses[order])
    return counted
