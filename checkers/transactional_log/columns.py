"""A history of transactions on logs as numpy columns: its operations, and what each of them did.

Two sources fill them, by way of the rows of a run (`harness.protocols.Operations`):

    histories from outside  JSON lines or EDN of Jepsen's workload
    runs of our own         the same Parquet: `f`, `process`, `type`, `time_ns` as ever, and the
                            micro-operations of a row in `elements`, four integers each
                            (`harness.models.micro_ops`): an invocation has what the workload wants
                            done, a completion the `result` of the client. Runs of earlier versions
                            have none in invocations

Operations stand in the order in which they completed, those that never did at the end; `place` is
that of their completion (or invocation) in the history.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from checkers.graphs import (
    ABSENT,
    Codes,
    Ops,
    Rows,
    any_of,
    codes_of,
    elements_in,
    ops_of,
    paired,
    places,
    taken,
)
from harness.errors import HistoryError
from harness.models.micro_ops import (
    ASSIGNED,
    DISCARDED,
    END,
    FENCE,
    REBALANCED,
    SEND,
    STORED,
    UNCOMMITTED,
    WHOLE,
    WIDTH,
)
from harness.protocols import NULL, Ints, Operations
from harness.protocols.runs import OK, Bools


class MicroOps(NamedTuple):
    """One row a micro-operation, in the order of `op`, its operation's row. `key` is a place in
    `History.keys`; `thing` numbers the pairs of key and value that were sent, polled or found by
    the second reader."""

    op: Ints
    kind: Ints
    key: Ints
    offset: Ints
    value: Ints
    thing: Ints

    def take(self, rows: Ints | Bools) -> MicroOps:
        chosen = places(rows)
        return self if chosen is None else MicroOps._make(taken(self, chosen))


class Log(NamedTuple):
    """One row a record that a second reader found, by the number of its key."""

    key: Ints
    offset: Ints
    value: Ints
    committed: Bools


class FinalReads(NamedTuple):
    """What ok operations read to the ends: the numbers of the keys that a poll did (`ended`, the
    operations `reading`), those that a second reader did (`whole`), and what that one found."""

    ended: Ints
    reading: Ints
    whole: Ints
    log: Log

    @property
    def both(self) -> Ints:
        """The keys that both have read to their ends."""
        return np.intersect1d(self.ended, self.whole)


class History(NamedTuple):
    """Operations and micro-operations, and the numbers of the keys. `things`: how many pairs of key
    and value there are; `key_of`, `value_of`: of each. `fenced`: the operations whose producer was
    taken over by another instance before they requested their commit. `uncommitted`: whether any
    poll was to be one of read_uncommitted."""

    ops: Ops
    micro: MicroOps
    keys: Ints
    key_of: Ints
    value_of: Ints
    final: FinalReads
    fenced: Ints
    uncommitted: bool

    @property
    def is_final(self) -> Bools:
        """Whether each operation is a final read by polls."""
        return any_of(self.final.reading, len(self.ops.mark))

    @property
    def things(self) -> int:
        """How many pairs of key and value were sent, polled or found by the second reader."""
        return len(self.key_of)


def history_of(parts: Iterable[Operations], *, file: str) -> History:
    """The columns of a run's rows. Raises HistoryError for a value that is sent twice to one key,
    and for incomplete micro-operations."""
    rows = Rows.of(list(parts))
    began, ended = paired(rows)
    ops = ops_of(rows, began, ended)
    op, four = _micro_ops(rows, ops, file)
    kind, key = four[:, 0], four[:, 1]
    done = (kind <= REBALANCED) | ((kind == UNCOMMITTED) & (key != NULL))
    done |= ((kind == STORED) | (kind == DISCARDED)) & (ops.mark[op] == OK)
    history = _numbered(
        ops,
        op[done],
        four[done],
        _final_reads(ops, op, four),
        np.unique(op[(kind == FENCE) & (ops.ended[op] != ABSENT)]),
        uncommitted=bool((kind == UNCOMMITTED).any()),
    )
    _refuse_repeats(history, file)
    return history


def _micro_ops(rows: Rows, ops: Ops, file: str) -> tuple[Ints, Ints]:
    """The operation and the four integers of each micro-operation: those of the completion, or else
    of the invocation. A completion that is not ok may lack a send that was begun and never
    answered: that one is of the invocation too."""
    began, ended = ops.begun, ops.ended
    nothing = (ended == ABSENT) | (rows.stop[ended] == rows.start[ended])
    op, four = elements_in(rows, np.where(nothing, began, ended), file)
    partial = ~nothing & (ops.mark != OK)
    also, wanted = elements_in(rows, np.where(partial, began, ABSENT), file)
    also, wanted = also[wanted[:, 0] == SEND], wanted[wanted[:, 0] == SEND]
    done = four[:, 0] == SEND
    of, key, value = (
        np.concatenate(pair)
        for pair in ((op[done], also), (four[done, 1], wanted[:, 1]), (four[done, 3], wanted[:, 3]))
    )
    sends = codes_of(value, codes_of(key, of).codes).codes
    unanswered = ~np.isin(sends[len(sends) - len(also) :], sends[: len(sends) - len(also)])
    op, four = np.r_[op, also[unanswered]], np.r_[four, wanted[unanswered]]
    order = np.argsort(op, kind="stable")
    return op[order], four[order]


def _final_reads(ops: Ops, op: Ints, four: Ints) -> FinalReads:
    ok = ops.mark[op] == OK
    kind, key, offset, value = four.T
    log = ok & ((kind == STORED) | (kind == DISCARDED))
    return FinalReads(
        ended=np.unique(key[ok & (kind == END)]),
        reading=np.unique(op[ok & (kind == END)]),
        whole=np.unique(key[ok & (kind == WHOLE)]),
        log=Log(key[log], offset[log], value[log], kind[log] == STORED),
    )


def _numbered(
    ops: Ops, op: Ints, four: Ints, final: FinalReads, fenced: Ints, *, uncommitted: bool
) -> History:
    kind, key, offset, value = (np.ascontiguousarray(four[:, n]) for n in range(WIDTH))
    keys = codes_of(key)
    moves = np.flatnonzero((kind != ASSIGNED) & (kind != REBALANCED))  # the others have a value
    pairs = _pairs(value[moves], keys.codes[moves])
    thing = np.full(len(op), ABSENT)
    thing[moves] = pairs.codes
    one = np.zeros(pairs.number, np.int64)
    one[pairs.codes] = moves
    micro = MicroOps(op, kind, keys.codes, offset, value, thing)
    names = keys.firsts(key)
    return History(ops, micro, names, keys.codes[one], value[one], final, fenced, uncommitted)


def _pairs(value: Ints, key: Ints) -> Codes:
    """Numbers of pairs; of values alone, which is less work, where each has one key."""
    alone = codes_of(value)
    if bool((alone.firsts(key)[alone.codes] == key).all()):
        return alone
    return codes_of(value, key)


def _refuse_repeats(history: History, file: str) -> None:
    """Raise HistoryError for a value that is sent to one key twice: nothing would show which of the
    two a poll returns."""
    micro = history.micro
    times = np.bincount(micro.thing[micro.kind == SEND], minlength=history.things)
    if (times > 1).any():
        thing = int(np.argmax(times > 1))
        again = micro.op[np.flatnonzero((micro.thing == thing) & (micro.kind == SEND))[1]]
        raise HistoryError(
            f"a value is sent to one key twice: the second time in operation "
            f"{history.ops.place[again]}",
            file=file,
            key="value",
            hint="give every send to a key its own value",
        )
