"""A history of a set as numpy columns: its adds, its reads, and shards of both.

Every value is added once; a read returns all elements of the set. What began before what is shown
by `index`, the place of an invocation or a completion in the history: no two are equal, so nothing
is left to chance where clocks are coarse. `indexed_by_time` makes indices where only times are
known: at equal times invocations stand before completions, so two operations that touch are
concurrent.

Elements do not depend on each other. So a history splits by value into shards which are judged
apart, and only one fact concerns the complete history: which read is the final one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from harness.errors import HistoryError
from harness.protocols.runs import NULL, OK, Bits, Bools, Ints

ABSENT: Final = -1
"""The index of an invocation or completion that the history does not hold."""

NOBODY: Final = -1
"""The process of an operation whose process is not a number."""

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_HIGH: Final = np.uint64(32)


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
    reads = _rows(reads, order)
    final, is_final = _final(adds, reads)
    return SetHistory(adds=adds, reads=reads, final=final, is_final=is_final, unanswered=unanswered)


def refuse(wrong: Bools, what: str, key: str, file: str | None) -> None:
    """Raise HistoryError if anything is wrong."""
    if wrong.any():
        raise HistoryError(what, file=file, key=key)


def _rows(reads: SetReads, rows: Ints) -> SetReads:
    """Some reads, in this order; their elements stay where they are."""
    return SetReads._make([*(column[rows] for column in reads[:-1]), reads.elements])


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


def shard(history: SetHistory, number: int, *, of: int) -> SetHistory:
    """The values of a history that belong to shard `number` of `of`; all of its reads."""
    adds, reads = history.adds, history.reads
    mine = _shards(adds.value, of) == number
    kept = []
    for start, stop in zip(reads.start.tolist(), reads.stop.tolist(), strict=True):
        elements = reads.elements[start:stop]
        kept.append(elements[_shards(elements, of) == number])
    stops = np.cumsum([len(elements) for elements in kept], dtype=np.int64)
    return replace(
        history,
        adds=Adds._make(column[mine] for column in adds),
        reads=reads._replace(
            start=np.concatenate([np.zeros(1, np.int64), stops])[:-1],
            stop=stops,
            elements=np.concatenate([np.empty(0, np.int64), *kept]),
        ),
    )


def _shards(values: Ints, shards: int) -> Ints:
    """The shard of each value: by a multiplicative hash, since values may be strided."""
    mixed = (values.astype(np.uint64) * _GOLDEN) >> _HIGH
    numbers: Ints = (mixed % np.uint64(shards)).astype(np.int64)
    return numbers


def indexed_by_time(adds: Adds, reads: SetReads) -> tuple[Adds, SetReads]:
    """The same rows with indices by time; at equal times invocations stand before completions."""
    columns = (adds.invoke_ns, reads.invoke_ns, adds.complete_ns, reads.complete_ns)
    began, read, ended, returned = _places(columns, completions=(False, False, True, True))
    return (
        adds._replace(invoke_index=began, complete_index=ended),
        reads._replace(invoke_index=read, complete_index=returned),
    )


def _places(columns: Sequence[Ints], *, completions: Sequence[bool]) -> list[Ints]:
    """The place of each time among all times; ABSENT for NULL."""
    sizes = [len(column) for column in columns]
    times = np.concatenate(columns)
    order = np.lexsort((np.repeat(completions, sizes), times))
    places = np.empty(len(times), np.int64)
    places[order] = np.arange(len(times))
    places[times == NULL] = ABSENT
    return np.split(places, np.cumsum(sizes)[:-1])
