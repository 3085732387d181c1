"""Polls and sends that skip over values of a log or go back in it, within an operation (`int-`) and
from one operation of a process to the next.

The definitions are Jepsen's. Of a value with several places the last one counts; nothing is
concluded about values without a known place. From operation to operation the last value of the one
before is compared with the first of the next. What a failed operation polled, or one of unknown
outcome, is compared, and moves no position. `assign` and `subscribe` keep the positions of the keys
that they name and forget the others. (An operation that polls a key and gets nothing has no
micro-operation, and leaves the position where it is; Jepsen forgets it then.)

How far polls lag behind real time, at most (`jepsen.tests.kafka/realtime-lag`).

The lag of a poll, for each key that its process polls: the time from when the value after the last
one that the process has got was certainly there (an operation had ended that sent or polled it, or
a later one) to when the poll began; 0 where there was none. It is a lower bound. A process that is
assigned a key has got nothing of it at first; one that subscribes polls a key once it gets
something. An assignment keeps the positions of the keys that it names, a subscription none.

The lag grows from poll to poll until the process gets something, so only the last poll before that
is computed.

What readers of read_uncommitted polled: also values of transactions that are open or aborted.

Such a reader may get anything that was sent, but each value once, at the offset that it has for
everybody, in the order of the log, and nothing is to be skipped. So steps of these polls are judged
by the order of all that is known to have been in the log, in which aborted values have places too:
by what anybody polled, by the sends that committed, and by what the second reader found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from checkers.graphs import (
    ABSENT,
    ASSIGN,
    POLLING,
    SUBSCRIBE,
    Edges,
    begins,
    codes_of,
    ordered,
    starts,
)
from checkers.transactional_log import values
from checkers.transactional_log.columns import History, MicroOps
from checkers.transactional_log.cycles import polled
from checkers.transactional_log.values import NOWHERE, Found, Versions, versions_of
from harness.models.micro_ops import (
    ASSIGNED,
    DISCARDED,
    POLL,
    REBALANCED,
    SEND,
    STORED,
    UNCOMMITTED,
)
from harness.protocols import NULL, Bools, Ints
from harness.protocols.runs import FAIL, OK


def anomalies(history: History, versions: Versions) -> Iterator[Found]:
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


class Lag(NamedTuple):
    """The worst lag: of which process, and the number of which key, in a poll that began when."""

    lag_ns: int
    process: int
    key: int
    time_ns: int


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


DIRTY_READ: Final = "dirty-read"

_POLLED: Final = (POLL, UNCOMMITTED)
_THERE: Final = (*_POLLED, STORED, DISCARDED)


def judged(history: History, committed: Bools, known: Iterable[Found]) -> tuple[list[Found], Edges]:
    """All anomalies of these polls, and the edges from who sent a value to who polled it so.
    `committed`: whether each operation has; `known`: the anomalies of the other polls by
    themselves."""
    polls = _as_polls(history, (UNCOMMITTED,))
    became = values.values_of(polls)
    found = list(_moved(history, committed, known))
    found += of_polls(polls, versions_of(_as_polls(history, _THERE), committed))
    found.append(values.aborted_reads(polls, became)._replace(kind=DIRTY_READ))
    return found, polled(polls, became)


def _moved(history: History, committed: Bools, known: Iterable[Found]) -> Iterator[Found]:
    """What polls of both levels show together, and the others by themselves do not."""
    there = {each.kind: each for each in known}
    together = _as_polls(history, _POLLED)
    places = versions_of(together, committed)
    for found in values.misplaced(together, values.values_of(together), places):
        yield found.take(~_among(found, there[found.kind]))


def _as_polls(history: History, kinds: tuple[int, ...]) -> History:
    """The history with micro-operations of these kinds as its only polls."""
    micro = history.micro
    chosen = np.isin(micro.kind, kinds)
    micro = micro._replace(kind=np.where(chosen, POLL, micro.kind)).take(
        chosen | (micro.kind != POLL)
    )
    return history._replace(micro=micro)


def _among(found: Found, known: Found) -> Bools:
    """Which of them are known: the same offset of a key, or the same value."""
    which = "offset" if found.kind == "inconsistent-offsets" else "value"
    here, there = getattr(found, which), getattr(known, which)
    keys = codes_of(np.concatenate([found.key, known.key])).codes
    codes = codes_of(np.concatenate([here, there]), keys).codes
    among: Bools = np.isin(codes[: len(here)], codes[len(here) :])
    return among
