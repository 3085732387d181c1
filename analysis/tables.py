"""The tables of a campaign as files: `cells`, `runs` and `comparisons`, as CSV and as Parquet; and
any other table as CSV.

A nested field of campaign.json becomes a column with dots: `lossy_share.estimate`. The CSV is safe
to open in a spreadsheet, which evaluates a cell that begins with = + - @, a tab or a carriage
return as a formula: no text of a run, and no name of a column, does.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from analysis.visible import visible
from harness.history.run_folder import write_atomically

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""The first characters of a formula (OWASP, CSV injection)."""

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
    names = _texts(table.column_names).to_pylist()
    pyarrow.csv.write_csv(
        pa.Table.from_arrays([_cell(column) for column in table.columns], names), stream
    )


def _cell(column: pa.ChunkedArray) -> Any:
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    if not pa.types.is_string(column.type):
        return column
    return _texts(column.to_pylist())


def _texts(texts: Iterable[str | None]) -> pa.Array:
    """Texts that are all visible, and no formula; empty where there is none."""
    shown = pa.array([None if text is None else visible(text) for text in texts], pa.string())
    return without_formulas(pc.fill_null(shown, ""))


def without_formulas(texts: pa.Array) -> pa.Array:
    """The texts, changed where a spreadsheet would evaluate them."""
    risky = pc.is_in(pc.utf8_slice_codeunits(texts, 0, 1), value_set=pa.array(FORMULA))
    return pc.if_else(risky, pc.binary_join_element_wise("'", texts, ""), texts)
