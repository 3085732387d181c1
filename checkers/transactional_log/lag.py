"""How far polls lag behind real time, at most (`jepsen.tests.kafka/realtime-lag`).

The lag of a poll, for each key that its process polls: the time from when the value after the last
one that the process has got was certainly there (an operation had ended that sent or polled it, or
a later one) to when the poll began; 0 where there was none. It is a lower bound. A process that is
assigned a key has got nothing of it at first; one that subscribes polls a key once it gets
something. An assignment keeps the positions of the keys that it names, a subscription none.

The lag grows from poll to poll until the process gets something, so only the last poll before that
is computed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from checkers.transactional_log.columns import ABSENT, ASSIGN, POLLING, SUBSCRIBE, History
from checkers.transactional_log.grouping import begins, codes_of, ordered, starts
from harness.models.micro_ops import ASSIGNED, POLL, SEND
from harness.protocols import NULL, Ints
from harness.protocols.runs import FAIL, OK


class Lag(NamedTuple):
    """The worst lag: of which process, and the number of which key, in a poll that began when."""

    lag_ns: int
    process: int
    key: int
    time_ns: int


def worst(one: Lag | None, other: Lag | None) -> Lag | None:
    """The worse of two."""
    known = [each for each in (one, other) if each is not None]
    return max(known, key=lambda each: each.lag_ns, default=None)


class _Reached(NamedTuple):
    """The furthest offset of each key in each operation, by its rank among all offsets; grouped by
    operation."""

    op: Ints
    key: Ints
    rank: Ints


class _Spans(NamedTuple):
    """From an operation to before another, a process has got a key up to a rank (-1: nothing)."""

    process: Ints
    key: Ints
    begin: Ints
    end: Ints
    rank: Ints


def worst_lag(history: History) -> Lag | None:
    """The worst lag of all; `None` where nothing was polled."""
    reached = _reached(history)
    spans = _spans(history, reached)
    polls = _last_polls(history, spans)
    polled = np.flatnonzero(polls != ABSENT)
    if not len(polled):
        return None
    poll, key = polls[polled], spans.key[polled]
    began_ns = history.ops.begun_ns[poll]
    gone_ns = _gone_ns(history, reached, key, spans.rank[polled])
    known = (gone_ns != NULL) & (began_ns != NULL)
    lag_ns = np.where(known, np.maximum(began_ns - np.where(known, gone_ns, 0), 0), 0)
    at = int(lag_ns.argmax())
    return Lag(
        int(lag_ns[at]),
        int(history.ops.process[poll[at]]),
        int(history.keys[key[at]]),
        int(began_ns[at]),
    )


def _reached(history: History) -> _Reached:
    micro, keys = history.micro, max(1, len(history.keys))
    moved = ((micro.kind == SEND) | (micro.kind == POLL)) & (micro.offset != NULL)
    rows = np.flatnonzero(moved & (history.ops.mark[micro.op] != FAIL))
    rank = codes_of(np.take(micro.offset, rows)).codes
    group = np.take(micro.op, rows) * keys + np.take(micro.key, rows)
    order = ordered(group, len(history.ops.mark) * keys)
    group, rank = group[order], rank[order]
    first = np.flatnonzero(begins(group))
    furthest = np.maximum.reduceat(rank, first) if len(first) else rank
    return _Reached(group[first] // keys, group[first] % keys, furthest)


def _gone_ns(history: History, reached: _Reached, key: Ints, rank: Ints) -> Ints:
    """When each rank of a key was certainly not the last any more; NULL where it may be still."""
    order = ordered(reached.key, len(history.keys))
    beyond = int(reached.rank.max(initial=0)) + 2
    ranks = np.maximum.accumulate(reached.key[order] * beyond + reached.rank[order])
    at = np.searchsorted(ranks, key * beyond + rank, side="right")
    inside = at < len(ranks)
    inside[inside] = reached.key[order[at[inside]]] == key[inside]
    gone_ns = np.full(len(key), NULL)
    gone_ns[inside] = history.ops.ended_ns[reached.op[order[at[inside]]]]
    return gone_ns


def _spans(history: History, reached: _Reached) -> _Spans:
    ops, keys = history.ops, max(1, len(history.keys))
    process, processes = codes_of(ops.process)
    polled = (ops.mark[reached.op] == OK) & (ops.f[reached.op] == POLLING)
    chosen = history.micro.take(history.micro.kind == ASSIGNED)
    chosen = chosen.take((ops.mark[chosen.op] == OK) & (ops.f[chosen.op] == ASSIGN))
    once = np.unique(chosen.op * keys + chosen.key)
    op = np.concatenate([reached.op[polled], once // keys])
    key = np.concatenate([reached.key[polled], once % keys])
    rank = np.concatenate([reached.rank[polled], np.full(len(once), -1)])
    order = ordered(op, len(ops.mark))
    order = order[ordered((process[op] * keys + key)[order], processes * keys)]
    op, key, rank = op[order], key[order], rank[order]
    lane = process[op] * keys + key
    end = _next_choice(history, process, processes, op)
    follows = np.append(lane[1:] == lane[:-1], False) if len(lane) else np.zeros(0, np.bool_)
    after = np.append(op[1:], 0)[: len(op)]
    fresh = begins(lane)
    # A choice between two events of a lane does not name its key; one that is the next event does.
    fresh[1:] |= end[:-1] < op[1:]
    beyond = int(rank.max(initial=0)) + 2
    segment = np.cumsum(fresh)
    furthest = np.maximum.accumulate(segment * beyond + rank + 1) - segment * beyond - 1
    return _Spans(process[op], key, op, np.where(follows, np.minimum(after, end), end), furthest)


def _next_choice(history: History, process: Ints, processes: int, op: Ints) -> Ints:
    """Of each operation, the next of its process that is ok and assigns or subscribes; else a
    number beyond all operations."""
    ops = history.ops
    number = len(ops.mark)
    chose = np.flatnonzero((ops.f <= SUBSCRIBE) & (ops.mark == OK))
    chose = chose[ordered(process[chose], processes)]
    found = np.full(len(op), number)
    if not len(chose):
        return found
    codes = process[chose] * number + chose
    at = np.searchsorted(codes, process[op] * number + op, side="right")
    inside = at < len(codes)
    inside[inside] = process[chose[at[inside]]] == process[op[inside]]
    found[inside] = chose[at[inside]]
    return found


def _last_polls(history: History, spans: _Spans) -> Ints:
    """The last ok poll within each span, ABSENT if there is none."""
    ops = history.ops
    process, processes = codes_of(ops.process)
    order = ordered(process, processes)
    polled = np.where((ops.mark == OK) & (ops.f == POLLING), np.arange(len(process)), ABSENT)[order]
    first = starts(begins(process[order]))
    latest = np.maximum.accumulate(np.where(polled == ABSENT, ABSENT, np.arange(len(order))))
    latest = np.where(latest >= first, polled[latest], ABSENT)
    before = np.full(len(order) + 1, ABSENT)
    before[order[1:]] = np.where(first[1:] < np.arange(1, len(order)), latest[:-1], ABSENT)
    at_last = np.full(processes, ABSENT)
    at_last[process[order]] = latest
    found = np.where(spans.end == len(order), at_last[spans.process], before[spans.end])
    return np.where(found >= spans.begin, found, ABSENT)
