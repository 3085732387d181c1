"""The one reader of a run's Parquet files: rows as numpy columns, batch by batch.

A run may hold tens of millions of rows. So a batch holds at most `BATCH_ROWS` rows, only the
columns that the caller names are read, text stays a small integer code, and nothing here walks
over rows in Python.

A missing number is `NULL`, which is not a value, an offset, a partition or an instant; a missing
text has the code -1. A row without a value in a column that must have one is an error: HistoryError
names it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import HistoryError, TooNewError
from harness.history import ADDED, DELIVERIES, ENDS, HISTORY, READS, SCHEMA_VERSION
from harness.history.parquet_writer import one_batch
from harness.history.run_folder import RunDir
from harness.protocols.runs import (
    FAIL,
    INFO,
    INVOKED,
    NULL,
    OK,
    Bits,
    Bools,
    Deliveries,
    Ints,
    Lists,
    Operations,
    Reads,
    Texts,
    Writes,
)

# The Parquet parts of a run folder, each of which is opened once to see whether it can be used and
# what its footer states about its rows.

_SPANNED: Final = ("index", "partition", "reader")
"""The columns whose least and greatest values matter."""


_FEW: Final = 64
"""The footers of more parts are not kept: those of all parts of a large run would take more memory
than all its values."""


class Part(NamedTuple):
    """A Parquet file below a run folder, and what its footer states; the `footer` itself only of
    one of a few."""

    name: str
    path: Path
    rows: int
    spans: Mapping[str, tuple[Any, Any] | None]
    footer: pq.FileMetaData | None

    @classmethod
    def opened(cls, path: Path, schema: pa.Schema | None = None, *, keep: bool = False) -> Part:
        """Raises HistoryError unless it is a complete Parquet file, with the columns of `schema`
        where that is given."""
        try:
            # A path would be looked up among file systems.
            with pa.OSFile(str(path)) as source, pq.ParquetFile(source, pre_buffer=False) as file:
                found, footer = None if schema is None else file.schema_arrow, file.metadata
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(path) from error
        if found is not None:
            refuse_columns(path, found, schema)
        names = footer.schema.names
        spans = {name: _span(footer, names.index(name)) for name in _SPANNED if name in names}
        name, kept = f"{path.parent.name}/{path.name}", footer if keep else None
        return cls(name, path, footer.num_rows, spans, kept)

    def span(self, column: str) -> tuple[Any, Any] | None:
        """The least and the greatest value of a column, by the statistics; `None` without any."""
        return self.spans[column]

    def ends_of(self, column: str) -> tuple[Any, Any] | None:
        """The same, read if it has no statistics; `None` if all values are null."""
        if (span := self.span(column)) is not None or not self.rows:
            return span
        values = [
            value for value in self.read(column)[column].unique().to_pylist() if value is not None
        ]
        return (min(values), max(values)) if values else None

    def read(self, *columns: str) -> pa.RecordBatch:
        """Some of its columns, all rows in one batch."""
        with (
            pa.OSFile(str(self.path)) as source,
            pq.ParquetFile(source, metadata=self.footer, pre_buffer=False) as file,
        ):
            return one_batch(file.read(columns=list(columns), use_threads=False))


class Parts(NamedTuple):
    """The parts of a run folder that are Parquet; `damaged`: observations that are not."""

    history: tuple[Part, ...]
    reads: tuple[Part, ...]
    deliveries: tuple[Part, ...]
    observations: tuple[Part, ...]
    damaged: tuple[str, ...]

    @classmethod
    def of(cls, rundir: RunDir) -> Parts:
        """Raises HistoryError for a part that a verdict rests on and that cannot be used."""
        history = _all_opened(rundir.parts(rundir.history), HISTORY)
        reads = _all_opened(rundir.parts(rundir.reads), READS)
        deliveries = _all_opened(rundir.parts(rundir.deliveries), DELIVERIES)
        observations, damaged = [], []
        paths = rundir.parts(rundir.observations)
        for path in paths:
            try:
                observations.append(Part.opened(path, keep=len(paths) <= _FEW))
            except HistoryError:
                damaged.append(f"{path.parent.name}/{path.name}")
        return cls(history, reads, deliveries, tuple(observations), tuple(damaged))

    @property
    def footers(self) -> dict[Path, pq.FileMetaData]:
        """Those that were kept."""
        parts = (*self.history, *self.reads, *self.deliveries, *self.observations)
        return {part.path: part.footer for part in parts if part.footer is not None}


def _all_opened(paths: Sequence[Path], schema: pa.Schema) -> tuple[Part, ...]:
    keep = len(paths) <= _FEW
    return tuple(Part.opened(path, schema, keep=keep) for path in paths)


def rows_of_ends(path: Path) -> list[dict[str, Any]]:
    """The rows of `reads/ends.parquet`. Raises HistoryError unless it is one."""
    try:
        with pa.OSFile(str(path)) as source, pq.ParquetFile(source, pre_buffer=False) as file:
            refuse_columns(path, file.schema_arrow, ENDS)
            rows: list[dict[str, Any]] = file.read(use_threads=False).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path) from error
    return rows


def refuse_columns(path: Path, found: pa.Schema, schema: pa.Schema) -> None:
    """Raise HistoryError unless a file with the schema `found` has the columns of `schema`, and a
    version that this ackloss reads."""
    version = int((found.metadata or {}).get(b"ackloss.schema", SCHEMA_VERSION))
    if version > SCHEMA_VERSION:
        raise TooNewError(
            f"has schema {version}, this ackloss reads {SCHEMA_VERSION}",
            file=str(path),
            key="ackloss.schema",
            hint="use the ackloss that wrote it, or a newer one",
        )
    if found.equals(schema):
        return
    for column in schema:
        place = found.get_field_index(column.name)
        if place < 0 and {(path.name, column.name), (path.parent.name, column.name)} & ADDED:
            continue
        if place < 0:
            raise HistoryError("lacks a column", file=str(path), key=column.name)
        if _plain(found.field(place).type) != _plain(column.type):
            raise HistoryError(
                f"holds {found.field(place).type}, not {column.type}",
                file=str(path),
                key=column.name,
            )


def _unreadable(path: Path) -> HistoryError:
    is_empty = path.exists() and path.stat().st_size == 0
    return HistoryError("is empty" if is_empty else "is cut off, or not Parquet", file=str(path))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _span(footer: pq.FileMetaData, place: int) -> tuple[Any, Any] | None:
    groups = [footer.row_group(n) for n in range(footer.num_row_groups)]
    statistics = [group.column(place).statistics for group in groups if group.num_rows]
    if not statistics or not all(each is not None and each.has_min_max for each in statistics):
        return None
    return min(each.min for each in statistics), max(each.max for each in statistics)


BATCH_ROWS: Final = 2**20

_MARKS: Final = {"invoke": INVOKED, "ok": OK, "fail": FAIL, "info": INFO}
_STORED_NAMES: Final = {"place": "index", "mark": "type"}
"""Columns of rows whose name differs in the file."""
_KEYS_AND_VALUES: Final = ("key", "value")
_WRITTEN: Final = ("process", "f", *_KEYS_AND_VALUES)
_READS: Final = ("reader", *_KEYS_AND_VALUES, "partition", "offset")

Footers = Mapping[Path, pq.FileMetaData]
"""Footers of files that were opened before, by path."""
_UNKNOWN: Final[Footers] = MappingProxyType({})

Columns = TypeVar("Columns", Writes, Reads, Operations)
OfHistory = TypeVar("OfHistory", Writes, Operations)
Made = TypeVar("Made")


def some(rows: Columns, chosen: Bools | Ints) -> Columns:
    """The chosen rows; of those without lists also by their places."""
    return type(rows)._make(_some_of(column, chosen) for column in rows)


def _some_of(column: Any, chosen: Bools | Ints) -> Any:
    if isinstance(column, Texts):
        return Texts(column.codes[chosen], column.names)
    if not isinstance(column, Lists):
        return column[chosen]
    lengths = np.diff(column.starts)
    starts = np.concatenate([[0], np.cumsum(lengths[chosen])])
    return Lists(starts, column.values[np.repeat(chosen, lengths)], column.present[chosen])


def writes(
    paths: Iterable[Path], functions: Collection[str], footers: Footers = _UNKNOWN
) -> Iterator[Writes]:
    """The operations of `history/` with one of these functions, which write: not the nemesis'."""
    return _of_history(Writes, paths, functions, footers)


