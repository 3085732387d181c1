"""What Parquet files state about the keys and values in them, so that few rows are read for it.

Writers of Parquet store the least and the greatest value of a column and its number of nulls with
each group of rows (the format's `Statistics`); they need not. A nemesis' rows have a key too, which
is not that of a value: a file that holds some is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HistoryError
from harness.protocols.runs import Bounds


def stated(path: Path) -> Bounds | None:
    """The bounds of all rows of a file; `None` where it does not state them, or a nemesis' row may
    have a key. Raises HistoryError for a damaged file."""
    try:
        with pa.OSFile(str(path)) as source:  # a path would be looked up among file systems
            footer = pq.read_metadata(source)
    except (OSError, pa.ArrowException) as error:
        raise HistoryError("cannot be read: its Parquet is damaged", file=str(path)) from error
    names = [footer.schema.column(place).path for place in range(footer.num_columns)]
    groups = [_of_group(footer.row_group(n), names) for n in range(footer.num_row_groups)]
    known = [each for each in groups if each is not None]
    return together(known) if len(known) == len(groups) else None


def together(parts: Iterable[Bounds]) -> Bounds:
    """The bounds of all parts."""
    return reduce(_both, parts, Bounds.none())


def _both(one: Bounds, other: Bounds) -> Bounds:
    if not one.rows or not other.rows:
        return one if one.rows else other
    least, most = min(one.least, other.least), max(one.most, other.most)
    return Bounds(one.rows + other.rows, one.keyed or other.keyed, least, most)


def _of_group(group: pq.RowGroupMetaData, names: list[str]) -> Bounds | None:
    value, key, process = (_statistics(group, names, each) for each in ("value", "key", "process"))
    if value is None or key is None:
        return None
    keyed = key.null_count < group.num_rows
    if keyed and "process" in names and (process is None or not (process.min or 0) >= 0):
        return None
    if value.null_count == group.num_rows:
        return Bounds.none()
    if not value.has_min_max or value.min > value.max:
        return None
    return Bounds(group.num_rows, keyed, value.min, value.max)


def _statistics(group: pq.RowGroupMetaData, names: list[str], column: str) -> Any:
    """Those of a column; `None`: it has none, or does not say how many nulls it has."""
    if column not in names:
        return None
    found = group.column(names.index(column)).statistics
    return found if found is not None and found.has_null_count else None
