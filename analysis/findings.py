"""What the checkers found in a run, one row each, from `findings/*.parquet`: as their checkers
wrote it, as a frame for pages, and the lost writes as CSV.

The checkers have counted these rows already (`counts` in result.json); nothing is counted again. A
checker, which may be a plug-in, chooses its columns and their types: a number may need more than 64
bits, and a value may be a text. So a type is taken only where it says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from analysis.tables import without_formulas
from harness.errors import HistoryError, disk_errors
from harness.history.documents import LOST_KINDS
from harness.history.parquet_reader import decoded, integers, texts
from harness.history.run_folder import RunDir
from harness.machine.files import replacing
from harness.protocols.runs import NULL, Ints

_NUMBERS = ("partition", "value", "process", "offset", "found_partition", "found_offset")
_TIMES = {"due_s": "intended_ns", "answered_s": "complete_ns"}
_TEXTS = ("kind", "error", "fault")
_COLUMNS = ("kind", "partition", "value", "process", "offset", *_TIMES)
_COLUMNS += ("error", "fault", "found_partition", "found_offset")


def findings(run: RunDir, kinds: Sequence[str] = LOST_KINDS) -> pd.DataFrame:
    """The findings of these kinds, by partition and then by the time of the answer.

    Columns: `kind, partition, value, process, offset` (NULL where unknown), `due_s`, `answered_s`,
    `error`, `fault` (the fault windows that the write falls in; None: none) and, for a value that
    was read, `found_partition, found_offset`.
    """

    def frame(batch: pa.RecordBatch) -> pd.DataFrame:
        rows = _frame(batch)
        return rows[texts(batch, "kind").isin(kinds)]

    sources = (*_TEXTS, *_NUMBERS, *_TIMES.values())
    newer = set(sources) - {"kind"}
    frames = decoded(sorted(run.findings.glob("*.parquet")), sources, frame, optional=newer)
    nothing = _frame(pa.RecordBatch.from_pylist([], schema=pa.schema([])))
    rows = pd.concat([nothing, *frames], ignore_index=True)
    # Not sort_values: by several columns it makes a categorical of each, which takes seconds.
    order = tuple(rows[name].to_numpy() for name in ("value", "answered_s", "partition"))
    return rows.iloc[np.lexsort(order)].reset_index(drop=True)


def values_found(run: RunDir, kinds: Iterable[str]) -> Ints:
    """The values of all findings of these kinds."""
    wanted = tuple(kinds)

    def values(batch: pa.RecordBatch) -> Ints:
        return integers(batch, "value")[texts(batch, "kind").isin(wanted)]

    files = sorted(run.findings.glob("*.parquet"))
    return np.concatenate(
        [np.empty(0, np.int64), *decoded(files, ("kind", "value"), values, optional=("value",))]
    )


def _frame(batch: pa.RecordBatch) -> pd.DataFrame:
    columns: dict[str, object] = {name: integers(batch, name) for name in _NUMBERS}
    columns |= {name: texts(batch, name).objects() for name in _TEXTS}
    for name, source in _TIMES.items():
        time_ns = integers(batch, source)
        columns[name] = np.where(time_ns == NULL, np.nan, time_ns / 1e9)
    return pd.DataFrame({name: columns[name] for name in _COLUMNS})


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


def first_and_last(lost: pd.DataFrame) -> pd.DataFrame:
    """The first and last row of each partition, with `which` and `of`, the partition's losses."""
    groups = lost.groupby("partition", sort=True)
    ends = [groups.head(1).assign(which="first"), groups.tail(1).assign(which="last")]
    table = pd.concat(ends)
    table = table.assign(of=table["partition"].map(groups.size()))
    table = table[(table["which"] == "first") | (table["of"] > 1)]
    return table.sort_values(["partition", "which"], ignore_index=True)


def write_csv(lost: pd.DataFrame, path: Path) -> None:
    """Write all rows of `findings.findings` as CSV that is safe to open in a spreadsheet.

    Raises EnvironmentFailure when the file cannot be written.
    """
    table = pa.table({name: _column(lost[name]) for name in lost.columns})
    with disk_errors("cannot write the table of lost writes", path), replacing(path) as partial:
        pyarrow.csv.write_csv(table, partial)


def _column(values: pd.Series) -> pa.Array:
    if values.dtype == object:
        return without_formulas(pa.array(values, pa.string()))
    if values.dtype.kind == "i":
        numbers = pa.array(values)
        return pc.if_else(pc.equal(numbers, NULL), None, numbers)
    return pa.array(values.round(6), from_pandas=True)
