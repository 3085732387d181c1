"""Tables as numbered Parquet parts, each complete or absent, written during a run; Arrow's arrays
from numpy's columns, and a table's rows for those who make such columns of them.

A full disk ends a run but loses nothing before it: finished parts stay, and rows that could not be
written are kept in memory and tried again with the next part and once more on close.

`pa.array` imports pandas to see whether it was given something of pandas': 0.4 s, which every
process that judges would pay at the first write that is lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import EnvironmentFailure
from harness.history.run_folder import write_atomically
from harness.protocols.runs import NULL, Bools, Ints, Texts

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
            self._write(table_of(self._rows, fields))
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


def table_of(rows: Sequence[tuple[object, ...]], fields: Sequence[pa.Field]) -> pa.Table:
    """Rows as a table with these columns."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in fields)
    pairs = zip(columns, fields, strict=True)
    return pa.table({field.name: pa.array(column, field.type) for column, field in pairs})


def packed(table: pa.Table | None) -> bytes:
    """A table as the content of a Parquet file, empty if it has no rows."""
    if table is None or not table.num_rows:
        return b""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression=COMPRESSION)
    content: bytes = sink.getvalue().to_pybytes()
    return content


# Where many values stand among others that are in order.

_AT_ONCE: Final = 2**22
"""So many are looked up together: their order takes memory, too."""
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)  # 2**64 by the golden ratio


def places(ordered: Ints, values: Ints) -> Ints:
    """The first place at which each value stands among those in order, or would stand (as
    `np.searchsorted`). They are looked up in their own order: in any other each is a walk through
    all of memory, and millions among millions take two to ten times as long."""
    found = np.empty(len(values), np.int64)
    for begin in range(0, len(values), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        order = np.argsort(values[part])
        found[part][order] = np.searchsorted(ordered, values[part][order])
    return found


def among(values: Ints, ordered: Ints) -> Bools:
    """Which of the values are among those in order."""
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    found: Bools = ordered[places(ordered, values).clip(max=len(ordered) - 1)] == values
    return found


def sieve(wanted: Ints) -> Callable[[Ints], Ints]:
    """A function of the places at which any of these values stands in others. A byte for each of
    many hashes (Fibonacci hashing: Knuth, TAOCP 6.4) excludes most of the others at once."""
    ordered = np.sort(wanted)
    bits = min(24, 4 + len(wanted).bit_length())

    def hashes(values: Ints) -> Ints:
        return (values.view(np.uint64) * _GOLDEN >> np.uint64(64 - bits)).view(np.int64)

    maybe = np.zeros(1 << bits, np.bool_)
    maybe[hashes(ordered)] = True

    def found(values: Ints) -> Ints:
        near = np.flatnonzero(maybe.take(hashes(values)))
        return np.compress(among(values[near], ordered), near)

    return found


def numbers(column: Ints) -> pa.Array:
    """A column of int64; null where a number is NULL."""
    return _numbers(column, column != NULL)


def values(column: Ints) -> pa.Array:
    """A column of int64 without a null: here NULL is a number like any other."""
    return _numbers(column, np.ones(len(column), np.bool_))


def texts(column: Texts) -> pa.Array:
    """A column of strings; null where a code is -1. Only names that occur are encoded: a few rows
    may share the names of a whole run."""
    known = column.codes >= 0
    occurs = np.zeros(len(column.names), np.bool_)
    occurs[column.codes[known]] = True
    codes = np.append(np.cumsum(occurs) - 1, -1)[column.codes]
    names = [column.names[place] for place in np.flatnonzero(occurs).tolist()]
    return strings(names).take(_numbers(codes, known))


def strings(names: Sequence[str]) -> pa.Array:
    """These strings."""
    encoded = [name.encode() for name in names]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(names), buffers).cast(pa.string())


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """All rows of a table that is not large in one batch."""
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def _numbers(column: Ints, known: Bools) -> pa.Array:
    held = pa.py_buffer(np.ascontiguousarray(column, np.int64))
    return pa.Array.from_buffers(pa.int64(), len(column), [_valid(known), held])


def _valid(known: Bools) -> pa.Buffer | None:
    """Arrow's bits for the rows that are not null."""
    return None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
