"""A history of a set from the operations of a run: each invocation with its completion.

An add is paired by its value, which is added once. A read is paired with the earliest open read of
its process, so one whose invocation is not in the history counts as early; in a history without any
invocation of a read, each read began and ended at its row. What was before what is shown by the
place of a row in the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from checkers.sets.columns import ABSENT, Adds, SetHistory, SetReads, history_of, refuse
from harness.history.parquet_reader import some
from harness.protocols.runs import (
    INFO,
    INVOKED,
    NULL,
    OK,
    Bits,
    Bools,
    Ints,
    Operations,
    Texts,
)

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
    adds: list[_Events] = []
    reads = _Reads(file)
    for part in parts:
        if not timed:
            part = part._replace(time_ns=np.full(len(part.place), NULL))
        is_add = _named(part.f, _ADD)
        adds.append(_events(part, is_add))
        reads.take(part, np.flatnonzero(~is_add))
    return history_of(_adds(adds, file), reads.columns(), end_ns=end_ns, file=file)


def _named(f: Texts, name: str) -> Bools:
    chosen: Bools = np.array([*(each == name for each in f.names), False])[f.codes]
    return chosen


class _Events(NamedTuple):
    """The rows of adds."""

    value: Ints
    process: Ints
    mark: Bits
    place: Ints
    time_ns: Ints


def _events(part: Operations, rows: Bools) -> _Events:
    return _Events(
        part.value[rows], part.process[rows], part.mark[rows], part.place[rows], part.time_ns[rows]
    )


def _adds(parts: list[_Events], file: str | None) -> Adds:
    """One row a value; an add that never completed is `info`. Raises HistoryError for a value that
    is added twice: which of the adds an element is of cannot be known."""
    none, no_mark = np.empty(0, np.int64), np.empty(0, np.uint8)
    columns = zip(_Events(none, none, no_mark, none, none), *parts, strict=True)
    rows = _Events._make(np.concatenate(column) for column in columns)
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


class _Reads:
    """Reads, as they come by."""

    def __init__(self, file: str | None) -> None:
        self._file = file
        self._rows: list[tuple[int, ...]] = []
        self._elements: list[Ints] = []
        self._invoked = False
        self._open: dict[int, list[tuple[int, int]]] = {}

    def take(self, part: Operations, rows: Ints) -> None:
        """Take some reads, in their order."""
        for row, process, mark, place, time_ns in _each(part, rows):
            begun = self._open.setdefault(process, [])
            if mark == INVOKED:
                self._invoked = True
                begun.append((place, time_ns))
                continue
            began, began_ns = begun[0] if begun else (ABSENT, NULL)
            if begun:
                begun.pop()
            self._rows.append((process, mark, began, place, began_ns, time_ns))
            if mark == OK:
                self._elements.append(part.returned(row, file=self._file))
            else:
                self._elements.append(part.elements.values[:0])

    def columns(self) -> SetReads:
        """One row a read; one that never completed is `info`."""
        open_ = [
            (process, INFO, began, ABSENT, began_ns, NULL)
            for process, reads in self._open.items()
            for began, began_ns in reads
        ]
        table = np.array(self._rows + open_, np.int64).reshape(-1, 6).T
        process, mark, began, ended, began_ns, ended_ns = table
        if not self._invoked:
            began, began_ns = ended, ended_ns
        sizes = [*map(len, self._elements), *(0 for _ in open_)]
        stops = np.cumsum(sizes, dtype=np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), stops])[:-1]
        elements = np.concatenate([np.empty(0, np.int64), *self._elements])
        marks = mark.astype(np.uint8)
        return SetReads(process, marks, began, ended, began_ns, ended_ns, starts, stops, elements)


def _each(part: Operations, rows: Ints) -> Iterator[tuple[int, ...]]:
    columns = (part.process, part.mark, part.place, part.time_ns)
    return zip(rows.tolist(), *(column[rows].tolist() for column in columns), strict=True)
