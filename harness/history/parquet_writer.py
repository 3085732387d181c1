"""Tables as numbered Parquet parts, each complete or absent, written during a run.

A full disk ends a run but loses nothing before it: finished parts stay, and rows that could not be
written are kept in memory and tried again with the next part and once more on close.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import EnvironmentFailure
from harness.history.run_folder import write_atomically

PART_S: Final = 4.0
"""How often parts are written: what a crash can lose."""


COMPRESSION: Final = "snappy"
"""Of what a run leaves behind. zstd saves 2 to 6 % of the bytes, of small runs more, and takes 1.2
to 1.6 times as long to write and 1.4 to 1.9 to read. Every reader of Parquet knows snappy."""


class ParquetWriter:
    """The parts of one table in one folder. Thread-safe; a context that writes the rest at its end.

    `append` is for tables that grow by a few rows at a time: its failures are kept in `failure`,
    since the observer can do nothing about them, and `close` tries again and raises.
    """

    def __init__(
        self, folder: Path, schema: pa.Schema, *, run_id: str, period_s: float = PART_S
    ) -> None:
        self.failure: EnvironmentFailure | None = None
        self._folder = folder
        self._schema = schema
        self._run_id = run_id
        self._period_s = period_s
        self._lock = threading.Lock()
        self._number = 0
        self._rows: list[tuple[object, ...]] = []
        self._written_at = time.monotonic()

    def write(self, table: pa.Table) -> None:
        """Write one part at once; `table` has the schema's columns but `run_id`; a nullable one
        that it lacks is all null.

        Raises EnvironmentFailure when the disk does not accept it; the part then does not exist.
        """
        with self._lock:
            self._write(table)

    def append(self, rows: Sequence[tuple[object, ...]]) -> None:
        """Keep rows (in the schema's order, without `run_id`) for the next part, which is written
        from here when the last one is older than the period."""
        with self._lock:
            self._rows += rows
            if time.monotonic() - self._written_at >= self._period_s:
                try:
                    self._write_rows()
                except EnvironmentFailure as error:
                    self.failure = error
                self._written_at = time.monotonic()

    def close(self) -> None:
        """Write what is left. Raises EnvironmentFailure when the disk does not accept it."""
        with self._lock:
            self._write_rows()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        try:
            self.close()
        except EnvironmentFailure as failure:
            self.failure = failure
            if error is None:
                raise

    def _write_rows(self) -> None:
        if self._rows:
            fields = [field for field in self._schema if field.name != "run_id"]
            columns = zip(*self._rows, strict=True)
            self._write(
                pa.table(
                    {
                        field.name: pa.array(column, field.type)
                        for field, column in zip(fields, columns, strict=True)
                    }
                )
            )
            self._rows = []
        self.failure = None

    def _write(self, table: pa.Table) -> None:
        run_id = pa.DictionaryArray.from_arrays(
            np.zeros(len(table), dtype=np.int32), pa.array([self._run_id])
        )
        whole = table.append_column("run_id", run_id)
        for field in self._schema:
            if field.nullable and field.name not in whole.schema.names:
                whole = whole.append_column(field, pa.nulls(len(whole), field.type))
        whole = whole.select(self._schema.names)
        sink = pa.BufferOutputStream()
        pq.write_table(whole.cast(self._schema), sink, **_encoding(self._schema))
        path = self._folder / f"part-{self._number:05d}.parquet"
        write_atomically(path, sink.getvalue().to_pybytes())
        self._number += 1


def _encoding(schema: pa.Schema) -> dict[str, Any]:
    """Integers as packed differences and text as dictionaries, which leave little to compress."""
    return {
        "compression": COMPRESSION,
        "use_dictionary": [f.name for f in schema if pa.types.is_dictionary(f.type)],
        "column_encoding": {
            f.name: "DELTA_BINARY_PACKED" for f in schema if pa.types.is_integer(f.type)
        },
    }
