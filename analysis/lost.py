"""The table of lost writes: first and last of each partition for the page, all of them as CSV.

The checkers have found them (`findings/`); nothing is counted again here. The CSV is written by
Arrow, as a run may lose millions. Spreadsheets take a cell that begins with = + - @, a tab or a
carriage return for a formula, so text that does so is led by an apostrophe, and quoted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from analysis.columns import MISSING, codes, equals, integers, tables
from analysis.latency import LOST_KINDS
from harness.errors import EnvironmentFailure
from harness.history.run_folder import RunDir

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula (OWASP, CSV injection)."""

_COLUMNS = (
    "kind", "value", "process", "partition", "offset", "intended_ns", "complete_ns", "error",
    "fault", "found_partition", "found_offset",
)  # fmt: skip
_NUMBERS = ("partition", "value", "process", "offset")


def findings(run: RunDir, kinds: Sequence[str] = LOST_KINDS) -> pd.DataFrame:
    """One row a finding of these kinds, by partition and then by time of the answer.

    Columns: `kind, partition, value, process, offset` (MISSING when unknown), `due_s`,
    `answered_s`, `error`, `fault`, the fault windows that it falls in (None: none), and where it
    was found, if it was: `found_partition, found_offset`.
    """
    pieces = [_told(pa.table({}))]
    for table in tables(sorted(run.findings.glob("*.parquet")), _COLUMNS):
        wanted = np.logical_or.reduce([equals(table, "kind", kind) for kind in kinds])
        pieces.append(_told(table.filter(pa.array(wanted))))
    frame = pd.concat(pieces, ignore_index=True)
    # Not sort_values: by several columns it makes a categorical of each, for seconds.
    keys = tuple(frame[name].to_numpy() for name in ("value", "answered_s", "partition"))
    return frame.iloc[np.lexsort(keys)].reset_index(drop=True)


def _told(table: pa.Table) -> pd.DataFrame:
    columns: dict[str, object] = {"kind": _objects(table, "kind")}
    columns |= {name: integers(table, name) for name in _NUMBERS}
    for name, source in (("due_s", "intended_ns"), ("answered_s", "complete_ns")):
        time_ns = integers(table, source)
        columns[name] = np.where(time_ns == MISSING, np.nan, time_ns / 1e9)
    columns |= {name: _objects(table, name) for name in ("error", "fault")}
    columns |= {name: integers(table, name) for name in ("found_partition", "found_offset")}
    return pd.DataFrame(columns)


def _objects(table: pa.Table, name: str) -> npt.NDArray[np.object_]:
    numbers, names = codes(table, name)
    return np.array([*names, None], dtype=object)[numbers]


def first_and_last(lost: pd.DataFrame) -> pd.DataFrame:
    """The first and the last of each partition, with `which` and `of`, how many it lost."""
    groups = lost.groupby("partition", sort=True)
    ends = [groups.head(1).assign(which="first"), groups.tail(1).assign(which="last")]
    of = groups.size()
    table = pd.concat(ends)
    table = table[(table["which"] == "first") | (table["partition"].map(of) > 1)]
    table = table.assign(of=table["partition"].map(of))
    return table.sort_values(["partition", "which"], ignore_index=True)


def write_csv(lost: pd.DataFrame, path: Path) -> None:
    """Write all rows of `findings` as CSV, safe to open in a spreadsheet.

    Raises EnvironmentFailure when the file cannot be written.
    """
    table = pa.table({name: _column(lost[name]) for name in lost.columns})
    partial = path.with_name(f".{path.name}.partial")
    try:
        pyarrow.csv.write_csv(table, partial)
        partial.replace(path)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write the table of lost writes: {error.strerror}", file=str(path)
        ) from error


def _column(values: pd.Series) -> pa.Array:
    if values.dtype == object:
        return neutral(pa.array(values, pa.string()))
    if values.dtype.kind == "i":
        whole = pa.array(values)
        return pc.if_else(pc.equal(whole, MISSING), None, whole)
    return pa.array(values.round(6), from_pandas=True)


def neutral(texts: pa.Array) -> pa.Array:
    """Text cells that a spreadsheet cannot take for a formula."""
    risky = pc.is_in(pc.utf8_slice_codeunits(texts, 0, 1), value_set=pa.array(FORMULA))
    return pc.if_else(risky, pc.binary_join_element_wise("'", texts, ""), texts)
