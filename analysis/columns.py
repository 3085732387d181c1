"""A run's Parquet parts as numpy columns: the only way in which analysis reads rows.

A run flat out holds ten million writes, twenty million rows. So only the columns that are needed
are read, part by part, text stays a small integer code, and nothing here or above walks over rows
in Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import HistoryError

Codes = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MISSING = -1
"""What a null integer, and the code of a null text, become."""


def tables(parts: Iterable[Path], columns: Sequence[str]) -> Iterator[pa.Table]:
    """The parts one after the other, each with those of `columns` that it has.

    Raises HistoryError when a part is not Parquet or cannot be read.
    """
    for part in parts:
        try:
            with pq.ParquetFile(part) as file:
                present = [name for name in columns if name in file.schema_arrow.names]
                table = file.read(columns=present)
        except (OSError, pa.ArrowException) as error:
            raise HistoryError(f"is not readable Parquet: {error}", file=str(part)) from error
        yield table


def integers(table: pa.Table, name: str) -> Ints:
    """An integer column as int64; nulls, and a column that is not there, become MISSING."""
    if name not in table.column_names:
        return np.full(table.num_rows, MISSING, dtype=np.int64)
    column = table.column(name).cast(pa.int64())
    if column.null_count:
        column = pc.fill_null(column, MISSING)
    values: Ints = column.to_numpy()
    return values


def codes(table: pa.Table, name: str) -> tuple[Codes, list[str]]:
    """A text column as codes into the list of its texts; null, and no such column, is MISSING."""
    if name not in table.column_names:
        return np.full(table.num_rows, MISSING, dtype=np.int32), []
    column = table.column(name)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    encoded = column.unify_dictionaries().combine_chunks()
    numbers = encoded.indices.cast(pa.int32()).fill_null(MISSING).to_numpy(zero_copy_only=False)
    return numbers, [str(text) for text in encoded.dictionary.to_pylist()]


def equals(table: pa.Table, name: str, text: str) -> npt.NDArray[np.bool_]:
    """Where a text column holds `text`."""
    numbers, texts = codes(table, name)
    found: npt.NDArray[np.bool_] = numbers == (texts.index(text) if text in texts else len(texts))
    return found


def texts(table: pa.Table, name: str) -> list[str | None]:
    """A text column of a *small* table as Python strings."""
    if name not in table.column_names:
        return [None] * table.num_rows
    return [None if value is None else str(value) for value in table.column(name).to_pylist()]
