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

Numbering and grouping of integers: by a table where they lie close together, else by sorting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from harness.errors import HistoryError
from harness.models.micro_ops import (
    ASSIGNED,
    DISCARDED,
    END,
    FENCE,
    REBALANCED,
    SEND,
    STORED,
    TEXT,
    UNCOMMITTED,
    WHOLE,
    WIDTH,
)
from harness.protocols import NULL, Ints, Operations
from harness.protocols.runs import INFO, INVOKED, OK, Bits, Bools

_SPREAD: Final = 16
"""A table is made where it has at most so many places an integer."""
_ROOM: Final = 1 << 16


class Codes(NamedTuple):
    """`codes`: of each row, the place of its value among the distinct ones, in order; `number`: how
    many those are."""

    codes: Ints
    number: int

    def firsts(self, values: Ints) -> Ints:
        """The distinct values, in order."""
        found = np.zeros(self.number, np.int64)
        found[self.codes] = values
        return found


def codes_of(values: Ints, major: Ints | None = None) -> Codes:
    """The codes of values, ordered by `major` (small codes) first where it is given."""
    if not len(values):
        return Codes(np.zeros(0, np.int64), 0)
    low, high = int(values.min()), int(values.max())
    width, majors = high - low + 1, 1 if major is None else int(major.max()) + 1
    if width * majors >= 2**62:
        distinct, inner = np.unique(values, return_inverse=True)
        if major is None:
            return Codes(inner, len(distinct))
        one, width = inner + major * len(distinct), len(distinct)
    else:
        one = values - low if major is None else (values - low) + major * width
    if width * majors <= _SPREAD * len(values) + _ROOM:
        there = np.zeros(width * majors, np.bool_)
        there[one] = True
        place = np.cumsum(there, dtype=np.int32)
        return Codes(place[one].astype(np.int64) - 1, int(place[-1]))
    distinct, codes = np.unique(one, return_inverse=True)
    return Codes(codes, len(distinct))


def places(rows: Ints | Bools) -> Ints | None:
    """The places of the chosen rows; `None`: all are chosen."""
    if rows.dtype == np.bool_:
        return None if rows.all() else np.flatnonzero(rows)
    return rows.astype(np.int64, copy=False)


def taken(columns: Iterable[Ints], rows: Ints) -> Iterator[Ints]:
    """These rows of columns."""
    return (np.take(column, rows) for column in columns)


def ordered(codes: Ints, number: int) -> Ints:
    """The rows in the order of their codes, stable; codes that fit in 16 bits take one pass."""
    if len(codes) < 2 or bool((codes[1:] >= codes[:-1]).all()):
        return np.arange(len(codes))
    return np.argsort(codes.astype(np.uint16) if number <= _ROOM else codes, kind="stable")


def begins(codes: Ints) -> Bools:
    """Where a group of equal codes begins, in rows that are grouped."""
    first = np.ones(len(codes), np.bool_)
    first[1:] = codes[1:] != codes[:-1]
    return first


def starts(first: Bools) -> Ints:
    """Of each row, the row at which its group begins."""
    rows = np.where(first, np.arange(len(first)), 0)
    return np.maximum.accumulate(rows)


ABSENT: Final = -1
"""The place of an invocation or completion that the history does not hold."""

ASSIGN, SUBSCRIBE, POLLING, OTHER = range(4)
_FUNCTIONS: Final = {"assign": ASSIGN, "subscribe": SUBSCRIBE, "poll": POLLING, "txn": POLLING}


class Ops(NamedTuple):
    """One row an operation. `mark` is OK, FAIL or INFO (also of one that never completed);
    `begun` and `ended` are places in the order of all rows, ABSENT if there is no such row;
    `f` is ASSIGN, SUBSCRIBE, POLLING (`poll` and `txn`) or OTHER."""

    place: Ints
    process: Ints
    mark: Bits
    f: Ints
    begun: Ints
    ended: Ints
    begun_ns: Ints
    ended_ns: Ints


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
        found = np.zeros(len(self.ops.mark), np.bool_)
        found[self.final.reading] = True
        return found

    @property
    def things(self) -> int:
        """How many pairs of key and value were sent, polled or found by the second reader."""
        return len(self.key_of)


def named(number: int, texts: Sequence[str]) -> str:
    """A key or value as people write it."""
    return texts[number - TEXT] if number >= TEXT else str(number)


