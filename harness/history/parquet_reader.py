"""The one reader of a run's Parquet files: rows as numpy columns, batch by batch.

A run may hold tens of millions of rows. So a batch holds at most `BATCH_ROWS` rows, only the
columns that the caller names are read, text stays a small integer code, and nothing here walks
over rows in Python.

A missing number is `NULL`, which is no value, offset, partition or instant; a missing text has the
code -1. A row without a value in a column that must have one is an error: HistoryError names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import HistoryError
from harness.history.schemas import ADDED, HISTORY, READS, WRITE

Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bits = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

NULL: Final = -(2**63)
"""A missing integer."""

BATCH_ROWS: Final = 2**20

INVOKED, OK, FAIL, INFO = 1, 2, 4, 8
_MARKS: Final = {"invoke": INVOKED, "ok": OK, "fail": FAIL, "info": INFO}
_KEYS_AND_VALUES: Final = ("key", "value")
_WRITES: Final = (
    *("process", "type", "f", "key", "value", "partition", "offset", "error"),
    *("intended_ns", "time_ns"),
)
_READS: Final = ("reader", *_KEYS_AND_VALUES, "partition", "offset")


class Texts(NamedTuple):
    """A column of text: `names[code]`, or missing where the code is -1."""

    codes: Int32s
    names: list[str]

    def places(self, names: Sequence[str]) -> Ints:
        """The place of each text in `names`, which holds all of them; -1 where it is missing."""
        place = {name: number for number, name in enumerate(names)}
        return np.array([*(place[name] for name in self.names), -1], np.int64)[self.codes]

    def isin(self, names: Iterable[str]) -> Bools:
        """Which rows hold one of `names`."""
        wanted = set(names)
        return np.array([*(name in wanted for name in self.names), False])[self.codes]

    def objects(self) -> npt.NDArray[np.object_]:
        """The column as Python strings, `None` where it is missing."""
        return np.array([*self.names, None], dtype=object)[self.codes]


class Writes(NamedTuple):
    """Rows of HISTORY that are writes. `mark` is INVOKED, or how the write ended."""

    key: Texts
    value: Ints
    mark: Bits
    process: Ints
    partition: Ints
    offset: Ints
    error: Texts
    intended_ns: Ints
    time_ns: Ints

    @property
    def delay_ns(self) -> Ints:
        """From the instant at which the write was due: to its answer, this is its latency; to its
        invocation, the lateness of the load generator. Counted from the due time, a stall cannot
        hide behind clients that wait for it (coordinated omission)."""
        return self.time_ns - self.intended_ns


class Reads(NamedTuple):
    """Rows of READS: records that a reader returned; several readers may return the same."""

    reader: Texts
    key: Texts
    value: Ints
    partition: Ints
    offset: Ints


Part = TypeVar("Part", Writes, Reads)
Made = TypeVar("Made")


def some(rows: Part, chosen: Bools) -> Part:
    """The chosen rows."""
    return type(rows)._make(
        Texts(column.codes[chosen], column.names) if isinstance(column, Texts) else column[chosen]
        for column in rows
    )


def writes(paths: Iterable[Path]) -> Iterator[Writes]:
    """The writes of `history/`: neither the nemesis' rows nor other operations."""
    return decoded(paths, _WRITES, _writes)


def reads(paths: Iterable[Path]) -> Iterator[Reads]:
    """The records of `reads/`, of all readers."""
    return decoded(paths, _READS, _reads)


def keys_and_values(paths: Iterable[Path]) -> Iterator[tuple[Texts, Ints]]:
    """The keys and values of all rows of `history/` or `reads/`."""
    return decoded(paths, _KEYS_AND_VALUES, _keys_and_values)


def decoded(
    paths: Iterable[Path],
    columns: Sequence[str],
    decode: Callable[[pa.RecordBatch], Made],
    *,
    optional: Iterable[str] = (),
) -> Iterator[Made]:
    """What `decode` makes of each batch of these columns; `optional` ones may be absent.

    Raises HistoryError when a file is damaged, lacks a column, or has an unusable row.
    """
    may_lack = frozenset(optional)
    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                present = set(file.schema_arrow.names)
                for name in columns:
                    if not (name in present or name in may_lack or (path.name, name) in ADDED):
                        raise UnusableRow("lacks a column", name)
                wanted = [name for name in columns if name in present]
                for batch in file.iter_batches(BATCH_ROWS, columns=wanted, use_threads=False):
                    if batch.num_rows:
                        yield decode(batch)
        except UnusableRow as error:
            raise HistoryError(
                str(error),
                file=str(path),
                key=error.column,
                hint="copy the run folder again; if the copy is the same, report its writer",
            ) from error
        except (OSError, pa.ArrowException) as error:
            raise HistoryError("cannot be read: its Parquet is damaged", file=str(path)) from error


class UnusableRow(Exception):
    """A row that contradicts its column."""

    def __init__(self, what: str, column: str) -> None:
        super().__init__(what)
        self.column = column


def integers(batch: pa.RecordBatch, name: str) -> Ints:
    """An integer column; NULL where a number, or the whole column, is missing."""
    if name not in batch.schema.names:
        return np.full(batch.num_rows, NULL)
    column = batch[name]
    if column.null_count:
        column = pc.fill_null(column.cast(pa.int64()), NULL)
    numbers: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64, copy=False)


def texts(batch: pa.RecordBatch, name: str) -> Texts:
    """A text column; all of it is missing where the batch has no such column."""
    if name not in batch.schema.names:
        return Texts(np.full(batch.num_rows, -1, np.int32), [])
    column = batch[name]
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes = pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False)
    return Texts(codes.astype(np.int32, copy=False), column.dictionary.to_pylist())


def _writes(batch: pa.RecordBatch) -> Writes:
    _refuse_nulls(batch, HISTORY)
    kind, f = texts(batch, "type"), texts(batch, "f")
    marks = np.array([_MARKS.get(name, 0) for name in kind.names] + [0], np.uint8)
    process = integers(batch, "process")
    chosen = f.isin([WRITE]) & (process >= 0)
    if not marks[:-1].all() and not marks[kind.codes[chosen]].all():
        raise UnusableRow("a write neither begins nor ends as ok, fail or info", "type")
    if batch["value"].null_count and (chosen & ~_valid(batch["value"])).any():
        raise UnusableRow("a write has no value", "value")
    columns = Writes(
        key=texts(batch, "key"),
        value=integers(batch, "value"),
        mark=marks[kind.codes],
        process=process,
        partition=integers(batch, "partition"),
        offset=integers(batch, "offset"),
        error=texts(batch, "error"),
        intended_ns=integers(batch, "intended_ns"),
        time_ns=integers(batch, "time_ns"),
    )
    return columns if chosen.all() else some(columns, chosen)


def _reads(batch: pa.RecordBatch) -> Reads:
    _refuse_nulls(batch, READS)
    partition, offset = integers(batch, "partition"), integers(batch, "offset")
    return Reads(texts(batch, "reader"), *_keys_and_values(batch), partition, offset)


def _keys_and_values(batch: pa.RecordBatch) -> tuple[Texts, Ints]:
    return texts(batch, "key"), integers(batch, "value")


def _refuse_nulls(batch: pa.RecordBatch, schema: pa.Schema) -> None:
    for name in batch.schema.names:
        if batch[name].null_count and not schema.field(name).nullable:
            raise UnusableRow("a row has null where something must stand", name)


def _valid(column: pa.Array) -> Bools:
    valid: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return valid
