"""Transactions that consume from one log and produce to another: is each input consumed once?

A process that has subscribed gets logs distributed and commits how far it has consumed with what it
sends, so in a transaction the two stand or fall together. All processes that subscribe are one
group. Inputs are what such an operation polled, where it also sent something.

    output-without-offsets  two operations that committed polled the same input: the output of the
                            first stands, and how far it had consumed does not
    offsets-without-output  every operation that polled the input failed, and the group has gone
                            past it: one that committed polled a later value of its log
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checkers.transactional_log.columns import ABSENT, SUBSCRIBE, History, MicroOps
from checkers.transactional_log.found import Found
from checkers.transactional_log.grouping import codes_of, ordered, starts
from checkers.transactional_log.shown import Shown
from checkers.transactional_log.versions import NOWHERE, Versions
from harness.models.micro_ops import POLL, SEND
from harness.protocols import Bools, Ints
from harness.protocols.runs import FAIL


def consumers(history: History) -> Bools:
    """Which operations of a complete history consume for a group and produce: sent something, while
    the last assignment of their process was a subscription."""
    ops, micro = history.ops, history.micro
    if not (ops.f == SUBSCRIBE).any():
        return np.zeros(len(ops.mark), np.bool_)
    sent = np.zeros(len(ops.mark), np.bool_)
    sent[micro.op[micro.kind == SEND]] = True
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
    return sent & subscribed


def anomalies(
    history: History, versions: Versions, shown: Shown, consuming: Bools
) -> Iterator[Found]:
    """Both kinds. `consuming`: the operations that `consumers` says."""
    if not consuming.any():
        return
    micro = history.micro
    inputs = micro.take((micro.kind == POLL) & consuming[micro.op])
    done = inputs.take(shown.committed[inputs.op])
    yield _twice(history, done)
    yield _passed(history, versions, inputs, done)


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


def _passed(history: History, versions: Versions, inputs: MicroOps, done: MicroOps) -> Found:
    furthest = np.full(len(history.keys), NOWHERE)
    np.maximum.at(furthest, done.key, versions.last[done.thing])
    tried = np.full(history.things, ABSENT)
    tried[inputs.thing] = inputs.op
    maybe = np.zeros(history.things, np.bool_)
    maybe[inputs.thing[history.ops.mark[inputs.op] != FAIL]] = True
    place: Ints = versions.last
    lost = (tried != ABSENT) & ~maybe & (place != NOWHERE) & (place < furthest[history.key_of])
    things = np.flatnonzero(lost)
    return Found.of(
        "offsets-without-output",
        key=history.key_of[things],
        value=history.value_of[things],
        op=tried[things],
    )
