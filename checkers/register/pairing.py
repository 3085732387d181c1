"""Operations of registers from the rows of a run: each invocation with its completion.

A process has at most one operation in progress, so a completion belongs to the invocation before it
of the same process. An operation that never completed is `info`.

What came before what is shown by the place of a row in the history, as in Knossos, since rows are
recorded one after the other, and clocks may be coarse or go back. So a time that is not above the
one of the row before becomes the next nanosecond: no two are equal, and ages are off by no more
than clocks were.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from checkers.register.operations import (
    CAS,
    FAIL,
    INFO,
    NEVER,
    OK,
    READ,
    WRITE,
    Ints,
    Operations,
)
from harness.errors import HistoryError
from harness.protocols import Operations as Rows
from harness.protocols import Texts, runs

_FUNCTIONS: Final = {"read": READ, "write": WRITE, "cas": CAS}
_OTHER: Final = -1


class Paired(NamedTuple):
    """The operations, and the names of their keys by code (`None`: no key was named)."""

    operations: Operations
    keys: tuple[str | None, ...]


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
    time_ns: Ints


def paired(parts: Iterable[Rows], *, file: str) -> Paired:
    """The operations of a history. Raises HistoryError for rows that no process can have made, and
    for an ok read that was answered a list."""
    keys: dict[str | None, int] = {}
    rows = _Columns._make(
        np.concatenate([np.empty(0, np.int64), *columns])
        for columns in _by_column([_columns(part, keys) for part in parts])
    )
    rows = _sorted(rows, np.argsort(rows.place, kind="stable"))
    rows = rows._replace(time_ns=_increasing(rows.time_ns))
    rows = _sorted(rows, np.argsort(rows.process, kind="stable"))
    begins = rows.mark == runs.INVOKED
    same = np.diff(rows.process, append=-1) == 0
    answered = begins & same & ~np.append(begins[1:], True)
    _refuse_stray(rows, ~begins & ~np.insert(answered[:-1], 0, False), file)
    _refuse_lists(rows, file)
    at, end = np.flatnonzero(begins), np.flatnonzero(begins) + 1
    ended = answered[at]
    end = np.where(ended, end, at)
    type_ = np.where(ended, _types(rows.mark[end]), INFO)
    returned = ended & (rows.f[at] == READ)
    unnamed = rows.key[at] == keys.get(None, -1)  # an invocation may leave the key to its answer
    operations = Operations(
        f=rows.f[at],
        value=np.where(returned, rows.result[end], rows.value[at]),
        expected=rows.expected[at],
        type=type_,
        process=rows.process[at],
        invoke_ns=rows.time_ns[at],
        complete_ns=np.where(ended & (type_ != INFO), rows.time_ns[end], NEVER),
        key=np.where(unnamed, rows.key[end], rows.key[at]),
    )
    return Paired(operations, tuple(keys))


def _by_column(parts: list[_Columns]) -> Iterable[tuple[Ints, ...]]:
    return zip(*parts, strict=True) if parts else ((),) * len(_Columns._fields)


def _sorted(rows: _Columns, order: Ints) -> _Columns:
    return _Columns._make(column[order] for column in rows)


def _increasing(time_ns: Ints) -> Ints:
    """Each time, or the nanosecond after the one before, whichever is later."""
    row = np.arange(len(time_ns))
    later: Ints = np.maximum.accumulate(time_ns - row) + row
    return later


def _columns(part: Rows, keys: dict[str | None, int]) -> _Columns:
    codes = [_FUNCTIONS.get(name, _OTHER) for name in part.f.names]  # the nemesis' have names too
    return _Columns(
        place=part.place,
        process=part.process,
        mark=part.mark.astype(np.int64),
        f=np.array([*codes, 0], np.int64)[part.f.codes],
        key=_key_codes(part.key, keys),
        value=part.value,
        expected=part.expected,
        result=part.result,
        listed=part.elements.present.astype(np.int64),
        time_ns=part.time_ns,
    )


def _key_codes(key: Texts, keys: dict[str | None, int]) -> Ints:
    """Codes that mean the same in every part."""
    codes = [keys.setdefault(name, len(keys)) for name in key.names]
    if (key.codes < 0).any():
        codes.append(keys.setdefault(None, len(keys)))
    else:
        codes.append(0)
    return np.array(codes, np.int64)[key.codes]


def _types(mark: Ints) -> Ints:
    types = np.full(len(mark), INFO, np.int64)
    types[mark == runs.OK], types[mark == runs.FAIL] = OK, FAIL
    return types


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
    listed = (rows.f == READ) & (rows.mark == runs.OK) & (rows.listed == 1)
    if listed.any():
        raise HistoryError(
            f"the ok read at {rows.place[listed].min()} has a list, not one value",
            file=file,
            key="elements",
            hint="record what a read returned in 'result', null for nothing",
        )
