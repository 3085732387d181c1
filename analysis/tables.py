"""The tables of a campaign: its cells as a page lays them out (`matrix`), and `cells`, `runs` and
`comparisons` as files, as CSV and as Parquet; and any other table as CSV.

In the matrix one axis goes across, all other axes down, in groups. The axis across is the last one
with at most ACROSS values: the axis that varies last in the file is the one that a reader wants
side by side. Without such an axis every cell is a row. A combination that the campaign excludes has
a place but no cell. A cell that cannot run has a place and no number.

In the files a nested field of campaign.json becomes a column with dots: `lossy_share.estimate`. The
CSV is safe to open in a spreadsheet, which evaluates a cell that begins with = + - @, a tab or a
carriage return as a formula: no text of a run, and no name of a column, does.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from analysis.wording import visible
from harness.history.run_folder import write_atomically

ACROSS: Final = 6
"""The largest number of columns that fit beside the heads of the rows."""


@dataclass(frozen=True)
class Head:
    """The label of one axis; it covers `rows` rows, beginning with this one."""

    axis: str
    label: str
    rows: int


@dataclass(frozen=True)
class Row:
    """One row: the heads that begin here, all its labels, and the cell's place for each column."""

    heads: tuple[Head, ...]
    labels: tuple[str, ...]
    cells: tuple[int | None, ...]


@dataclass(frozen=True)
class Matrix:
    """The table. `across` is None if there is only one column. `impossible` holds the places of
    cells that never run."""

    down: tuple[str, ...]
    across: str | None
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    impossible: frozenset[int] = frozenset()

    @property
    def in_order(self) -> list[int]:
        """The places of all cells that can run, row by row."""
        places = (place for row in self.rows for place in row.cells if place is not None)
        return [place for place in places if place not in self.impossible]


def matrix(
    axes: Mapping[str, Sequence[str]],
    keys: Sequence[Mapping[str, str]],
    impossible: Iterable[int] = (),
) -> Matrix:
    """The table of these cells; a cell's place is its index in `keys`."""
    across = next((name for name in reversed(list(axes)) if len(axes[name]) <= ACROSS), None)
    down = tuple(name for name in axes if name != across)
    columns = tuple(axes[across]) if across is not None else ("",)
    place = {tuple(key[name] for name in axes): at for at, key in enumerate(keys)}
    rows: dict[tuple[str, ...], tuple[int | None, ...]] = {}
    for labels in itertools.product(*(axes[name] for name in down)):
        known = dict(zip(down, labels, strict=True))
        cells = tuple(
            place.get(tuple((known | {across: column})[name] for name in axes))
            for column in columns
        )
        if any(cell is not None for cell in cells):
            rows[labels] = cells
    heads = (_heads(down, list(rows), at) for at in range(len(rows)))
    return Matrix(
        down,
        across,
        columns,
        tuple(Row(head, *row) for head, row in zip(heads, rows.items(), strict=True)),
        frozenset(impossible),
    )


def _heads(down: Sequence[str], rows: Sequence[tuple[str, ...]], at: int) -> tuple[Head, ...]:
    """The labels that begin in row `at`: a label covers all rows that share it and its parents."""
    heads = []
    for depth, axis in enumerate(down):
        same = rows[at][: depth + 1]
        if at and rows[at - 1][: depth + 1] == same:
            continue
        span = sum(1 for row in rows if row[: depth + 1] == same)
        heads.append(Head(axis, same[depth], span))
    return tuple(heads)


FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""The first characters of a formula (OWASP, CSV injection)."""

Rows = Sequence[Mapping[str, Any]]


def write_tables(tables: Mapping[str, Rows], folder: Path) -> None:
    """Write each table as FOLDER/NAME.csv and .parquet. Raises EnvironmentFailure."""
    for name, rows in tables.items():
        table, stream = frame(rows), io.BytesIO()
        pq.write_table(table, stream, compression="zstd")
        write_atomically(folder / f"{name}.csv", csv_of(table))
        write_atomically(folder / f"{name}.parquet", stream.getvalue())


def csv_of(table: pa.Table) -> bytes:
    """A table of flat columns as CSV."""
    names, stream = _texts(table.column_names).to_pylist(), io.BytesIO()
    shown = pa.Table.from_arrays([_cell(column) for column in table.columns], names)
    pyarrow.csv.write_csv(shown, stream)
    return stream.getvalue()


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
