"""Transactions that consume from one log and produce to another: is each input consumed once?

A process that has subscribed gets logs distributed and commits how far it has consumed with what it
sends, so in a transaction the two stand or fall together. All processes that subscribe are one
group. Inputs are what such an operation polled, where it also sent something.

    output-without-offsets  two operations that committed polled the same input: the output of the
                            first stands, and how far it had consumed does not
    offsets-without-output  no operation of the group that may have committed polled the input, and
                            the group has gone past it: one that committed polled a later value of
                            its log. Either an operation that failed polled the input, or it
                            committed, a reader has polled it, and it is behind the first input of
                            its log that the group consumed (in a run of our own, anywhere: its
                            groups begin where the log begins)

An operation that polled an input and sent nothing has consumed it, unless it failed: a group may
filter. Where an operation of unknown outcome does not report what it polled, it may have consumed
whatever had been sent before it ended, and was not passed before it began.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from checkers.transactional_log.columns import ABSENT, POLLING, SUBSCRIBE, History, MicroOps
from checkers.transactional_log.found import Found
from checkers.transactional_log.grouping import codes_of, ordered, starts
from checkers.transactional_log.second_reader import missing, states_of
from checkers.transactional_log.shown import Shown
from checkers.transactional_log.values import Values
from checkers.transactional_log.versions import NOWHERE, Versions
from harness.models.micro_ops import POLL, SEND
from harness.protocols import Bools, Ints
from harness.protocols.runs import FAIL, INFO


class Group(NamedTuple):
    """Operations of a complete history whose process had subscribed. `consuming`: sent something;
    `maybe`: may have committed; `silent`: of those, the ones of which nobody knows what they
    polled. `from_start`: the group begins where its logs begin."""

    consuming: Bools
    maybe: Bools
    silent: Bools
    from_start: bool


def group_of(history: History, shown: Shown, *, ours: bool) -> Group:
    """The group of a complete history; `ours`: it is that of a run of our own."""
    ops, micro = history.ops, history.micro
    member, sent, polled = (
        _members(history),
        *(_doing(history, micro.op[micro.kind == kind]) for kind in (SEND, POLL)),
    )
    maybe = member & (ops.mark != FAIL)
    if ours and maybe.any():
        maybe &= ~_undone(history, shown, sent)
    silent = maybe & (ops.mark == INFO) & (ops.f == POLLING) & ~polled
    return Group(sent & member, maybe, silent, from_start=ours)


def _doing(history: History, ops: Ints) -> Bools:
    done = np.zeros(len(history.ops.mark), np.bool_)
    done[ops] = True
    return done


def _undone(history: History, shown: Shown, sent: Bools) -> Bools:
    """Operations of unknown outcome that did not commit: two readers have found nothing of what
    they sent to be committed."""
    micro = history.micro
    sends = micro.take(micro.kind == SEND)
    there = _doing(history, sends.op[~missing(history, states_of(history))[sends.thing]])
    undone: Bools = sent & ~there & ~shown.committed & (history.ops.mark == INFO)
    return undone


def _members(history: History) -> Bools:
    """Operations of processes whose last assignment was a subscription."""
    ops = history.ops
    if not (ops.f == SUBSCRIBE).any():
        return np.zeros(len(ops.mark), np.bool_)
    process = codes_of(ops.process)
    order = ordered(*process)
    lane = process.codes[order]
    chose = np.where(
        (ops.f[order] <= SUBSCRIBE) & (ops.mark[order] != FAIL), np.arange(len(order)), -1
    )
    last = np.maximum.accumulate(chose)
    first = starts(np.append(True, lane[1:] != lane[:-1]))
    subscribed = np.zeros(len(order), np.bool_)
    subscribed[order] = (last >= first) & (ops.f[order][last] == SUBSCRIBE)
    return subscribed


def consumed(history: History, shown: Shown, group: Group) -> MicroOps:
    """The inputs that operations consumed which committed."""
    micro = history.micro
    return micro.take((micro.kind == POLL) & (group.consuming & shown.committed)[micro.op])


def anomalies(
    history: History, versions: Versions, became: Values, shown: Shown, group: Group
) -> Iterator[Found]:
    """Both kinds."""
    if group.consuming.any():
        done = consumed(history, shown, group)
        yield _twice(history, done)
        yield _passed(history, versions, became, group, done, _there(became, shown))


def _there(became: Values, shown: Shown) -> Bools:
    """Things that committed and that an ok operation polled."""
    there: Bools = became.ok_read & (became.writer != ABSENT) & shown.committed[became.writer]
    return there


def _twice(history: History, done: MicroOps) -> Found:
    """One row for each time but the first that an input was consumed."""
    ops = max(1, len(history.ops.mark))
    once = np.unique(done.thing * ops + done.op)
    thing, op = once // ops, once % ops
    again = np.flatnonzero(np.diff(thing) == 0) + 1
    return Found.of(
        "output-without-offsets",
        key=history.key_of[thing[again]],
        value=history.value_of[thing[again]],
        op=op[again],
        other=op[again - 1],
    )


def _passed(
    history: History, versions: Versions, became: Values, group: Group, done: MicroOps, there: Bools
) -> Found:
    """One row for each input; `op`: the last that polled it, or who sent it; `other`: the first
    that went past it."""
    polls = history.micro.take(history.micro.kind == POLL)
    inputs = polls.take(group.consuming[polls.op])
    tried = np.full(history.things, ABSENT)
    tried[inputs.thing] = inputs.op
    maybe = np.zeros(history.things, np.bool_)
    maybe[polls.thing[group.maybe[polls.op]]] = True
    first = np.full(len(history.keys), NOWHERE if group.from_start else len(versions.offset))
    np.minimum.at(first, done.key, versions.first[done.thing])
    place = versions.last
    inside = (tried != ABSENT) | (there & (place > first[history.key_of]))
    things = np.flatnonzero(inside & ~maybe & (place != NOWHERE))
    by = _passing(history, versions, done)[place[things]]
    passed = (by != ABSENT) & ~_perhaps(history, group, became.writer[things], by)
    things = things[passed]
    return Found.of(
        "offsets-without-output",
        key=history.key_of[things],
        value=history.value_of[things],
        op=np.where(tried == ABSENT, became.writer, tried)[things],
        other=by[passed],
    )


def _passing(history: History, versions: Versions, done: MicroOps) -> Ints:
    """Of each slot, the first operation that consumed something behind it in its log, ABSENT if
    none did."""
    slots, nobody = len(versions.offset), len(history.ops.mark)
    known = done.take(versions.last[done.thing] != NOWHERE)
    by = np.full(slots, nobody)
    np.minimum.at(by, versions.last[known.thing], known.op)
    key = np.searchsorted(versions.begins, np.arange(slots), side="right") - 1
    by += key * (nobody + 1)  # so that no minimum goes from one log into another
    by = np.minimum.accumulate(by[::-1])[::-1] % (nobody + 1)
    passing = np.full(slots, ABSENT)
    passing[:-1] = np.where((key[1:] == key[:-1]) & (by[1:] < nobody), by[1:], ABSENT)
    return passing


def _perhaps(history: History, group: Group, writer: Ints, by: Ints) -> Bools:
    """Whether an operation that does not report what it polled may have consumed each of some
    values, from who sent it and who went past it."""
    ops, silent = history.ops, np.flatnonzero(group.silent)
    silent = silent[np.argsort(ops.begun[silent], kind="stable")]
    ended = ops.ended[silent]
    never = int(max(ops.begun.max(initial=0), ops.ended.max(initial=0))) + 1
    latest = np.maximum.accumulate(np.where(ended == ABSENT, never, ended))
    before = np.searchsorted(ops.begun[silent], ops.ended[by])
    sent = np.where(writer == ABSENT, ABSENT, ops.begun[writer])
    perhaps: Bools = np.append(ABSENT, latest)[before] > sent
    return perhaps
