"""What the checkers of a run have found, in the columns of the lake.

A checker, which may be a plug-in, chooses its columns and their types. Those that the lake has too,
with a type that says the same, are in these columns; all others are in `more`, as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analysis.lake.schema import FINDINGS, NUMBER, REAL, TEXT
from harness.errors import HistoryError
from harness.history.run_folder import RunDir

_RUN_ID: Final = "run_id"
_CHECKER: Final = "checker"
_MORE: Final = "more"
_OF_THE_LAKE: Final = frozenset({_RUN_ID, "run_cell", _CHECKER, _MORE})
"""Columns that the lake fills: one of a checker with such a name is another."""
_NANOSECONDS: Final = "_ns"


def findings(folder: RunDir) -> pa.Table:
    """The findings of a judged cell; the columns that name it are null. Raises HistoryError."""
    files = sorted(folder.findings.glob("*.parquet"))
    return pa.concat_tables([FINDINGS.stored.empty_table(), *map(_columns, files)])


def _columns(path: Path) -> pa.Table:
    """The findings of one checker."""
    rows = _read(path)
    given = dict(_in_seconds(rows))
    fitting = {
        field.name: column
        for field in FINDINGS.stored
        if field.name in given.keys() - _OF_THE_LAKE
        and (column := _fitting(given[field.name], field.type)) is not None
    }
    others = {name: column for name, column in given.items() if name not in fitting}
    fitting[_CHECKER] = pa.repeat(path.stem, len(rows))
    fitting[_MORE] = _as_json(others, len(rows))
    return pa.table(
        [fitting.get(field.name, pa.nulls(len(rows), field.type)) for field in FINDINGS.stored],
        schema=FINDINGS.stored,
    )


def _read(path: Path) -> pa.Table:
    try:
        with pq.ParquetFile(path) as file:
            return file.read(use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise HistoryError("cannot be read: its Parquet is damaged", file=str(path)) from error


def _in_seconds(rows: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """The columns but the run's id; `invoke_ns` is `invoke_s`, and so on."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        seconds = name.removesuffix(_NANOSECONDS) + "_s"
        if name == _RUN_ID:
            continue
        if (
            name.endswith(_NANOSECONDS)
            and pa.types.is_integer(column.type)
            and seconds not in rows.column_names
        ):
            yield seconds, pc.divide(column.cast(pa.float64(), safe=False), 1e9)
        else:
            yield name, column


def _fitting(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray | None:
    """The column with the type of the lake; `None` where it would not say the same."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not any(is_one(kind) for is_one in (pa.types.is_null, *_TAKEN[wanted])):
        return None
    try:
        return column.cast(wanted)
    except pa.ArrowInvalid:  # a number that this type cannot hold
        return None


_TAKEN: Final[Mapping[pa.DataType, tuple[Callable[[pa.DataType], bool], ...]]] = {
    NUMBER: (pa.types.is_integer,),
    REAL: (pa.types.is_floating, pa.types.is_integer),
    TEXT: (pa.types.is_string, pa.types.is_large_string),
}
"""What a column of the lake takes."""


def _as_json(columns: Mapping[str, pa.ChunkedArray], size: int) -> pa.Array:
    """The rows of these columns as JSON objects, without what is null; null for an empty one."""
    if not columns:
        return pa.nulls(size, TEXT)
    rows = zip(*(column.to_pylist() for column in columns.values()), strict=True)
    return pa.array([_object(columns, row) for row in rows], TEXT)


def _object(names: Iterable[str], row: Sequence[object]) -> str | None:
    known = {name: value for name, value in zip(names, row, strict=True) if value is not None}
    return orjson.dumps(known, default=str).decode() if known else None
