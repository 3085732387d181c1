"""The table of lost writes: the first and last of each partition for the page, all of them as CSV.

Arrow writes the CSV, as a run may lose millions of writes. A spreadsheet evaluates a cell that
begins with = + - @, a tab or a carriage return as a formula. Such text is therefore prefixed with
an apostrophe, and quoted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from harness.errors import EnvironmentFailure
from harness.machine.files import replacing
from harness.protocols.runs import NULL

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""The first characters of a formula (OWASP, CSV injection)."""


def first_and_last(lost: pd.DataFrame) -> pd.DataFrame:
    """The first and last row of each partition, with `which` and `of`, the partition's losses."""
    groups = lost.groupby("partition", sort=True)
    ends = [groups.head(1).assign(which="first"), groups.tail(1).assign(which="last")]
    of = groups.size()
    table = pd.concat(ends)
    table = table[(table["which"] == "first") | (table["partition"].map(of) > 1)]
    table = table.assign(of=table["partition"].map(of))
    return table.sort_values(["partition", "which"], ignore_index=True)


def write_csv(lost: pd.DataFrame, path: Path) -> None:
    """Write all rows of `findings.findings` as CSV that is safe to open in a spreadsheet.

    Raises EnvironmentFailure when the file cannot be written.
    """
    table = pa.table({name: _column(lost[name]) for name in lost.columns})
    try:
        with replacing(path) as partial:
            pyarrow.csv.write_csv(table, partial)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write the table of lost writes: {error.strerror}", file=str(path)
        ) from error


def _column(values: pd.Series) -> pa.Array:
    if values.dtype == object:
        return without_formulas(pa.array(values, pa.string()))
    if values.dtype.kind == "i":
        numbers = pa.array(values)
        return pc.if_else(pc.equal(numbers, NULL), None, numbers)
    return pa.array(values.round(6), from_pandas=True)


def without_formulas(texts: pa.Array) -> pa.Array:
    """The texts, changed where a spreadsheet would evaluate them."""
    risky = pc.is_in(pc.utf8_slice_codeunits(texts, 0, 1), value_set=pa.array(FORMULA))
    return pc.if_else(risky, pc.binary_join_element_wise("'", texts, ""), texts)