def history_of(parts: Iterable[Operations], *, file: str) -> History:
    """The columns of a run's rows. Raises HistoryError for a value that is sent twice to one key,
    and for incomplete micro-operations."""
    rows = _Rows.of(list(parts))
    began, ended = _paired(rows)
    ops = _ops(rows, began, ended)
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


class _Rows(NamedTuple):
    """The columns of all rows; what a row did is in `micro` from `start` to `stop`."""

    place: Ints
    process: Ints
    mark: Bits
    f: Ints
    time_ns: Ints
    start: Ints
    stop: Ints
    elements: Ints

    @classmethod
    def of(cls, parts: list[Operations]) -> _Rows:
        starts, stops, begin = [], [], 0
        for part in parts:
            starts.append(part.elements.starts[:-1] + begin)
            stops.append(part.elements.starts[1:] + begin)
            begin += len(part.elements.values)
        f = [
            np.array([*(_FUNCTIONS.get(n, OTHER) for n in p.f.names), OTHER])[p.f.codes]
            for p in parts
        ]
        return cls(
            place=_all([part.place for part in parts]),
            process=_all([part.process for part in parts]),
            mark=np.concatenate([np.empty(0, np.uint8), *(part.mark for part in parts)]),
            f=_all(f),
            time_ns=_all([part.time_ns for part in parts]),
            start=_all(starts),
            stop=_all(stops),
            elements=_all([part.elements.values for part in parts]),
        )


def _all(columns: list[Ints]) -> Ints:
    return columns[0] if len(columns) == 1 else np.concatenate([np.empty(0, np.int64), *columns])


def _paired(rows: _Rows) -> tuple[Ints, Ints]:
    """The rows of invocation and completion of each operation, ABSENT if there is none. A
    process does one thing at a time, so a completion belongs to the row before it of its process,
    where that is an invocation."""
    order = ordered(*codes_of(rows.process))
    begins = (rows.mark == INVOKED)[order]
    process = rows.process[order]
    answered = np.zeros(len(order), np.bool_)
    answered[:-1] = begins[:-1] & ~begins[1:] & (process[:-1] == process[1:])
    began = np.full(len(order), ABSENT)
    begun_at = np.flatnonzero(answered[:-1])
    began[np.take(order, begun_at + 1)] = np.take(order, begun_at)
    completions = np.flatnonzero(rows.mark != INVOKED)
    open_ = np.sort(order[begins & ~answered])
    return (
        np.concatenate([began[completions], open_]),
        np.concatenate([completions, np.full(len(open_), ABSENT)]),
    )


def _ops(rows: _Rows, began: Ints, ended: Ints) -> Ops:
    known = np.where(ended == ABSENT, began, ended)
    completed, invoked = ended != ABSENT, began != ABSENT
    return Ops(
        place=rows.place[known],
        process=rows.process[known],
        mark=np.where(completed, rows.mark[known], INFO).astype(np.uint8),
        f=rows.f[known],
        begun=began,
        ended=ended,
        begun_ns=np.where(invoked, rows.time_ns[began], NULL),
        ended_ns=np.where(completed, rows.time_ns[ended], NULL),
    )


def _micro_ops(rows: _Rows, ops: Ops, file: str) -> tuple[Ints, Ints]:
    """The operation and the four integers of each micro-operation: those of the completion, or else
    of the invocation. A completion that is not ok may lack a send that was begun and never
    answered: that one is of the invocation too."""
    began, ended = ops.begun, ops.ended
    nothing = (ended == ABSENT) | (rows.stop[ended] == rows.start[ended])
    op, four = _elements(rows, np.where(nothing, began, ended), file)
    partial = ~nothing & (ops.mark != OK)
    also, wanted = _elements(rows, np.where(partial, began, ABSENT), file)
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


def _elements(rows: _Rows, source: Ints, file: str) -> tuple[Ints, Ints]:
    """What these rows hold, one row an operation: the operation and the four integers of each
    micro-operation."""
    there = source != ABSENT
    start = np.where(there, rows.start[source], 0)
    length = np.where(there, rows.stop[source], 0) - start
    if (length % WIDTH).any():
        raise HistoryError(
            f"an operation's elements are not {WIDTH} integers a micro-operation",
            file=file,
            key="elements",
        )
    numbers = length // WIDTH
    op = np.repeat(np.arange(len(numbers)), numbers)
    first = np.cumsum(numbers) - numbers
    at = start[op] // WIDTH + np.arange(len(op)) - first[op]
    return op, rows.elements.reshape(-1, WIDTH)[at]


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
