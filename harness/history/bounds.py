"""What Parquet files state about the keys and values in them, so that no row has to be read for it.

Writers of Parquet store the least and the greatest value of a column and its number of nulls with
each group of rows (the format's `Statistics`); they need not.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HistoryError
from harness.protocols.runs import Bounds


def bounds_of(paths: Iterable[Path]) -> Bounds | None:
    """The bounds of all rows of these files, also of rows that are no client's; `None` where a file
    does not state them. Raises HistoryError for a damaged file."""
    bounds = Bounds(0, False, 2**63 - 1, -(2**63))
    for path in paths:
        try:
            with pa.OSFile(str(path)) as source:  # a path would be looked up among file systems
                stated = _stated(pq.read_metadata(source), bounds)
        except (OSError, pa.ArrowException) as error:
            raise HistoryError("cannot be read: its Parquet is damaged", file=str(path)) from error
        if stated is None:
            return None
        bounds = stated
    return bounds


def _stated(file: pq.FileMetaData, bounds: Bounds) -> Bounds | None:
    places = {file.schema.column(place).name: place for place in range(file.num_columns)}
    if "value" not in places:
        return None
    rows, keyed, least, most = bounds
    for number in range(file.num_row_groups):
        group = file.row_group(number)
        value = group.column(places["value"]).statistics
        if value is None or not value.has_null_count:
            return None
        if value.null_count < group.num_rows:
            if not value.has_min_max:
                return None
            least, most = min(least, value.min), max(most, value.max)
        if "key" in places:
            key = group.column(places["key"]).statistics
            if key is None or not key.has_null_count:
                return None
            keyed = keyed or key.null_count < group.num_rows
        rows += group.num_rows
    return Bounds(rows, keyed, least, most)
