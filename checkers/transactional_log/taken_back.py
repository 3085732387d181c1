"""Values that readers were given, and that the log does not hold in the end.

A value counts as seen once any poll has returned it, so by Jepsen's definition what is lost after
that is not a `lost-write`. Our runs end with reads of all logs by two readers, and neither is to
miss a value that had been polled:

    lost-after-poll  an acknowledged value that a poll returned, and both readers miss
    phantom          the same of a value that was not acknowledged, at either level of isolation;
                     one that the log has as aborted only where a poll had returned it as committed.
                     (A failed value that was polled as committed is a G1a, and no phantom)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checkers.transactional_log.columns import ABSENT, History
from checkers.transactional_log.found import Found
from checkers.transactional_log.second_reader import ABORTED
from checkers.transactional_log.second_reader import ABSENT as NOT_THERE
from checkers.transactional_log.values import Values, of_things
from harness.models.micro_ops import POLL, UNCOMMITTED
from harness.protocols import Bools, Ints
from harness.protocols.runs import FAIL, OK


def anomalies(history: History, values: Values, states: Ints) -> Iterator[Found]:
    """Both kinds. `states`: what the second reader says of each thing."""
    if not len(history.final.ended) or not len(history.final.whole):
        return
    mark = np.where(values.writer == ABSENT, FAIL, history.ops.mark[values.writer])
    committed, uncommitted = _reader(history, POLL), _reader(history, UNCOMMITTED)
    gone = _read_by_both(history) & (values.writer != ABSENT)
    missed = (committed != ABSENT) & ((states == NOT_THERE) | (states == ABORTED))
    lost, back = missed & values.ok_read, missed & (mark != FAIL)
    back |= (committed == ABSENT) & (uncommitted != ABSENT) & (states == NOT_THERE)
    readers = values._replace(reader=np.where(committed == ABSENT, uncommitted, committed))
    for kind, which in {
        "lost-after-poll": lost & (mark == OK),
        "phantom": back & (mark != OK),
    }.items():
        yield of_things(kind, history, readers, np.flatnonzero(gone & which))


def _reader(history: History, kind: int) -> Ints:
    """Of each thing, the first operation that polled it before the final reads, ABSENT if none
    did."""
    micro = history.micro
    polls = np.flatnonzero((micro.kind == kind) & ~history.is_final[micro.op])[::-1]
    reader = np.full(history.things, ABSENT)
    reader[micro.thing[polls]] = micro.op[polls]
    return reader


def _read_by_both(history: History) -> Bools:
    """Things of logs that both readers have read to their ends, and that the first one misses."""
    micro = history.micro
    found: Bools = np.isin(history.keys[history.key_of], history.final.both)
    found[micro.thing[(micro.kind == POLL) & history.is_final[micro.op]]] = False
    return found