def operations(
    paths: Iterable[Path], functions: Collection[str], footers: Footers = _UNKNOWN
) -> Iterator[Operations]:
    """The operations of `history/` with one of these functions: not the nemesis'."""
    return _of_history(Operations, paths, functions, footers)


def reads(paths: Iterable[Path], footers: Footers = _UNKNOWN) -> Iterator[Reads]:
    """The records of `reads/`, of all readers."""
    return decoded(paths, _READS, _reads, footers=footers)


def deliveries(paths: Iterable[Path]) -> Iterator[Deliveries]:
    """The rows of `deliveries/`."""
    columns: list[str] = [_STORED_NAMES.get(name, name) for name in Deliveries._fields]
    return decoded(paths, columns, _deliveries)


def written(paths: Iterable[Path], functions: Collection[str]) -> Iterator[tuple[Texts, Ints]]:
    """The keys and values of the operations of `history/` with one of these functions."""
    return decoded(paths, _WRITTEN, partial(_written, functions=functions))


def keys_and_values(paths: Iterable[Path]) -> Iterator[tuple[Texts, Ints]]:
    """The keys and values of all rows of `history/` or `reads/`."""
    return decoded(paths, _KEYS_AND_VALUES, _keys_and_values)


def decoded(
    paths: Iterable[Path],
    columns: Sequence[str] | None,
    decode: Callable[[pa.RecordBatch], Made],
    *,
    optional: Iterable[str] = (),
    footers: Footers = _UNKNOWN,
) -> Iterator[Made]:
    """The result of `decode` for each batch of these columns, or of all; `optional` ones may be
    absent. The `footers` that are given are not read again.

    Raises HistoryError when a file is damaged, lacks a column, or has an unusable row.
    """
    may_lack = frozenset(optional)
    for path in paths:
        try:
            with (
                pa.OSFile(str(path)) as source,  # a path would be looked up among file systems
                pq.ParquetFile(source, metadata=footers.get(path), pre_buffer=False) as file,
            ):
                names = None if columns is None else _there(file, path, columns, may_lack)
                for batch in file.iter_batches(BATCH_ROWS, columns=names, use_threads=False):
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


def _there(
    file: pq.ParquetFile, path: Path, columns: Sequence[str], may_lack: frozenset[str]
) -> list[str]:
    columns_there = (file.schema.column(place) for place in range(len(file.schema)))
    present = {column.path.partition(".")[0] for column in columns_there}
    for name in columns:
        added = {(path.name, name), (path.parent.name, name)} & ADDED
        if not (name in present or name in may_lack or added):
            raise UnusableRow("lacks a column", name)
    return [name for name in columns if name in present]


class UnusableRow(Exception):
    """A row that contradicts its column."""

    def __init__(self, what: str, column: str) -> None:
        super().__init__(what)
        self.column = column


def integers(batch: pa.RecordBatch, name: str) -> Ints:
    """An integer column; NULL where a number, or the complete column, is missing, and in all rows
    of a batch of which int64 does not hold every value."""
    place = batch.schema.get_field_index(name)
    return np.full(batch.num_rows, NULL) if place < 0 else _numbers(batch.column(place))


def _numbers(column: pa.Array) -> Ints:
    if column.null_count == len(column):
        return np.full(len(column), NULL)
    if not pa.types.is_signed_integer(column.type):  # a checker may find values of any kind
        try:
            column = column.cast(pa.int64())
        except pa.ArrowInvalid:
            return np.full(len(column), NULL)
    return _filled(column, np.int64(NULL)).astype(np.int64, copy=False)


def texts(batch: pa.RecordBatch, name: str) -> Texts:
    """A text column; all of it is missing if the batch has no such column."""
    place = batch.schema.get_field_index(name)
    if place < 0:
        return Texts.nulls(batch.num_rows)
    column = batch.column(place)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes = column.indices
    if codes.null_count == len(codes):
        return Texts.nulls(len(codes))
    numbers = _filled(codes, np.int32(-1)).astype(np.int32, copy=False)
    return Texts(numbers, column.dictionary.to_pylist())


def _filled(column: pa.Array, nothing: np.signedinteger[Any]) -> npt.NDArray[Any]:
    """A column of integers, not all of them null, with `nothing` in place of null. (Kernels of
    Arrow take three times as long, and its `to_numpy` imports pandas.)"""
    stored = np.frombuffer(column.buffers()[1], str(column.type))
    numbers: npt.NDArray[Any] = stored[column.offset : column.offset + len(column)]
    return np.where(_valid(column), numbers, nothing) if column.null_count else numbers


def lists(batch: pa.RecordBatch, name: str) -> Lists:
    """A column of lists of integers; none is present if the batch has no such column."""
    if name not in batch.schema.names:
        nothing = np.zeros(0, np.int64)
        starts = np.zeros(batch.num_rows + 1, np.int64)
        return Lists(starts, nothing, np.zeros(batch.num_rows, np.bool_))
    column = batch[name]
    lengths = np.maximum(_numbers(pc.list_value_length(column)), 0)  # NULL is below
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Lists(starts, _numbers(column.flatten()), _valid(column))


