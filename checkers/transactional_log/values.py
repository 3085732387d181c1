"""The outcome of the values that were sent: lost, unseen, duplicated, read though aborted ...

The definitions are Jepsen's (`jepsen.tests.kafka`); where they differ, the function says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from checkers.transactional_log.columns import ABSENT, History
from checkers.transactional_log.found import Found
from checkers.transactional_log.second_reader import ABORTED, confirmed, missing
from checkers.transactional_log.shown import Shown
from checkers.transactional_log.versions import NOWHERE, Versions
from harness.models.micro_ops import POLL, SEND
from harness.protocols import Bools, Ints
from harness.protocols.runs import FAIL, OK


class Values(NamedTuple):
    """Of each thing: the operation that sent it and the first that polled it, ABSENT if there is
    none, and whether an ok operation polled it."""

    writer: Ints
    reader: Ints
    ok_read: Bools


def values_of(history: History) -> Values:
    """Who sent and who polled each thing."""
    micro = history.micro
    writer = np.full(history.things, ABSENT)
    sends = np.flatnonzero(micro.kind == SEND)
    writer[micro.thing[sends]] = micro.op[sends]
    polls = np.flatnonzero(micro.kind == POLL)
    reader = np.full(history.things, ABSENT)
    reader[micro.thing[polls[::-1]]] = micro.op[polls[::-1]]
    ok_read = np.zeros(history.things, np.bool_)
    ok = np.take(history.ops.mark, np.take(micro.op, polls)) == OK
    ok_read[np.take(micro.thing, np.compress(ok, polls))] = True
    return Values(writer, reader, ok_read)


def anomalies(
    history: History, values: Values, versions: Versions, shown: Shown, states: Ints, *, ours: bool
) -> Iterator[Found]:
    """All anomalies of values, kind by kind. `states`: what the second reader says of each thing;
    `ours`: a loss counts where that reader misses the thing too."""
    backed = confirmed(history, states, ours=ours)
    lost = lost_writes(history, values, versions, shown.committed)
    yield of_things("lost-write", history, values, lost)._replace(backed=backed[lost])
    acknowledged = _by(history, values.writer, OK)
    unseen = np.flatnonzero(acknowledged & ~values.ok_read)
    yield of_things("unseen", history, values, unseen)._replace(backed=backed[unseen])
    yield from misplaced(history, values, versions)
    yield aborted_reads(history, values, any_outcome=ours)
    yield precommitted_reads(history, values)
    lost = np.union1d(lost, _gone(history, values, versions, shown.committed, states))
    yield torn(history, values, lost, shown.by, backed)
    yield zombie_commits(history, values)


def misplaced(history: History, values: Values, versions: Versions) -> Iterator[Found]:
    """Values at several offsets, offsets with several values, and values that nobody sent."""
    yield of_things("duplicate", history, values, versions.duplicated)
    crowded = np.isin(versions.pairs[:, 0], versions.crowded)
    once = np.unique(versions.pairs[crowded, 0], return_index=True)[1]
    things = versions.pairs[crowded][once, 1]
    found = of_things("inconsistent-offsets", history, values, things)
    yield found._replace(offset=versions.offset[versions.pairs[crowded][once, 0]])
    polled = (values.writer == ABSENT) & (values.reader != ABSENT)
    yield of_things("unexpected", history, values, np.flatnonzero(polled))


def _by(history: History, writer: Ints, mark: int) -> Bools:
    """Whether each thing was sent by an operation of this outcome."""
    by: Bools = (writer != ABSENT) & (history.ops.mark[writer] == mark)
    return by


def of_things(kind: str, history: History, values: Values, things: Ints) -> Found:
    """Rows of a kind, one for each of some things: who sent it and who polled it first."""
    return Found.of(
        kind,
        key=history.key_of[things],
        value=history.value_of[things],
        op=values.writer[things],
        other=values.reader[things],
    )


def lost_writes(history: History, values: Values, versions: Versions, committed: Bools) -> Ints:
    """Things that certainly committed and that no ok operation polled, though polls have gone past
    them: the last place at which they stand is at or before the furthest first place of a thing
    that an ok operation polled.

    Beyond Jepsen: a send that was acknowledged without an offset is lost as well where a send to
    the same key, begun after it was acknowledged, stands at or before that furthest place.
    """
    first, keys = versions.first, history.key_of
    bound = np.full(len(history.keys), NOWHERE)
    polled = np.flatnonzero(values.ok_read & (first != NOWHERE))
    np.maximum.at(bound, keys[polled], first[polled])
    unread = (values.writer != ABSENT) & ~values.ok_read & committed[values.writer]
    passed = (versions.last != NOWHERE) & (versions.last <= bound[keys])
    latest = np.full(len(history.keys), ABSENT)
    known = np.flatnonzero((first != NOWHERE) & (first <= bound[keys]) & (values.writer != ABSENT))
    np.maximum.at(latest, keys[known], history.ops.begun[values.writer[known]])
    acknowledged = _by(history, values.writer, OK)
    before = acknowledged & (history.ops.ended[values.writer] < latest[keys])
    return np.flatnonzero(unread & (passed | ((versions.last == NOWHERE) & before)))


def aborted_reads(history: History, values: Values, *, any_outcome: bool = False) -> Found:
    """G1a: records that an ok operation polled though the operation that sent them failed.

    Beyond Jepsen: by an operation of `any_outcome`, as a client of our own reports what it polled
    whether its transaction commits or not."""
    micro = history.micro
    failed = _by(history, values.writer, FAIL)
    polls = np.flatnonzero(micro.kind == POLL)
    by_ok = history.ops.mark[micro.op[polls]] == OK
    polls = polls[failed[micro.thing[polls]] & (by_ok | any_outcome)]
    things = micro.thing[polls]
    return of_things("G1a", history, values, things)._replace(other=micro.op[polls])


def precommitted_reads(history: History, values: Values) -> Found:
    """Values that were polled by the operation that sent them."""
    micro = history.micro
    polls = np.flatnonzero(micro.kind == POLL)
    own = polls[values.writer[micro.thing[polls]] == micro.op[polls]]
    return of_things("precommitted-read", history, values, micro.thing[own])


def _gone(
    history: History, values: Values, versions: Versions, committed: Bools, states: Ints
) -> Ints:
    """Things that committed and that no final read has found, of logs that both readers have read
    to their ends, though they had been sent: they were acknowledged, at an offset, or aborted."""
    sent = _by(history, values.writer, OK) | (versions.last != NOWHERE) | (states == ABORTED)
    unread = (values.writer != ABSENT) & ~values.ok_read & committed[values.writer]
    return np.flatnonzero(sent & unread & missing(history, states))


def torn(history: History, values: Values, lost: Ints, by: Ints, backed: Bools) -> Found:
    """Values that are lost of transactions of which a part is visible: an ok operation polled some
    of what they sent; `other`: who polled it."""
    part = lost[by[values.writer[lost]] != ABSENT]
    found = of_things("torn-transaction", history, values, part)
    return found._replace(other=by[found.op], backed=backed[part])


def zombie_commits(history: History, values: Values) -> Found:
    """Values of transactions whose commit was acknowledged though another instance of their
    producer had taken over before it was requested. One that was not acknowledged has failed, and
    is a G1a where it was polled."""
    taken_over = np.zeros(len(history.ops.mark), np.bool_)
    taken_over[history.fenced] = True
    things = np.flatnonzero(_by(history, values.writer, OK) & taken_over[values.writer])
    return of_things("zombie-commit", history, values, things)
