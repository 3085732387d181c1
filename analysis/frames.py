"""The rows of a run's files as pandas data frames, as a notebook wants them.

A frame has the columns of its file, except `run_id`. Times are seconds since the run's start
(`time_ns` becomes `time_s`), texts are Python strings, and what is missing is missing for pandas
(`<NA>`, NaN or None), never a number that stands for it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from analysis import latency
from analysis.findings import fitting, found_columns, plain
from harness.faults.journal import windows
from harness.history import HISTORY, OBSERVATIONS, READS
from harness.history.documents import FaultResult, RunResult
from harness.history.parquet_reader import decoded, integers, texts
from harness.history.run_folder import RunDir
from harness.models import Model
from harness.protocols import FaultWindow
from harness.protocols.runs import NULL, Ints

_LEFT_OUT: Final = "run_id"
_NANOSECONDS: Final = "_ns"
_CHECKER: Final = "checker"
_COUNTED: Final = ("touched", "ops_begun", "ops_acknowledged")


def history(run: RunDir) -> pd.DataFrame:
    """Every row of the history, in its order: invocations, completions, and the nemesis' rows
    (process -1)."""
    return _frame(run.parts(run.history), HISTORY)


def reads(run: RunDir) -> pd.DataFrame:
    """Every record that the final read has found, with its reader."""
    return _frame(run.parts(run.reads), READS)


def observations(run: RunDir) -> pd.DataFrame:
    """What each node answered when it was queried for who leads, in the order of time."""
    rows = _frame(run.parts(run.observations), OBSERVATIONS)
    return rows.sort_values("time_s", kind="stable", ignore_index=True)


def findings(run: RunDir) -> pd.DataFrame:
    """What the checkers have found, a row each. `checker` is who found it; the other columns are
    those of that checker, of any type: an integer beyond 64 bits is a Python object. Empty where
    nothing was found, or nothing was judged."""
    frames = [_found(file) for file in sorted(run.findings.glob("*.parquet"))]
    if not frames:
        return pd.DataFrame({name: np.empty(0, object) for name in (_CHECKER, "kind", "value")})
    rows = _joined(frames)
    return rows[[_CHECKER, *(name for name in rows.columns if name != _CHECKER)]]


def _found(file: Path) -> pd.DataFrame:
    """What one checker has found."""
    columns = {name: _exact(column) for name, column in found_columns(file).items()}
    return pd.DataFrame(columns).assign(**{_CHECKER: file.stem})


def _exact(column: pa.ChunkedArray) -> pd.Series[Any]:
    """A column of any type; pandas rounds no number of it."""
    kind = plain(column.type)
    if not pa.types.is_integer(kind):
        values: pd.Series[Any] = column.cast(kind).to_pandas()
        return values.convert_dtypes(convert_integer=False)
    numbers = fitting(column, pa.int64())
    if numbers is None:
        return pd.Series(column.to_pylist(), dtype=object)
    nullable: pd.Series[Any] = numbers.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    return nullable


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all frames. Where they differ in the type of a column, its values are Python
    objects: pandas would round integers beside floats."""
    types: dict[Hashable, set[Any]] = {}
    for frame in frames:
        for name, kind in frame.dtypes.items():
            types.setdefault(name, set()).add(kind)
    mixed = {name for name, kinds in types.items() if len(kinds) > 1}
    same = [frame.astype({name: object for name in frame if name in mixed}) for frame in frames]
    return pd.concat(same, ignore_index=True)


def writes(run: RunDir, model: Model) -> pd.DataFrame:
    """A row for each write, in the order of completion: `value, process, partition, offset`,
    `begin_s` (when it was due), `latency_ms` from then on, and `outcome` as a category
    (`analysis.latency.OUTCOMES`)."""
    rows = latency.writes(run, model)
    numbers = {name: _nullable(rows[name].to_numpy()) for name in ("partition", "offset")}
    names = np.array(latency.OUTCOMES, dtype=object)
    outcome = pd.Categorical(names[rows["outcome"].to_numpy()], categories=latency.OUTCOMES)
    return rows.assign(**numbers, outcome=outcome)


def faults(run: RunDir, result: RunResult | None) -> pd.DataFrame:
    """The run's faults in the order in which they began: from its result, or, while it has not been
    judged, from its journal."""
    names = [each.name for each in fields(FaultResult)]
    found: Iterable[FaultResult | FaultWindow] = result.faults if result else windows(run.faults)
    rows = [asdict(fault) for fault in found]
    columns = {name: [row.get(name) for row in rows] for name in names}
    counted = {name: pd.array(columns[name], dtype="Int64") for name in _COUNTED}
    return pd.DataFrame({**columns, **counted}, columns=names)


def _frame(paths: Iterable[Path], schema: pa.Schema) -> pd.DataFrame:
    """All rows of files of this schema. A column that an older file lacks is missing in each row.
    Raises HistoryError."""
    names = [name for name in schema.names if name != _LEFT_OUT]
    decode = partial(_decode, schema=schema, names=names)
    frames = list(decoded(paths, names, decode, optional=names))
    if not frames:
        empty = pa.RecordBatch.from_pylist([], schema=schema)
        return decode(empty)
    return pd.concat(frames, ignore_index=True)


def _decode(batch: pa.RecordBatch, *, schema: pa.Schema, names: list[str]) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for name in names:
        if name.endswith(_NANOSECONDS):
            time_ns = integers(batch, name)
            seconds = np.where(time_ns == NULL, np.nan, time_ns / 1e9)
            columns[name.removesuffix(_NANOSECONDS) + "_s"] = seconds
        else:
            columns[name] = _column(batch, name, schema.field(name).type)
    return pd.DataFrame(columns)


def _column(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> Any:
    if pa.types.is_integer(kind):
        return _nullable(integers(batch, name))
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind):
        return texts(batch, name).objects()
    if name not in batch.schema.names:
        return np.full(batch.num_rows, None, dtype=object)
    return batch[name].to_pandas()


def _nullable(numbers: Ints) -> pd.api.extensions.ExtensionArray:
    missing = numbers == NULL
    return pd.arrays.IntegerArray(np.where(missing, 0, numbers).astype(np.int64), missing)
