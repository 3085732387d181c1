"""The operations of registers, as columns: what was requested, what was answered, and when.

An operation is a read, a write or a compare-and-set of one key. What it may have done follows from
its type:

    ok      it took effect at one instant between its invocation and its completion, both included
    fail    it had no effect, and is ignored. That holds for a failed compare-and-set too: a refusal
            would be an observation ("the value differs"), but only where it is proven to be the
            register's own answer to the only attempt, which the types do not tell
    info    a write or compare-and-set took effect at some instant after its invocation (the time of
            its completion says nothing), or never; a read is ignored

An operation precedes another in real time when it completes *before* the other is invoked. Two that
touch (one completes at the instant at which the other is invoked) are concurrent: intervals are
closed, as in Porcupine (anishathalye/porcupine, `model.go`). Those of a recorded history never
touch: the order of its rows distinguishes what a clock may not (`pairing`).

Operations of registers from the rows of a run: each invocation with its completion.

A process has at most one operation in progress, so a completion belongs to the invocation before it
of the same process. An operation that never completed is `info`.

What came before what is shown by the place of a row in the history, as in Knossos, since rows are
recorded one after the other, and clocks may be coarse or go back. So a time that is not above the
one of the row before becomes the next nanosecond: no two are equal, and ages are off by no more
than clocks were.

Which write each value that was read comes from, where only one can be.

An operation *consumes* a value when it reads it, or is a compare-and-set that expects it. A write
is a *candidate* for a value when it stores it and something that may come after it consumes it; the
initial value of a register is a candidate too.

Some operations say nothing and are left out: `fail`, `info` reads, and `info` writes that are
*useless*: nothing consumes their value (in real time: nothing that completes at or after their
invocation) but useless compare-and-sets. That is exact. Without them a history is not harder to
order, since they may never have happened. Conversely, let S be a legal order of all, and u a
useless write in S. Until the next write, nothing but useless compare-and-sets can consume the value
of u: so u and what consumes it stand directly before a write (not a compare-and-set that is kept:
it would make u useful) or at the end, and leaving them out of S changes no value that anything else
sees. A compare-and-set that stores what it expects changes nothing: an `ok` one is a read, an
`info` one nothing.

Where every consumed value of a key has one candidate, the *sources* of the key are known, and order
is decided in polynomial time (`zones`, `process_order`); where some `ok` operation consumes a value
that has none, no order is legal. Gibbons and Korach, "Testing shared memories", SIAM Journal on
Computing 26 (4), 1997: with the read-mapping known, linearizability of reads and writes takes
O(n log n) steps; without it, it is NP-complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from harness.errors import HistoryError
from harness.protocols import Operations as Rows
from harness.protocols import Texts
from harness.protocols.runs import FAIL, INFO, INVOKED, NULL, OK, Bools, Ints

READ, WRITE, CAS = 0, 1, 2
"""The codes of the functions."""

NEVER: Final = 2**63 - 1
"""The completion of an operation that never completed."""


class Operation(NamedTuple):
    """One row. `value`: what a write or compare-and-set would store, what a read returned;
    `expected`: what a compare-and-set would replace."""

    f: int
    value: int = NULL
    expected: int = NULL
    type: int = OK
    process: int = 0
    invoke_ns: int = 0
    complete_ns: int = NEVER
    key: int = 0


@dataclass(frozen=True)
class Operations:
    """The columns, of one length; keys are codes. Raises ValueError for rows that cannot be."""

    f: Ints
    value: Ints
    expected: Ints
    type: Ints
    process: Ints
    invoke_ns: Ints
    complete_ns: Ints
    key: Ints

    def __post_init__(self) -> None:
        if len({len(getattr(self, column.name)) for column in fields(self)}) != 1:
            raise ValueError("the columns of operations differ in length; give one row each")
        for name, codes in (("f", (READ, WRITE, CAS)), ("type", (OK, FAIL, INFO))):
            if not np.isin(getattr(self, name), codes).all():
                known = ", ".join(map(str, codes))
                raise ValueError(f"an operation's {name} is not one of {known}; use the codes")
        ok = self.type == OK
        if (ok & (self.complete_ns == NEVER)).any():
            raise ValueError("an operation is ok but never completed; such a one is info")
        if (ok & (self.complete_ns < self.invoke_ns)).any():
            raise ValueError("an operation completed before its invocation; compare the clocks")

    def __len__(self) -> int:
        return len(self.key)

    def __iter__(self) -> Iterator[Operation]:
        columns = (getattr(self, column.name).tolist() for column in fields(self))
        return map(Operation._make, zip(*columns, strict=True))

    @classmethod
    def of(cls, rows: Iterable[Operation]) -> Operations:
        table = np.array([tuple(row) for row in rows], np.int64).reshape(-1, len(fields(cls)))
        return cls(*table.T)

    def take(self, rows: Ints | Bools) -> Operations:
        return Operations(*(getattr(self, column.name)[rows] for column in fields(self)))


def by_key(operations: Operations) -> Iterator[tuple[int, Ints]]:
    """Each key, in order, with the places of its rows in their order."""
    order = np.argsort(operations.key, kind="stable")
    held = operations.key[order]
    keys, begins = np.unique(held, return_index=True)
    ends = np.searchsorted(held, keys, side="right")
    for key, begin, end in zip(keys.tolist(), begins, ends, strict=True):
        yield key, order[begin:end]


_OTHER: Final = -1
_DELETE: Final = 3
_FUNCTIONS: Final = {"read": READ, "write": WRITE, "cas": CAS, "delete": _DELETE}


class Paired(NamedTuple):
    """The operations, the names of their keys by code (`None`: no key was named), and who served
    each, by the place of its name in `nodes` (`None`: not known)."""

    operations: Operations
    keys: tuple[str | None, ...]
    node: Ints
    nodes: tuple[str | None, ...]


class _Columns(NamedTuple):
    """The columns of all rows, part after part."""

    place: Ints
    process: Ints
    mark: Ints
    f: Ints
    key: Ints
    value: Ints
    expected: Ints
    result: Ints
    listed: Ints
    node: Ints
    time_ns: Ints

    def take(self, rows: Ints) -> _Columns:
        return _Columns._make(column[rows] for column in self)


def paired(parts: Iterable[Rows], *, file: str) -> Paired:
    """The operations of a history. Raises HistoryError for rows that no process can have made, and
    for an ok read that was answered a list."""
    keys: dict[str | None, int] = {}
    nodes: dict[str | None, int] = {}
    nothing = _Columns._make([np.empty(0, np.int64)] * len(_Columns._fields))
    columns = zip(nothing, *(_columns(part, keys, nodes) for part in parts), strict=True)
    rows = _Columns._make(map(np.concatenate, columns))
    rows = rows.take(np.argsort(rows.place, kind="stable"))
    rows = rows._replace(time_ns=_increasing(rows.time_ns))
    rows = rows.take(np.argsort(rows.process, kind="stable"))
    begins = rows.mark == INVOKED
    same = np.diff(rows.process, append=-1) == 0
    answered = begins & same & ~np.append(begins[1:], True)
    _refuse_stray(rows, ~begins & ~np.insert(answered[:-1], 0, False), file)
    _refuse_lists(rows, file)
    at, end = np.flatnonzero(begins), np.flatnonzero(begins) + 1
    ended = answered[at]
    end = np.where(ended, end, at)
    type_ = np.where(ended, rows.mark[end], INFO)
    returned = ended & (rows.f[at] == READ)
    unnamed = rows.key[at] == keys.get(None, -1)  # an invocation may leave the key to its answer
    deletes = rows.f[at] == _DELETE  # a write of no value
    operations = Operations(
        f=np.where(deletes, WRITE, rows.f[at]),
        value=np.where(returned, rows.result[end], np.where(deletes, NULL, rows.value[at])),
        expected=rows.expected[at],
        type=type_,
        process=rows.process[at],
        invoke_ns=rows.time_ns[at],
        complete_ns=np.where(ended & (type_ != INFO), rows.time_ns[end], NEVER),
        key=np.where(unnamed, rows.key[end], rows.key[at]),
    )
    return Paired(operations, tuple(keys), rows.node[end], tuple(nodes))


def _increasing(time_ns: Ints) -> Ints:
    """Each time, or the nanosecond after the one before, whichever is later."""
    row = np.arange(len(time_ns))
    later: Ints = np.maximum.accumulate(time_ns - row) + row
    return later


def _columns(part: Rows, keys: dict[str | None, int], nodes: dict[str | None, int]) -> _Columns:
    codes = [_FUNCTIONS.get(name, _OTHER) for name in part.f.names]  # the nemesis' have names too
    return _Columns(
        place=part.place,
        process=part.process,
        mark=part.mark.astype(np.int64),
        f=np.array([*codes, 0], np.int64)[part.f.codes],
        key=_codes(part.key, keys),
        value=part.value,
        expected=part.expected,
        result=part.result,
        listed=part.elements.present.astype(np.int64),
        node=_codes(part.node, nodes),
        time_ns=part.time_ns,
    )


def _codes(column: Texts, names: dict[str | None, int]) -> Ints:
    """Codes that mean the same in every part."""
    codes = [names.setdefault(name, len(names)) for name in column.names]
    if (column.codes < 0).any():
        codes.append(names.setdefault(None, len(names)))
    else:
        codes.append(0)
    return np.array(codes, np.int64)[column.codes]


def _refuse_stray(rows: _Columns, stray: Ints, file: str) -> None:
    if stray.any():
        row = int(np.flatnonzero(stray)[0])
        raise HistoryError(
            f"operation {rows.place[row]} of process {rows.process[row]} completes and was never "
            "invoked",
            file=file,
            key="type",
            hint="record an invocation for every completion; a process does one thing at a time",
        )


def _refuse_lists(rows: _Columns, file: str) -> None:
    listed = (rows.f == READ) & (rows.mark == OK) & (rows.listed == 1)
    if listed.any():
        raise HistoryError(
            f"the ok read at {rows.place[listed].min()} has a list, not one value",
            file=file,
            key="elements",
            hint="record what a read returned in 'result', null for nothing",
        )


NOTHING: Final = -1
"""The number of the value that an operation does not store, or does not consume."""


@dataclass(frozen=True)
class Sources:
    """The operations that say something. `row`: their places among all; `keys`: the distinct keys;
    `at`: each operation's key as a place in `keys`; `written`, `consumed`: the number of the value
    that it stores or consumes, numbers being distinct across keys; `initial`: of each key, the
    number of its initial value; `candidate`: whether an operation is one for what it stores;
    `numbers`: how many values are numbered."""

    operations: Operations
    row: Ints
    keys: Ints
    at: Ints
    written: Ints
    consumed: Ints
    initial: Ints
    candidate: Bools
    numbers: int

    @cached_property
    def candidates(self) -> Ints:
        stored = np.bincount(self.written[self.candidate], minlength=self.numbers)
        counted: Ints = stored + np.bincount(self.initial, minlength=self.numbers)
        return counted

    @cached_property
    def source(self) -> Ints:
        """The candidate of each value that has one alone: an operation, or the number of operations
        plus the place of a key for its initial value."""
        places = np.full(self.numbers, NOTHING, np.int64)
        places[self.initial] = len(self.at) + np.arange(len(self.keys))
        places[self.written[self.candidate]] = np.flatnonzero(self.candidate)
        return places

    @cached_property
    def unwritten(self) -> Bools:
        """Whether each key has an `ok` operation that consumes what nothing can have stored."""
        wrong = (self.consumed != NOTHING) & (self.operations.type == OK)
        return self._any(wrong & (self.candidates[self.consumed] == 0))

    @cached_property
    def ambiguous(self) -> Bools:
        """Whether each key has a consumed value with several candidates."""
        consumes = self.consumed != NOTHING
        return self._any(consumes & (self.candidates[self.consumed] > 1))

    def _any(self, chosen: Bools) -> Bools:
        found = np.zeros(len(self.keys), np.bool_)
        found[self.at[chosen]] = True
        return found


def sources(operations: Operations, *, initial: int = NULL, in_real_time: bool = True) -> Sources:
    """What the operations observed. `in_real_time`: whether what completes before a write is
    invoked cannot have consumed it; else only the orders of processes count."""
    keys, key_at = np.unique(operations.key, return_inverse=True)
    row, f = constraining(operations)
    some = replace(operations.take(row), f=f)
    number = numbered(some, key_at[row], len(keys), initial)
    useful, candidate = _useful(some, number, in_real_time=in_real_time)
    kept = np.flatnonzero(useful)
    return Sources(
        operations=some.take(kept),
        row=row[kept],
        keys=keys,
        at=key_at[row[kept]],
        written=number.written[kept],
        consumed=number.consumed[kept],
        initial=number.initial,
        candidate=candidate[kept],
        numbers=number.numbers,
    )


def constraining(operations: Operations) -> tuple[Ints, Ints]:
    """The places of operations that may constrain the order, and their functions: a compare-and-set
    of a value to itself is a read."""
    idle = (operations.f == CAS) & (operations.expected == operations.value)
    f = np.where(idle, READ, operations.f)
    silent = (operations.type == FAIL) | ((operations.type == INFO) & (f == READ))
    row = np.flatnonzero(~silent)
    return row, f[row]


class Numbered(NamedTuple):
    """The numbers of the values that operations store and consume, and of each key's initial one;
    how many there are."""

    written: Ints
    consumed: Ints
    initial: Ints
    numbers: int


def numbered(operations: Operations, at: Ints, keys: int, initial: int) -> Numbered:
    """Number the values of operations, whose keys are at these places."""
    stores, consumes = operations.f != READ, operations.f != WRITE
    taken = np.where(operations.f == CAS, operations.expected, operations.value)
    values = np.concatenate([operations.value[stores], taken[consumes], np.full(keys, initial)])
    of = np.concatenate([at[stores], at[consumes], np.arange(keys)])
    distinct, value = np.unique(values, return_inverse=True)
    pairs, number = np.unique(of * len(distinct) + value, return_inverse=True)
    written, consumed = np.full(len(at), NOTHING), np.full(len(at), NOTHING)
    first, second = int(stores.sum()), len(values) - keys
    written[stores], consumed[consumes] = number[:first], number[first:second]
    return Numbered(written, consumed, number[second:], len(pairs))


def _useful(operations: Operations, number: Numbered, *, in_real_time: bool) -> tuple[Bools, Bools]:
    """Whether each operation is not useless, and whether it is a candidate for what it stores."""
    written, consumed = number.written, number.consumed
    useful, stores, takes = operations.type == OK, written != NOTHING, consumed != NOTHING
    done_ns = operations.complete_ns if in_real_time else np.full(len(written), NEVER)
    last_ns = np.full(number.numbers + 1, NULL)  # NOTHING finds the last, which stays
    sure = useful & takes
    np.maximum.at(last_ns, consumed[sure], done_ns[sure])
    while True:
        candidate = stores & (operations.invoke_ns <= last_ns[written])
        more = candidate & ~useful
        if not more.any():
            return useful, candidate
        useful |= more
        last_ns[consumed[more & takes]] = NEVER
