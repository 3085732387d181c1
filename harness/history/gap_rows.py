"""What is missing from a run folder according to its rows: numbers of parts, indices, counts,
positions.

Statistics in the Parquet files answer most of this without reading a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from harness.history.parquet_reader import integers, texts
from harness.history.parts import Part, Parts
from harness.history.run_folder import RunDir
from harness.models import APPEND
from harness.protocols import DONE, NULL

Ends = Sequence[Mapping[str, Any]]
Found = Iterator[tuple[str, str]]
"""Sentences, each with the path, below the run folder, of what it is about."""

_PART: Final = re.compile(r"part-(\d{5,})\.parquet")
_NAMED: Final = 3
"""How many files a sentence names; for more, it gives the number."""


def numbers(rundir: RunDir) -> Found:
    """Parts are numbered from 0, without a gap."""
    for folder in (rundir.history, rundir.reads, rundir.observations):
        names = [path.name for path in rundir.parts(folder)]
        there = {int(match[1]) for name in names if (match := _PART.fullmatch(name))}
        if odd := [f"{folder.name}/{name}" for name in names if not _PART.fullmatch(name)]:
            yield folder.name, f"not of this run: {listed(odd)}"
        if absent := sorted(set(range(max(there, default=-1))) - there):
            missing = [f"{folder.name}/part-{number:05d}.parquet" for number in absent]
            yield folder.name, f"missing: {listed(missing)}"


def of_other_runs(parts: Parts, run: Mapping[str, Any], ends: Ends) -> Found:
    """Every row names its run."""
    ours = (None, (run["run_id"], run["run_id"]))
    for each in (parts.history, parts.reads, parts.observations):
        if strange := [part.name for part in each if part.ends_of("run_id") not in ours]:
            yield strange[0], f"of another run: {listed(strange)}"
    if any(row["run_id"] != run["run_id"] for row in ends):
        yield "reads", "of another run: reads/ends.parquet"
    if parts.damaged:
        yield parts.damaged[0], f"damaged: {listed(parts.damaged)}"


def of_other_plans(parts: Parts, ends: Ends, partitions: int) -> Found:
    """Every partition that was written, read or observed is one that the plan requests."""
    spans = [part.ends_of("partition") for part in (*parts.history, *parts.reads)]
    met = {number for span in spans if span is not None for number in span}
    met |= {row["partition"] for row in ends}
    if odd := sorted(number for number in met if not 0 <= number < partitions):
        names = listed([f"partition {number}" for number in odd])
        yield "plan.json", f"not of this plan, which has partitions 0 to {partitions - 1}: {names}"


def operations(parts: Parts, run: Mapping[str, Any], *, by_rows: bool) -> Found:
    """Rows of the history are numbered from 0, and are as many as run.json has counted: each
    operation that was attempted began and ended. `by_rows`: row by row, not only by the statistics
    of each part."""
    due, rows, begun, ended = 0, 0, 0, 0
    for part in parts.history:
        indices = _Indices.read(part) if by_rows else _Indices.seen(part)
        rows, begun, ended = rows + part.rows, begun + indices.begun, ended + indices.ended
        if not part.rows:
            continue
        first, last = indices.first, indices.last
        if first > due:
            yield part.name, f"operations {due:,} to {first - 1:,} are missing before {part.name}"
        if first < due or last - first + 1 != part.rows or not indices.dense:
            yield part.name, f"operations are missing or repeated in {part.name}"
        due = max(due, last + 1)
    attempted = (run.get("load") or {}).get("attempted")
    if type(attempted) is not int or run["state"] != DONE or not parts.history:
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


class _Indices(NamedTuple):
    """The indices of one part of the history; how many operations begin and end in it."""

    first: int
    last: int
    dense: bool = True
    begun: int = 0
    ended: int = 0

    @classmethod
    def seen(cls, part: Part) -> _Indices:
        """By its statistics; read where it has none."""
        span = part.span("index")
        return cls.read(part) if span is None else cls(*span)

    @classmethod
    def read(cls, part: Part) -> _Indices:
        """By its rows."""
        rows = part.read("index", "process", "type")
        index, ours = integers(rows, "index"), integers(rows, "process") >= 0
        invoked = texts(rows, "type").isin(["invoke"])
        return cls(
            first=int(index.min(initial=2**62)),
            last=int(index.max(initial=-1)),
            dense=bool((np.diff(index) == 1).all()),
            begun=int((ours & invoked).sum()),
            ended=int((ours & ~invoked).sum()),
        )


def records(rundir: RunDir, parts: Parts, run: Mapping[str, Any], ends: Ends) -> Found:
    """If a reader passed offsets, there are records from it."""
    if parts.reads and not rundir.ends.exists() and run["state"] == DONE:
        yield "reads", "missing: reads/ends.parquet"
    passed = {
        (row["reader"], row["partition"]): range(row["log_start_offset"] or 0, row["position"])
        for row in ends
        if row["position"] is not None
        and row["position"] > (row["log_start_offset"] or 0)
        and row.get("ranges") is None
    }
    if not passed or _everywhere(parts.reads, passed):
        return
    met = _met(parts.reads)
    readers = {reader for reader, _ in met}
    for reader in dict.fromkeys(reader for reader, _ in passed):
        if reader not in readers:
            yield "reads", f"reads/ holds no record of the reader {reader}, which came past some"
    for (reader, partition), offsets in passed.items():
        if reader not in readers or (reader, partition) in met:
            continue
        if _acknowledged_in(parts.history, partition, offsets):
            yield (
                "reads",
                f"reads/ holds no record of partition {partition} by the reader {reader}, "
                f"which read it to offset {offsets.stop:,}",
            )


def _everywhere(parts: Sequence[Part], passed: Mapping[tuple[str, int], range]) -> bool:
    """Whether the footers alone say that each reader has as many records as it passed offsets, as
    it has where there are no markers of transactions."""
    left: dict[str, int] = {}
    for (reader, _), offsets in passed.items():
        left[reader] = left.get(reader, 0) + len(offsets)
    for part in parts:
        span = part.span("reader")
        if span is None or span[0] != span[1]:
            return False
        if span[0] in left:
            left[span[0]] -= part.rows
    return not any(left.values())


def _met(parts: Sequence[Part]) -> set[tuple[str, int]]:
    """The readers and partitions of which there is a record."""
    met: set[tuple[str, int]] = set()
    for part in parts:
        readers, partitions = part.span("reader"), part.span("partition")
        if readers is None or readers[0] != readers[1]:
            met |= _pairs(part.read("reader", "partition"))
        elif partitions is not None and partitions[0] == partitions[1]:
            met.add((readers[0], partitions[0]))
        else:
            numbers = part.read("partition")["partition"].unique().to_pylist()
            met.update((readers[0], number) for number in numbers)
    return met


def _pairs(rows: pa.RecordBatch) -> set[tuple[str, int]]:
    """The readers and partitions of these records."""
    reader, partition = texts(rows, "reader"), integers(rows, "partition")
    return {
        (name, number)
        for code, name in enumerate(reader.names)
        for number in np.unique(partition[reader.codes == code]).tolist()
    }


def _acknowledged_in(parts: Sequence[Part], partition: int, offsets: range) -> bool:
    """Whether a write was acknowledged in this partition, at one of these offsets or at an unknown
    one. (A log may hold markers of transactions alone.)"""
    for part in parts:
        rows = part.read("process", "type", "f", "partition", "offset")
        offset = integers(rows, "offset")
        there = ((offset >= offsets.start) & (offset < offsets.stop)) | (offset == NULL)
        there &= (integers(rows, "partition") == partition) & (integers(rows, "process") >= 0)
        if (there & texts(rows, "f").isin([APPEND]) & texts(rows, "type").isin(["ok"])).any():
            return True
    return False


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
