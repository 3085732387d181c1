"""A run's operations and records as numpy columns, part after part.

Null numbers are NULL; texts are codes into a list of names, null is -1. A run that is not large is
kept in memory while it is judged; the parts of a larger one are read anew by every pass, so that a
run of any size takes the memory of one part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.facts import Facts
from harness.errors import HistoryError
from harness.faults.journal import FaultWindow
from harness.history import HISTORY, READS, WRITE

Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bits = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

NULL: Final = -(2**63)

INVOKED, OK, FAIL, INFO, READ = 1, 2, 4, 8, 16
_MARKS: Final = {"invoke": INVOKED, "ok": OK, "fail": FAIL, "info": INFO}

_KEPT_BYTES: Final = 16 * 2**20
_PART_ROWS: Final = 2**20
_THINGS: Final = ("key", "value")
_WRITES: Final = (
    *("process", "type", "f", "key", "value", "partition", "offset", "error"),
    *("intended_ns", "time_ns"),
)
_READS: Final = ("reader", *_THINGS, "partition", "offset")


class Texts(NamedTuple):
    """A column of text: `names[code]`, or null where the code is -1."""

    codes: Int32s
    names: list[str]

    def places(self, names: Sequence[str]) -> Ints:
        """Where each stands in `names`, which has all of them; -1 for null."""
        place = {name: number for number, name in enumerate(names)}
        return np.array([*(place[name] for name in self.names), -1], np.int64)[self.codes]


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


class Reads(NamedTuple):
    """Rows of READS: records that a reader met; several readers may meet the same."""

    reader: Texts
    key: Texts
    value: Ints
    partition: Ints
    offset: Ints


Part = TypeVar("Part", Writes, Reads)


def some(rows: Part, chosen: Bools) -> Part:
    """Some of the rows."""
    return type(rows)._make(
        Texts(column.codes[chosen], column.names) if isinstance(column, Texts) else column[chosen]
        for column in rows
    )


def within(window: FaultWindow, times_ns: Ints) -> Bools:
    """Which of these instants stand in a fault's window; NULL stands in none."""
    if window.from_s is None:
        return np.zeros(len(times_ns), np.bool_)
    inside: Bools = times_ns >= round(window.from_s * 1e9)
    if window.to_s is not None:
        inside &= times_ns <= round(window.to_s * 1e9)
    return inside


class Rows:
    """The rows of one run. All raise HistoryError for a part that cannot be read."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        size_bytes = sum(path.stat().st_size for path in (*facts.history, *facts.reads))
        self._keeps = size_bytes <= _KEPT_BYTES
        self._writes: list[Writes] | None = None
        self._reads: list[Reads] | None = None

    def writes(self) -> Iterator[Writes]:
        """The writes: neither the nemesis' nor other operations."""
        if self._writes is None and self._keeps:
            self._writes = list(_each(self._facts.history, _WRITES, _writes))
        return iter(self._writes or _each(self._facts.history, _WRITES, _writes))

    def reads(self) -> Iterator[Reads]:
        """The records, of all readers."""
        if self._reads is None and self._keeps:
            self._reads = list(_each(self._facts.reads, _READS, _reads))
        return iter(self._reads or _each(self._facts.reads, _READS, _reads))

    def things(self) -> Iterator[tuple[Texts, Ints]]:
        """The keys and values of all rows."""
        if self._keeps:
            yield from ((rows.key, rows.value) for rows in self.writes())
            yield from ((rows.key, rows.value) for rows in self.reads())
        else:
            yield from _each(self._facts.history, _THINGS, _things)
            yield from _each(self._facts.reads, _THINGS, _things)


Made = TypeVar("Made")


def _each(
    paths: Sequence[Path], columns: Sequence[str], make: Callable[[pa.RecordBatch], Made]
) -> Iterator[Made]:
    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(_PART_ROWS, columns=columns, use_threads=False):
                    if batch.num_rows:
                        yield make(batch)
        except _UnusableRow as error:
            raise HistoryError(
                str(error),
                file=str(path),
                key=error.column,
                hint="copy the run folder again; if it is so there, its writer is at fault",
            ) from error
        except (OSError, pa.ArrowException) as error:
            raise HistoryError("cannot be read: its Parquet is damaged", file=str(path)) from error


class _UnusableRow(Exception):
    """A row that cannot be what its column says."""

    def __init__(self, what: str, column: str) -> None:
        super().__init__(what)
        self.column = column


def _writes(batch: pa.RecordBatch) -> Writes:
    _refuse_nulls(batch, HISTORY)
    kind, f = _texts(batch["type"]), _texts(batch["f"])
    marks = np.array([_MARKS.get(name, 0) for name in kind.names] + [0], np.uint8)
    is_write = np.array([name == WRITE for name in f.names] + [False])
    process = _ints(batch["process"])
    chosen = is_write[f.codes] & (process >= 0)
    if not marks[:-1].all() and not marks[kind.codes[chosen]].all():
        raise _UnusableRow("a write neither begins nor ends as ok, fail or info", "type")
    if batch["value"].null_count and (chosen & ~_valid(batch["value"])).any():
        raise _UnusableRow("a write has no value", "value")
    columns = Writes(
        key=_texts(batch["key"]),
        value=_ints(batch["value"]),
        mark=marks[kind.codes],
        process=process,
        partition=_ints(batch["partition"]),
        offset=_ints(batch["offset"]),
        error=_texts(batch["error"]),
        intended_ns=_ints(batch["intended_ns"]),
        time_ns=_ints(batch["time_ns"]),
    )
    if chosen.all():
        return columns
    return some(columns, chosen)


def _reads(batch: pa.RecordBatch) -> Reads:
    _refuse_nulls(batch, READS)
    partition, offset = _ints(batch["partition"]), _ints(batch["offset"])
    return Reads(_texts(batch["reader"]), *_things(batch), partition, offset)


def _things(batch: pa.RecordBatch) -> tuple[Texts, Ints]:
    return _texts(batch["key"]), _ints(batch["value"])


def _refuse_nulls(batch: pa.RecordBatch, schema: pa.Schema) -> None:
    for name in batch.schema.names:
        if batch[name].null_count and not schema.field(name).nullable:
            raise _UnusableRow("a row has null where something must stand", name)


def _valid(column: pa.Array) -> Bools:
    valid: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _ints(column: pa.Array) -> Ints:
    if column.null_count:
        column = pc.fill_null(column.cast(pa.int64()), NULL)
    numbers: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64, copy=False)


def _texts(column: pa.Array) -> Texts:
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes = pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False)
    return Texts(codes.astype(np.int32, copy=False), column.dictionary.to_pylist())
