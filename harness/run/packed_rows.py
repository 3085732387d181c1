"""Rows of a history as the recorder packs them, and their way into columns and a Parquet table.

A row is fourteen integers: text as codes (0 is null), null as a sentinel. Converting numbers is
most of the cost of a row, so the fields that most rows leave empty are at its end and are packed as
bytes.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.history import HISTORY
from harness.protocols import FAIL, INFO, NULL, OK

INVOKE: Final = "invoke"
TYPES: Final = (INVOKE, OK, FAIL, INFO)
TYPE_CODES: Final = {name: code for code, name in enumerate(TYPES)}
ENDED_CODES: Final = {name: TYPE_CODES[name] for name in (OK, FAIL, INFO)}

# A row of the history, but for `run_id` and `index`: first what the beginning of an operation has,
# then what its end adds, then what only operations other than writes have.
ROW: Final = np.dtype(
    [
        *((name, np.int64) for name in ("value", "partition", "intended_ns", "time_ns")),
        *((name, np.int32) for name in ("process", "f", "key", "type", "node", "error")),
        *((name, np.int64) for name in ("offset", "expected", "result", "elements")),
    ]
)
ROW_BYTES: Final = ROW.itemsize
BLOCK_BYTES: Final = 4_096 * ROW_BYTES
"""So few that a block turned into columns stays in a processor's cache."""

pack_begun: Final = struct.Struct("=4q3i44s").pack_into
BEGUN: Final = struct.pack("=3i4q", 0, 0, 0, NULL, NULL, NULL, NULL)
pack_ended: Final = struct.Struct("=4q6iq24s").pack_into
WRITE_ONLY: Final = struct.pack("=3q", NULL, NULL, NULL)
pack_row: Final = struct.Struct("=4q6i4q").pack_into

Ints = npt.NDArray[np.int64]
Columns = dict[str, npt.NDArray[Any]]
"""Rows by the names of `ROW`."""


class Codes(dict[str, int]):
    """Text to numbers from 1 on, given out in order of appearance; 0 stands for null."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def __missing__(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"{text!r:.40} is not text")
        with self._lock:
            return self.setdefault(text, len(self) + 1)


def columns_of(blocks: Sequence[tuple[bytearray, int]]) -> Columns:
    """The rows in the first so many bytes of each block."""
    ends = list(accumulate(end // ROW_BYTES for _, end in blocks))
    columns = {name: np.empty(ends[-1], ROW[name]) for name in ROW.names or ()}
    for first, end, (block, _) in zip([0, *ends], ends, blocks, strict=False):
        rows = np.frombuffer(block, ROW, count=end - first)
        for name, column in columns.items():
            column[first:end] = rows[name]
    return columns


def concatenated(parts: Sequence[Mapping[str, Any]]) -> Columns:
    """The rows of several parts."""
    return {name: np.concatenate([part[name] for part in parts]) for name in ROW.names or ()}


def in_order_of_time(parts: Sequence[Columns], notes: Sequence[tuple[int, ...]]) -> Columns:
    """The rows of several parts, and rows that were noted beside, each a tuple in the order of
    `ROW`."""
    columns = concatenated([*parts, np.array(notes, ROW)])  # type: ignore[list-item]
    order = np.argsort(columns["time_ns"], kind="stable")
    return {name: column[order] for name, column in columns.items()}


def count(parts: Sequence[Columns]) -> int:
    """How many rows these are."""
    return sum(len(part["type"]) for part in parts)


def table(
    columns: Columns,
    *,
    first: int,
    codes: Mapping[str, Codes],
    sets: Sequence[tuple[int, ...]],
) -> pa.Table:
    """The rows as those of HISTORY from index `first` on, without `run_id` and without columns that
    are null throughout. `sets` are what `elements` has places in."""
    made: dict[str, pa.Array | None] = {
        "index": pa.array(np.arange(first, first + len(columns["type"])))
    }
    for name, column in columns.items():
        if name == "type":
            made[name] = _texts(column, TYPES)
        elif name in codes:
            made[name] = _texts(column - 1, list(codes[name]))
        elif name == "elements":
            made[name] = _lists(column, sets)
        else:
            made[name] = _numbers(column, HISTORY.field(name))
    return pa.table({name: column for name, column in made.items() if column is not None})


def _texts(codes: npt.NDArray[np.int32], texts: Sequence[str]) -> pa.Array | None:
    """A text column from codes, of which a negative one is null."""
    if codes.max(initial=-1) < 0:
        return None
    indices = pa.array(codes, mask=codes < 0 if codes.min() < 0 else None)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


def _numbers(column: Ints, field: pa.Field) -> pa.Array | None:
    numbers = column.astype(field.type.to_pandas_dtype(), copy=False)
    if not field.nullable or not (null := column == NULL).any():
        return pa.array(numbers)
    return None if null.all() else pa.array(numbers, mask=null)


def _lists(places: Ints, sets: Sequence[tuple[int, ...]]) -> pa.Array | None:
    if (places == NULL).all():
        return None
    lists = [None if at == NULL else sets[at] for at in places.tolist()]
    return pa.array(lists, HISTORY.field("elements").type)
