"""A run's operations and records as numpy columns, part after part.

Null numbers are NULL; texts are codes into a list of names, null is -1. A run that is not large is
kept in memory while it is judged; the parts of a larger one are read again by every pass, so that a
run of any size takes the memory of one part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import HistoryError
from harness.history.schemas import HISTORY, READS
from harness.models import MODELS
from harness.protocols.runs import (
    FAIL,
    INFO,
    INVOKED,
    NULL,
    OK,
    Bits,
    Bools,
    Facts,
    FaultWindow,
    Ints,
    Lists,
    Operations,
    Reads,
    Texts,
    Writes,
)

_MARKS: Final = {"invoke": INVOKED, "ok": OK, "fail": FAIL, "info": INFO}
_KEPT_BYTES: Final = 16 * 2**20
_PART_ROWS: Final = 2**20
_THINGS: Final = ("key", "value")
_WRITTEN: Final = ("process", "type", "f", *_THINGS)
_WRITES: Final = (
    *("process", "type", "f", "key", "value", "partition", "offset", "error"),
    *("intended_ns", "time_ns"),
)
_OPERATIONS: Final = ("index", *_WRITES, "node", "expected", "result", "elements")
_READS: Final = ("reader", *_THINGS, "partition", "offset")

Part = TypeVar("Part", Writes, Reads, Operations)


def some(rows: Part, chosen: Bools) -> Part:
    """Some of the rows."""
    return type(rows)._make(_some_of(column, chosen) for column in rows)


def _some_of(column: Any, chosen: Bools) -> Any:
    if isinstance(column, Texts):
        return Texts(column.codes[chosen], column.names)
    if not isinstance(column, Lists):
        return column[chosen]
    lengths = np.diff(column.starts)
    starts = np.concatenate([[0], np.cumsum(lengths[chosen])])
    return Lists(starts, column.values[np.repeat(chosen, lengths)], column.present[chosen])


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
        self._facts, model = facts, MODELS[facts.promises.model]
        self._make_writes = partial(_writes, functions=model.writes)
        self._make_things = partial(_written, functions=model.writes)
        self._make_operations = partial(_operations, functions=model.functions)
        size_bytes = sum(path.stat().st_size for path in (*facts.history, *facts.reads))
        self._keeps = size_bytes <= _KEPT_BYTES
        self._writes: list[Writes] | None = None
        self._reads: list[Reads] | None = None

    @property
    def facts(self) -> Facts:
        """Everything else that is known of the run."""
        return self._facts

    def writes(self) -> Iterator[Writes]:
        """The writes: neither the nemesis' nor other operations."""
        if self._writes is None and self._keeps:
            self._writes = list(_each(self._facts.history, _WRITES, self._make_writes))
        return iter(self._writes or _each(self._facts.history, _WRITES, self._make_writes))

    def operations(self) -> Iterator[Operations]:
        """All operations of the run's model, in the order of the history."""
        return _each(self._facts.history, _OPERATIONS, self._make_operations)

    def timed(self) -> Iterator[Writes | Operations]:
        """What is known of when operations were due, begun and ended: the writes where a model has
        nothing else."""
        model = MODELS[self._facts.promises.model]
        return self.writes() if model.writes == model.functions else self.operations()

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
            yield from _each(self._facts.history, _WRITTEN, self._make_things)
            yield from _each(self._facts.reads, _THINGS, _things)


Made = TypeVar("Made")


def _each(
    paths: Sequence[Path], columns: Sequence[str], make: Callable[[pa.RecordBatch], Made]
) -> Iterator[Made]:
    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                there = set(file.schema_arrow.names)
                named = [column for column in columns if column in there]
                for batch in file.iter_batches(_PART_ROWS, columns=named, use_threads=False):
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


def _chosen(batch: pa.RecordBatch, functions: frozenset[str]) -> tuple[Bools, Bits]:
    """Which rows are clients' operations of these functions, and the marks of all rows."""
    _refuse_nulls(batch, HISTORY)
    kind, f = _texts(batch["type"]), _texts(batch["f"])
    marks = np.array([_MARKS.get(name, 0) for name in kind.names] + [0], np.uint8)
    named = np.array([name in functions for name in f.names] + [False])
    chosen = named[f.codes] & (_ints(batch["process"]) >= 0)
    if not marks[:-1].all() and not marks[kind.codes[chosen]].all():
        raise _UnusableRow("an operation neither begins nor ends as ok, fail or info", "type")
    return chosen, marks[kind.codes]


def _operations(batch: pa.RecordBatch, functions: frozenset[str]) -> Operations:
    chosen, marks = _chosen(batch, functions)
    columns = Operations(
        place=_ints(batch["index"]),
        f=_texts(batch["f"]),
        key=_texts(batch["key"]),
        value=_ints(batch["value"]),
        expected=_ints(_or_null(batch, "expected")),
        result=_ints(_or_null(batch, "result")),
        elements=_lists(_or_null(batch, "elements")),
        mark=marks,
        process=_ints(batch["process"]),
        partition=_ints(batch["partition"]),
        offset=_ints(batch["offset"]),
        node=_texts(batch["node"]),
        error=_texts(batch["error"]),
        intended_ns=_ints(batch["intended_ns"]),
        time_ns=_ints(batch["time_ns"]),
    )
    return columns if chosen.all() else some(columns, chosen)


def _or_null(batch: pa.RecordBatch, name: str) -> pa.Array:
    """A column, all null in the files of runs from before it was added."""
    if name in batch.schema.names:
        return batch[name]
    return pa.nulls(batch.num_rows, HISTORY.field(name).type)


def _lists(column: pa.ListArray) -> Lists:
    present: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Lists(starts, _ints(column.flatten()), present)


def _writes(batch: pa.RecordBatch, functions: frozenset[str]) -> Writes:
    chosen, marks = _chosen(batch, functions)
    if batch["value"].null_count and (chosen & ~_valid(batch["value"])).any():
        raise _UnusableRow("a write has no value", "value")
    columns = Writes(
        key=_texts(batch["key"]),
        value=_ints(batch["value"]),
        mark=marks,
        process=_ints(batch["process"]),
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


def _written(batch: pa.RecordBatch, functions: frozenset[str]) -> tuple[Texts, Ints]:
    chosen, _ = _chosen(batch, functions)
    keys, values = _things(batch)
    return Texts(keys.codes[chosen], keys.names), values[chosen]


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
