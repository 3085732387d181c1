"""A history of a set as numpy columns: its adds and its reads, from the operations of a run.

Every value is added once; a read returns all elements of the set. What began before what is shown
by `index`, the place of an invocation or a completion in the history: no two are equal, so nothing
is left to chance where clocks are coarse.

An add is paired by its value. A read is paired with the open read of its process, so one whose
invocation is not in the history counts as early; in a history without any invocation of a read,
each read began and ended at its row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from harness.errors import HistoryError
from harness.history.parquet_reader import some
from harness.protocols.runs import INFO, INVOKED, NULL, OK, Bits, Bools, Ints, Operations

ABSENT: Final = -1
"""The index of an invocation or completion that the history does not hold."""

NOBODY: Final = -1
"""The process of an operation whose process is not a number."""


class Adds(NamedTuple):
    """One row an add. `mark` is OK, FAIL or INFO (also of an add that never completed); an index
    is ABSENT, and a time NULL, where it is not known."""

    value: Ints
    process: Ints
    mark: Bits
    invoke_index: Ints
    complete_index: Ints
    invoke_ns: Ints
    complete_ns: Ints


class SetReads(NamedTuple):
    """One row a read; columns are as in `Adds`. What a read returned is in `elements` from its
    `start` to its `stop`."""

    process: Ints
    mark: Bits
    invoke_index: Ints
    complete_index: Ints
    invoke_ns: Ints
    complete_ns: Ints
    start: Ints
    stop: Ints
    elements: Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class SetHistory:
    """Adds, and `ok` reads in the order in which they began; made by `history_of`.

    `final`: the row of the last read, `None` if there is none; `is_final`: it began after every
    add had completed, so every acknowledged element should be in it. `unanswered`: how many reads
    there were at the end, if none of them was `ok`; else 0. `key`: of the set, where sets have
    keys.
    """

    adds: Adds
    reads: SetReads
    final: int | None
    is_final: bool
    unanswered: int
    key: str | None = None


def history_of(
    adds: Adds, reads: SetReads, *, end_ns: int | None = None, file: str | None = None
) -> SetHistory:
    """A history to judge; reads that are not `ok` say nothing and are left out. At the end are
    reads that began at `end_ns` or later; if that is None, after every add had completed.

    Raises HistoryError for a value that is added twice, and for an `ok` operation whose completion
    has no index.
    """
    refuse(np.diff(np.sort(adds.value)) == 0, "a value is added twice", "value", file)
    for rows in (adds, reads):
        unplaced = (rows.mark == OK) & (rows.complete_index == ABSENT)
        refuse(unplaced, "an ok operation has no completion", "index", file)
    unanswered = _unanswered(adds, reads, end_ns)
    ok = np.flatnonzero(reads.mark == OK)
    order = ok[np.lexsort((reads.complete_index[ok], reads.invoke_index[ok]))]
    placed = (column[order] for column in reads[:-1])
    reads = SetReads._make([*placed, reads.elements])  # elements stay where they are
    final, is_final = _final(adds, reads)
    return SetHistory(adds=adds, reads=reads, final=final, is_final=is_final, unanswered=unanswered)


def refuse(wrong: Bools, what: str, key: str, file: str | None) -> None:
    """Raise HistoryError if anything is wrong."""
    if wrong.any():
        raise HistoryError(what, file=file, key=key)


def _unanswered(adds: Adds, reads: SetReads, end_ns: int | None) -> int:
    """How many reads began at the end, if none of them was `ok`."""
    at_end = _after_adds(adds, reads) if end_ns is None else reads.invoke_ns >= end_ns
    return 0 if (at_end & (reads.mark == OK)).any() else int(at_end.sum())


def _after_adds(adds: Adds, reads: SetReads) -> Bools:
    """Whether each read began after every add had completed. An add that never completes is not an
    obstacle."""
    after: Bools = reads.invoke_index > adds.complete_index.max(initial=ABSENT)
    return after


def _final(adds: Adds, reads: SetReads) -> tuple[int | None, bool]:
    """The read that completed last, of those that began after every add had completed where there
    are such reads; and whether it is one of those."""
    if not len(reads.mark):
        return None, False
    after = np.flatnonzero(_after_adds(adds, reads))
    rows = after if len(after) else np.arange(len(reads.mark))
    return int(rows[reads.complete_index[rows].argmax()]), bool(len(after))


_ADD: Final = "add"


def by_key(parts: Iterable[Operations]) -> dict[str | None, list[Operations]]:
    """The operations of each set: one for every key that is named, and one for those without."""
    sets: dict[str | None, list[Operations]] = {}
    for part in parts:
        names, codes = [*part.key.names, None], np.unique(part.key.codes).tolist()
        for code in codes:
            own = part if len(codes) == 1 else some(part, part.key.codes == code)
            sets.setdefault(names[code], []).append(own)
    return sets or {None: []}


def paired(
    parts: Iterable[Operations],
    *,
    timed: bool = True,
    end_ns: int | None = None,
    file: str | None = None,
) -> SetHistory:
    """The adds and reads of a history; without latencies where its rows have no times. `end_ns`:
    see `history_of`.

    Raises HistoryError for a value that is added twice, and for an ok read without a list.
    """
    columns = [_NOTHING]
    elements = [np.empty(0, np.int64)]
    for part in parts:
        is_add, lists = part.f.isin([_ADD]), part.elements
        answers = ~is_add & (part.mark == OK)
        for row in np.flatnonzero(answers & ~lists.present).tolist():
            part.returned(row, file=file)
        sizes = np.diff(lists.starts)
        elements.append(lists.values[np.repeat(answers, sizes)])
        time_ns = part.time_ns if timed else np.full(len(part.place), NULL)
        rows = (is_add, part.value, part.process, part.mark, part.place, time_ns)
        columns.append(_Rows(*rows, np.where(answers, sizes, 0)))
    every = _Rows._make(np.concatenate(column) for column in zip(*columns, strict=True))
    reads = _reads(every, np.concatenate(elements))
    return history_of(_adds(every.take(every.is_add), file), reads, end_ns=end_ns, file=file)


class _Rows(NamedTuple):
    """The columns of all rows; `size`: how many elements an ok read returned."""

    is_add: Bools
    value: Ints
    process: Ints
    mark: Bits
    place: Ints
    time_ns: Ints
    size: Ints

    def take(self, rows: Ints | Bools) -> _Rows:
        return _Rows._make(column[rows] for column in self)


_NONE: Final = np.empty(0, np.int64)
_NOTHING: Final = _Rows(
    np.empty(0, np.bool_), _NONE, _NONE, np.empty(0, np.uint8), _NONE, _NONE, _NONE
)


def _adds(rows: _Rows, file: str | None) -> Adds:
    """One row a value; an add that never completed is `info`. Raises HistoryError for a value that
    is added twice: which of the adds an element is of cannot be known."""
    begins = rows.mark == INVOKED
    value = np.unique(rows.value)
    place, time = np.full((2, len(value)), ABSENT), np.full((2, len(value)), NULL)
    mark, process = np.full(len(value), INFO, np.uint8), np.zeros(len(value), np.int64)
    at = np.searchsorted(value, rows.value)
    for side, chosen in enumerate((begins, ~begins)):
        refuse(np.bincount(at[chosen]) > 1, "a value is added twice", "value", file)
        place[side, at[chosen]] = rows.place[chosen]
        time[side, at[chosen]] = rows.time_ns[chosen]
    mark[at[~begins]] = rows.mark[~begins]
    process[at] = rows.process
    return Adds(value, process, mark, place[0], place[1], time[0], time[1])


def _reads(every: _Rows, elements: Ints) -> SetReads:
    """One row a read, whose elements follow those of the read before it; one that never completed
    is `info`. A completion belongs to the row before it of its process, where that is an
    invocation."""
    stops = np.cumsum(every.size)
    chosen = np.flatnonzero(~every.is_add)
    chosen = chosen[np.argsort(every.process[chosen], kind="stable")]
    rows, stops = every.take(chosen), stops[chosen]
    begins = rows.mark == INVOKED
    after = np.append(~begins[1:] & (rows.process[1:] == rows.process[:-1]), False)[: len(begins)]
    open_, ends = np.flatnonzero(begins & ~after), np.flatnonzero(~begins)
    nothing, before = np.full(len(open_), ABSENT), np.append(False, begins & after)[ends]
    began = np.append(np.where(before, ends - 1, ABSENT), open_)
    ended = np.append(ends, nothing)
    if not begins.any():
        began = ended
    known = np.append(ends, open_)
    place, time_ns = np.append(rows.place, ABSENT), np.append(rows.time_ns, NULL)
    return SetReads(
        process=rows.process[known],
        mark=np.where(ended == ABSENT, INFO, rows.mark[known]).astype(np.uint8),
        invoke_index=place[began],
        complete_index=place[ended],
        invoke_ns=time_ns[began],
        complete_ns=time_ns[ended],
        start=(stops - rows.size)[known],
        stop=stops[known],
        elements=elements,
    )
