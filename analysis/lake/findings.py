"""What the checkers of a run have found, in the columns of the lake.

A checker, which may be a plug-in, chooses its columns and their types. Those that the lake has too,
with a type that says the same, are in these columns; all others are in `more`, as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import orjson
import pyarrow as pa

from analysis.found_columns import fitting, found_columns
from analysis.lake.schema import FINDINGS, TEXT
from harness.history.run_folder import RunDir

_RUN_ID: Final = "run_id"
_CHECKER: Final = "checker"
_MORE: Final = "more"
_OF_THE_LAKE: Final = frozenset({_RUN_ID, "run_cell", _CHECKER, _MORE})
"""Columns that the lake fills: one of a checker with such a name is another."""


def findings(folder: RunDir) -> pa.Table:
    """The findings of a judged cell; the columns that name it are null. Raises HistoryError."""
    files = sorted(folder.findings.glob("*.parquet"))
    return pa.concat_tables([FINDINGS.stored.empty_table(), *map(_columns, files)])


def _columns(path: Path) -> pa.Table:
    """The findings of one checker."""
    given = found_columns(path)
    size = len(next(iter(given.values()), ()))
    held = {
        field.name: column
        for field in FINDINGS.stored
        if field.name in given.keys() - _OF_THE_LAKE
        and (column := fitting(given[field.name], field.type)) is not None
    }
    others = {name: column for name, column in given.items() if name not in held}
    held[_CHECKER] = pa.repeat(path.stem, size)
    held[_MORE] = _as_json(others, size)
    return pa.table(
        [held.get(field.name, pa.nulls(size, field.type)) for field in FINDINGS.stored],
        schema=FINDINGS.stored,
    )


def _as_json(columns: Mapping[str, pa.ChunkedArray], size: int) -> pa.Array:
    """The rows of these columns as JSON objects, without what is null; null for an empty one."""
    if not columns:
        return pa.nulls(size, TEXT)
    rows = zip(*(column.to_pylist() for column in columns.values()), strict=True)
    return pa.array([_object(columns, row) for row in rows], TEXT)


def _object(names: Iterable[str], row: Sequence[object]) -> str | None:
    known = {name: value for name, value in zip(names, row, strict=True) if value is not None}
    return orjson.dumps(known, default=str).decode() if known else None
