"""What the checkers found in a run, one row each, from `findings/*.parquet`.

The checkers have counted these rows already (`counts` in result.json); nothing is counted again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from harness.history.documents import LOST_KINDS
from harness.history.parquet_reader import decoded, integers, texts
from harness.history.run_folder import RunDir
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
    rows = pd.concat([_frame(_no_rows()), *frames], ignore_index=True)
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


def _no_rows() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=pa.schema([]))
