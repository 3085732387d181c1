"""One Parquet file of one table: written row group by row group, with checksums of its pages."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analysis.lake.manifest import NEWER, Part
from analysis.lake.place import Place
from analysis.lake.schema import CAMPAIGN, Table
from harness.errors import HistoryError

ROWS: Final = 2**17
"""Rows of a group: what is held in memory of a table."""


def folder_of(table: Table, campaign: str) -> str:
    """The folder of a campaign's rows, whatever characters its name has."""
    return f"{table.name}/{CAMPAIGN}={quote(campaign, safe='')}"


def write_part(
    place: Place, table: Table, campaign: str, number: int, rows: Iterator[pa.Table]
) -> Part | None:
    """Write these rows as one file, which no manifest names yet; `None` if there are none.
    Raises EnvironmentFailure."""
    first = next((each for each in rows if each.num_rows), None)
    if first is None:
        return None
    path = f"{folder_of(table, campaign)}/part-{number:05d}.parquet"
    written = _Counted(table)
    place.write(path, lambda stream: written.write(stream, first, rows))
    return Part(path=path, rows=written.rows, bytes=written.bytes)


class _Counted:
    """Writes row groups, and counts what it has written."""

    def __init__(self, table: Table) -> None:
        self.rows, self.bytes = 0, 0
        self._schema = table.stored

    def write(self, stream: Any, first: pa.Table, others: Iterator[pa.Table]) -> None:
        with pq.ParquetWriter(
            stream, self._schema, compression="zstd", write_page_checksum=True
        ) as writer:
            waiting, held = [first], first.num_rows
            for rows in others:
                waiting.append(rows)
                held += rows.num_rows
                if held >= ROWS:
                    self._flush(writer, waiting)
                    waiting, held = [], 0
            self._flush(writer, waiting)
        self.bytes = stream.tell()

    def _flush(self, writer: pq.ParquetWriter, waiting: list[pa.Table]) -> None:
        if waiting:
            rows = pa.concat_tables(waiting)
            writer.write_table(rows, row_group_size=ROWS)
            self.rows += rows.num_rows


def read_part(place: Place, table: Table, part: Part, *, without: Set[str]) -> pa.Table:
    """The rows of a file but those of some runs. Raises HistoryError, also for a file with columns
    of a newer ackloss."""
    rows = columns_of(place, part)
    if newer := [name for name in rows.column_names if name not in table.stored.names]:
        raise HistoryError(
            f"has the column {newer[0]!r}, which this ackloss does not know and would drop",
            file=place.name_of(part.path),
            hint=NEWER,
        )
    missing = [field for field in table.stored if field.name not in rows.column_names]
    for field in missing:
        rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    kept = pc.invert(pc.is_in(rows["run_id"], pa.array(sorted(without), pa.string())))
    return rows.select(table.stored.names).filter(kept).cast(table.stored)


def columns_of(place: Place, part: Part, columns: list[str] | None = None) -> pa.Table:
    """All columns of a file, or those of these that it has. Raises HistoryError for a file that is
    missing or damaged."""
    name = place.name_of(part.path)
    try:
        with (
            place.filesystem.open_input_file(f"{place.root}/{part.path}") as stream,
            pq.ParquetFile(stream, page_checksum_verification=True) as file,
        ):
            names = file.schema_arrow.names
            known = names if columns is None else [name for name in columns if name in names]
            return file.read(columns=known, use_threads=False)
    except FileNotFoundError as error:
        raise HistoryError("is missing", file=name, hint=AGAIN) from error
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(
            "cannot be read: its Parquet is damaged", file=name, hint=AGAIN
        ) from error


AGAIN: Final = "build the lake again in another folder, or copy it again"
