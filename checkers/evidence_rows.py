"""What is missing from a run folder by its rows: numbers of parts, indices, counts, positions.

Statistics in the Parquet files answer most of it without reading a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from harness.history import WRITE
from harness.rundir import RunDir

Ends = Sequence[Mapping[str, Any]]
Told = Iterator[tuple[str, str]]
"""Sentences, each with the path, below the run folder, of what it is about."""

_DONE: Final = "done"
_PART: Final = re.compile(r"part-(\d{5,})\.parquet")
_NAMED: Final = 3
"""How many files a sentence names; of more, it gives the number."""


def parts(rundir: RunDir) -> Told:
    """Parts are numbered from 0, without a gap."""
    for folder in (rundir.history, rundir.reads, rundir.observations):
        parts = rundir.parts(folder)
        numbers = [int(m[1]) for path in parts if (m := _PART.fullmatch(path.name))]
        odd = [f"{folder.name}/{path.name}" for path in parts if not _PART.fullmatch(path.name)]
        if odd:
            yield folder.name, f"not of this run: {listed(odd)}"
        if absent := sorted(set(range(max(numbers, default=-1))) - set(numbers)):
            names = [f"{folder.name}/part-{number:05d}.parquet" for number in absent]
            yield folder.name, f"missing: {listed(names)}"


def of_other_runs(rundir: RunDir, run: Mapping[str, Any], ends: Ends) -> Told:
    """Every row names its run."""
    for folder in (rundir.history, rundir.reads, rundir.observations):
        strange, damaged = [], []
        for path in rundir.parts(folder):
            name = f"{folder.name}/{path.name}"
            try:
                if _span(path, "run_id") not in (None, (run["run_id"], run["run_id"])):
                    strange.append(name)
            except (pa.ArrowException, ValueError):  # of observations: others have been opened
                damaged.append(name)
        if strange:
            yield folder.name, f"of another run: {listed(strange)}"
        if damaged:
            yield folder.name, f"damaged: {listed(damaged)}"
    if any(row["run_id"] != run["run_id"] for row in ends):
        yield "reads", "of another run: reads/ends.parquet"


def operations(rundir: RunDir, run: Mapping[str, Any], *, by_rows: bool) -> Told:
    """Rows of the history are numbered from 0, and are as many as run.json has counted: each
    operation that was attempted began and ended. `by_rows`: row by row, not only by the statistics
    of each part."""
    due, rows, begun, ended = 0, 0, 0, 0
    for path in rundir.parts(rundir.history):
        name, part = f"history/{path.name}", _Part.read(path) if by_rows else _Part.seen(path)
        rows, begun, ended = rows + part.rows, begun + part.begun, ended + part.ended
        if not part.rows:
            continue
        if part.first > due:
            yield "history", f"operations {due:,} to {part.first - 1:,} are missing before {name}"
        if part.first < due or part.last - part.first + 1 != part.rows or not part.dense:
            yield "history", f"operations are missing or repeated in {name}"
        due = max(due, part.last + 1)
    attempted = (run.get("load") or {}).get("attempted")
    if type(attempted) is not int or run["state"] != _DONE or not rundir.parts(rundir.history):
        return
    if by_rows and (begun, ended) != (attempted, attempted):
        yield (
            "history",
            f"history/ holds the begin of {begun:,} operations and the end of {ended:,}, "
            f"but run.json counted {attempted:,}",
        )
    elif rows < 2 * attempted:
        yield (
            "history",
            f"history/ holds {rows:,} rows, too few for the {attempted:,} operations that run.json "
            "counted",
        )


class _Part(NamedTuple):
    """The indices of one part of the history; how many operations begin and end in it."""

    rows: int
    first: int
    last: int
    dense: bool = True
    begun: int = 0
    ended: int = 0

    @classmethod
    def seen(cls, path: Path) -> _Part:
        """By its statistics; read where it has none."""
        span = _span(path, "index")
        rows = pq.read_metadata(path).num_rows
        return cls(rows, *span) if span is not None and rows else cls.read(path)

    @classmethod
    def read(cls, path: Path) -> _Part:
        """By its rows."""
        table = pq.read_table(path, columns=["index", "process", "type"], use_threads=False)
        if not table.num_rows:
            return cls(0, 0, -1)
        index = table["index"].to_numpy()
        ours = table["process"].to_numpy() >= 0
        invoked = _is(table["type"], "invoke")
        return cls(
            rows=len(index),
            first=int(index.min()),
            last=int(index.max()),
            dense=bool((np.diff(index) == 1).all()),
            begun=int((ours & invoked).sum()),
            ended=int((ours & ~invoked).sum()),
        )


def records(rundir: RunDir, run: Mapping[str, Any], ends: Ends) -> Told:
    """Where a reader came past offsets there are records of it."""
    parts = rundir.parts(rundir.reads)
    if parts and not rundir.ends.exists() and run["state"] == _DONE:
        yield "reads", "missing: reads/ends.parquet"
    passed = {
        (row["reader"], row["partition"]): range(row["log_start_offset"] or 0, row["position"])
        for row in ends
        if row["position"] is not None and row["position"] > (row["log_start_offset"] or 0)
    }
    if not passed:
        return
    met = _met(parts)
    for reader in dict.fromkeys(reader for reader, _ in passed):
        if not any(who == reader for who, _ in met):
            yield "reads", f"reads/ holds no record of the reader {reader}, which came past some"
            continue
        empty = [at for who, at in passed if who == reader and (who, at) not in met]
        for partition in empty:
            if _acknowledged_in(rundir, partition, passed[reader, partition]):
                yield (
                    "reads",
                    f"reads/ holds no record of partition {partition} by the reader {reader}, "
                    f"which read it to offset {passed[reader, partition].stop:,}",
                )


def _met(parts: Sequence[Path]) -> set[tuple[str, int]]:
    """The readers and partitions of which there is a record."""
    met: set[tuple[str, int]] = set()
    for path in parts:
        readers, partitions = _span(path, "reader"), _span(path, "partition")
        if readers and partitions and readers[0] == readers[1] and partitions[0] == partitions[1]:
            met.add((readers[0], partitions[0]))
            continue
        table = pq.read_table(path, columns=["reader", "partition"], use_threads=False)
        partition = table["partition"].to_numpy()
        for reader in table["reader"].unique().to_pylist():
            of_reader = np.unique(partition[_is(table["reader"], reader)])
            met.update((reader, number) for number in of_reader.tolist())
    return met


def _acknowledged_in(rundir: RunDir, partition: int, offsets: range) -> bool:
    """Whether a write was acknowledged in this partition, at one of these offsets or at one that
    nobody told. (A log may hold markers of transactions alone.)"""
    for path in rundir.parts(rundir.history):
        columns = ["process", "type", "f", "partition", "offset"]
        table = pq.read_table(path, columns=columns, use_threads=False)
        offset = table["offset"].fill_null(offsets.start).to_numpy()
        there = (offset >= offsets.start) & (offset < offsets.stop)
        there &= (table["partition"].fill_null(-1).to_numpy() == partition) & _is(table["f"], WRITE)
        there &= (table["process"].to_numpy() >= 0) & _is(table["type"], "ok")
        if there.any():
            return True
    return False


def _span(path: Path, column: str) -> tuple[Any, Any] | None:
    """The least and the greatest value of a column, by the statistics; `None` where it has none."""
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    place = metadata.schema.names.index(column)
    statistics = [group.column(place).statistics for group in groups if group.num_rows]
    if not statistics or not all(each is not None and each.has_min_max for each in statistics):
        return None
    return min(each.min for each in statistics), max(each.max for each in statistics)


def _is(column: pa.ChunkedArray, text: str) -> npt.NDArray[np.bool_]:
    """Where a column of text is this one."""
    whole = column.combine_chunks()
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode()
    names = np.array([*(name == text for name in whole.dictionary.to_pylist()), False], np.bool_)
    found: npt.NDArray[np.bool_] = names[whole.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return found


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
