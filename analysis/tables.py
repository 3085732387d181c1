"""The tables of a campaign as files: `cells`, `runs` and `comparisons`, as CSV and as Parquet.

A nested field of campaign.json becomes a column with dots: `lossy_share.estimate`. The CSV is safe
to open in a spreadsheet: no text of a run becomes a formula.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from analysis.lost import without_formulas
from analysis.visible import visible
from harness.history.run_folder import write_atomically

Rows = Sequence[Mapping[str, Any]]


def write_tables(tables: Mapping[str, Rows], folder: Path) -> None:
    """Write each table as FOLDER/NAME.csv and .parquet. Raises EnvironmentFailure."""
    for name, rows in tables.items():
        table = frame(rows)
        for kind, content in ((".csv", _csv), (".parquet", _parquet)):
            write_atomically(folder / f"{name}{kind}", _bytes(table, content))


def csv_of(table: pa.Table) -> bytes:
    """A table of flat columns as CSV."""
    return _bytes(table, _csv)


def frame(rows: Rows) -> pa.Table:
    """The rows as a table of flat columns, in the order in which the rows name them."""
    flat = [dict(_flat(row)) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    return pa.table({name: pa.array([row.get(name) for row in flat]) for name in names})


def _flat(row: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _bytes(table: pa.Table, write: Callable[[pa.Table, Any], None]) -> bytes:
    stream = io.BytesIO()
    write(table, stream)
    return stream.getvalue()


def _parquet(table: pa.Table, stream: Any) -> None:
    pq.write_table(table, stream, compression="zstd")


def _csv(table: pa.Table, stream: Any) -> None:
    columns = {name: _cell(table[name]) for name in table.column_names}
    pyarrow.csv.write_csv(pa.table(columns), stream)


def _cell(column: pa.ChunkedArray) -> Any:
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    if not pa.types.is_string(column.type):
        return column
    texts = pa.array(
        [None if text is None else visible(text) for text in column.to_pylist()], pa.string()
    )
    return without_formulas(pc.fill_null(texts, ""))
