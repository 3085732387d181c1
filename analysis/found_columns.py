"""The columns of `findings/*.parquet` as their checkers wrote them.

A checker, which may be a plug-in, chooses its columns and their types: a number may need more than
64 bits, and a value may be a text. So a type is taken only where it says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import HistoryError

_RUN_ID: Final = "run_id"
_NANOSECONDS: Final = "_ns"
_TAKEN: Final[Mapping[pa.DataType, tuple[Callable[[pa.DataType], bool], ...]]] = {
    pa.int64(): (pa.types.is_integer,),
    pa.float64(): (pa.types.is_floating, pa.types.is_integer),
    pa.string(): (pa.types.is_string, pa.types.is_large_string),
}
"""The types that each wanted type takes, besides the type of nothing."""


def found_columns(path: Path) -> dict[str, pa.ChunkedArray]:
    """The columns of one checker's findings but the run's id; those of nanoseconds in seconds:
    `invoke_ns` is `invoke_s`, and so on. Raises HistoryError for damaged Parquet."""
    try:
        with pq.ParquetFile(path) as file:
            rows = file.read(use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise HistoryError("cannot be read: its Parquet is damaged", file=str(path)) from error
    columns = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        seconds = name.removesuffix(_NANOSECONDS) + "_s"
        if name == _RUN_ID:
            continue
        if (
            name.endswith(_NANOSECONDS)
            and pa.types.is_integer(column.type)
            and seconds not in rows.column_names
        ):
            columns[seconds] = pc.divide(column.cast(pa.float64(), safe=False), 1e9)
        else:
            columns[name] = column
    return columns


def fitting(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray | None:
    """The column with the type `wanted` (int64, float64 or string); `None` where it would not say
    the same."""
    kind = plain(column.type)
    if not any(is_one(kind) for is_one in (pa.types.is_null, *_TAKEN[wanted])):
        return None
    try:
        return column.cast(wanted)
    except pa.ArrowInvalid:  # a number that this type cannot hold
        return None


def plain(kind: pa.DataType) -> pa.DataType:
    """The type of the values of a column: a dictionary is how they are stored."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind
