"""The Parquet parts of a run folder, each of which is opened once to see whether it can be used and
what its footer states about its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HistoryError, TooNewError
from harness.history.arrays import one_batch
from harness.history.run_folder import RunDir
from harness.history.schemas import ADDED, DELIVERIES, HISTORY, READS, SCHEMA_VERSION

_SPANNED: Final = ("run_id", "index", "partition", "reader")
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
        history, reads, deliveries = (
            _opened(rundir.parts(folder), schema)
            for folder, schema in (
                (rundir.history, HISTORY),
                (rundir.reads, READS),
                (rundir.deliveries, DELIVERIES),
            )
        )
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


def _opened(paths: Sequence[Path], schema: pa.Schema) -> tuple[Part, ...]:
    keep = len(paths) <= _FEW
    return tuple(Part.opened(path, schema, keep=keep) for path in paths)


def rows_of_ends(path: Path, schema: pa.Schema) -> list[dict[str, Any]]:
    """The rows of a small file with the columns of `schema`, such as `reads/ends.parquet`. Raises
    HistoryError unless it is one."""
    try:
        with pa.OSFile(str(path)) as source, pq.ParquetFile(source, pre_buffer=False) as file:
            refuse_columns(path, file.schema_arrow, schema)
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