def _of_history(
    kind: type[OfHistory], paths: Iterable[Path], functions: Collection[str], footers: Footers
) -> Iterator[OfHistory]:
    columns: list[str] = [_STORED_NAMES.get(name, name) for name in kind._fields]
    needed = tuple(dict.fromkeys(("process", "f", *columns)))
    decode = partial(_rows, kind=kind, functions=functions)
    return decoded(paths, needed, decode, footers=footers)


def _rows(batch: pa.RecordBatch, kind: type[OfHistory], functions: Collection[str]) -> OfHistory:
    chosen, marks = _chosen(batch, functions)
    if kind is Writes:
        _refuse_no_value(batch, chosen)
    rows = kind._make(
        marks if name == "mark" else _column(batch, _STORED_NAMES.get(name, name), HISTORY)
        for name in kind._fields
    )
    return rows if chosen is None else some(rows, chosen)


def _refuse_no_value(batch: pa.RecordBatch, chosen: Bools | None) -> None:
    if not _valid(batch["value"])[_all(chosen)].all():
        raise UnusableRow("a write has no value", "value")


def _column(batch: pa.RecordBatch, name: str, schema: pa.Schema) -> Ints | Texts | Lists:
    kind = schema.field(name).type
    if pa.types.is_dictionary(kind):
        return texts(batch, name)
    return lists(batch, name) if pa.types.is_list(kind) else integers(batch, name)


def _chosen(batch: pa.RecordBatch, functions: Collection[str]) -> tuple[Bools | None, Bits]:
    """Which rows are clients' operations of these functions, and the marks of all rows."""
    chosen, kind = _of_clients(batch, functions), texts(batch, "type")
    marks = np.array([_MARKS.get(name, 0) for name in kind.names] + [0], np.uint8)
    if not marks[:-1].all() and not marks[kind.codes[_all(chosen)]].all():
        raise UnusableRow("an operation neither begins nor ends as ok, fail or info", "type")
    return chosen, marks[kind.codes]


def _of_clients(batch: pa.RecordBatch, functions: Collection[str]) -> Bools | None:
    """Which rows are clients' operations of these functions; `None`: all of them are."""
    _refuse_nulls(batch, HISTORY)
    f, process = texts(batch, "f"), integers(batch, "process")
    if set(f.names) <= set(functions) and process.min() >= 0:
        return None
    chosen = f.isin(functions) & (process >= 0)
    return None if chosen.all() else chosen


def _all(chosen: Bools | None) -> Any:
    """An index of the chosen rows."""
    return slice(None) if chosen is None else chosen


def _reads(batch: pa.RecordBatch) -> Reads:
    _refuse_nulls(batch, READS)
    partition, offset = integers(batch, "partition"), integers(batch, "offset")
    return Reads(texts(batch, "reader"), *_keys_and_values(batch), partition, offset)


def _deliveries(batch: pa.RecordBatch) -> Deliveries:
    _refuse_nulls(batch, DELIVERIES)
    kind = texts(batch, "type")
    marks = np.array([_MARKS.get(name, 0) for name in kind.names] + [0], np.uint8)[kind.codes]
    if not marks.all():
        raise UnusableRow("a row neither begins nor ends as ok, fail or info", "type")
    return Deliveries._make(
        marks if name == "mark" else _column(batch, name, DELIVERIES) for name in Deliveries._fields
    )


def _written(batch: pa.RecordBatch, functions: Collection[str]) -> tuple[Texts, Ints]:
    chosen = _of_clients(batch, functions)
    _refuse_no_value(batch, chosen)
    keys, values = _keys_and_values(batch)
    return (keys, values) if chosen is None else (_some_of(keys, chosen), values[chosen])


def _keys_and_values(batch: pa.RecordBatch) -> tuple[Texts, Ints]:
    return texts(batch, "key"), integers(batch, "value")


def _refuse_nulls(batch: pa.RecordBatch, schema: pa.Schema) -> None:
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if column.null_count and not schema.field(name).nullable:
            raise UnusableRow("a row has null where something must stand", name)


def _valid(column: pa.Array) -> Bools:
    """Where a column is not null."""
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    bits = np.frombuffer(column.buffers()[0], np.uint8)
    bytes_ = np.unpackbits(bits, count=column.offset + len(column), bitorder="little")
    return bytes_[column.offset :].view(np.bool_)
