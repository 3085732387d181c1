"""The end of a run: wait until every replica is in sync, then read all that the cluster holds.

Once with the first reader. If that read is not complete, or is not what the clients were promised,
it is repeated with the other: before any counter-example is reported, a second library reads what
it depends on. Lost by the cluster, or missed by the consumer?

For a value that failed, was never written or is there twice, the evidence is at its offsets. A lost
value is nowhere: the evidence of its loss is that every record of its partition is another one. For
most records there is already a witness other than the reader that is to be confirmed: the broker
acknowledged to the *writing* library that exactly this value is at exactly this offset. If two
independent libraries agree, one of which reported where the value was written while the other found
it there, they do not both mistake another value for it. So the second library reads

    every offset whose record no acknowledgement names,
    the first and the last records of each partition, and where it ends (two replicas' logs that
    agree in their last record agree in all before it, so it is the same log that was read),
    and what is now where the first and the last of the lost writes were acknowledged.

That is sound only where the first reader met every offset of the partition exactly once; where it
did not, where writes have keys, where acknowledgements name no offsets (or wrong ones, as Kafka's
do before 0.8.2), or where it would be most of the log anyway, the second library reads everything.
It also does so if what it read in parts differs from what the first one read, or could not be read.

`checkers.loss` comes to the same conclusion from the files of the run alone, or to none.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import HarnessFailure
from harness.failures import validated
from harness.history import ENDS, MEMBERS, READS
from harness.history.documents import InSync
from harness.history.parquet_writer import ParquetWriter, among
from harness.history.run_folder import RunDir, write_atomically
from harness.models import MODELS
from harness.plan import Plan
from harness.protocols import NULL, Cluster, End, Ints, Range, Situation, Target
from harness.protocols.clock import Clock, RunClock
from harness.run.observer import Observer
from harness.run.recorder import Recorder, Written

Ranges = Mapping[int, Sequence[Range]]
Read = tuple[pa.Table, list[End]]

_READ: Final = pa.schema([field for field in READS if field.name != "run_id"])

_EDGE: Final = 100
"""This many records are read at both ends of a partition, and around an offset."""
_APART: Final = 2_000
"""Ranges with fewer records between them are merged: a seek takes as long as reading this many
records."""
_MOST_SHARE: Final = 0.5


def readers_of(target: Target[Any], plan: Plan) -> tuple[str, ...]:
    """Two readers or more: a second opinion from the first reader would be none. If no model of the
    target has a final read, there is no answer."""
    who = f"the target {target.plugin!r}: readers()"
    readers = validated(who, target.readers(plan), tuple[str, ...])
    if len(readers) < 2:
        raise HarnessFailure(f"{who} returns {readers!r}, not two or more")
    if len({*readers}) < 2 and any(MODELS[name].final_read for name in target.models):
        raise HarnessFailure(f"{who} returns {readers[0]!r} twice, not two that read differently")
    return tuple(readers)


def read_by(
    target: Target[Any], cluster: Cluster, plan: Plan, reader: str, ranges: Ranges | None = None
) -> Read:
    """All that a reader has read, or what it has in these ranges, in the columns of READS but
    `run_id`, and how far it got. With ranges the target has `read_ranges`."""
    who, limit_s = f"the target {target.plugin!r}: the reader {reader!r}", plan.final.read_s
    if ranges is None:
        given: object = target.read_all(cluster, plan, reader=reader, timeout_s=limit_s)
    else:
        given = target.read_ranges(cluster, plan, reader=reader, ranges=ranges, timeout_s=limit_s)
    table, ends = validated(who, given, tuple[pa.Table, list[End]])
    try:
        read: pa.Table = table.select(_READ.names).cast(_READ)
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise HarnessFailure(f"{who} returns a table that cannot be read: {error}") from error
    if others := {*read.column("reader").unique().to_pylist()} - {reader}:
        raise HarnessFailure(f"{who} returns rows of the reader {min(others)!r}")
    return read, ends


def ranges_of(table: pa.Table, ends: Sequence[End], written: Written) -> Ranges | None:
    """The ranges of each partition that are to be read again; null: everything."""
    if table["key"].null_count != len(table):
        return None
    columns = (table[name].to_numpy() for name in ("partition", "offset", "value"))
    partition, offset, value = columns
    lost = ~among(written.acknowledged, np.sort(value))
    ranges, rows = {}, 0
    for end in ends:
        here = partition == end.partition
        acknowledged = (written.partition == end.partition) & (written.offset != NULL)
        log = (end.log_start_offset or 0, end.position or 0)
        gone = np.sort(written.offset[acknowledged & lost])
        if not np.array_equal(offset[here], np.arange(*log)):
            return None
        at, named = written.offset[acknowledged], written.acknowledged[acknowledged]
        unnamed = _unnamed(value[here], log[0], at, named)
        places = np.concatenate([unnamed, gone[:1], gone[-1:], np.array(log)])
        ranges[end.partition] = _around(places, *log)
        rows += sum(behind - first for first, behind in ranges[end.partition])
        rows += _APART * max(0, len(ranges[end.partition]) - 1)
    return ranges if rows <= _MOST_SHARE * len(table) else None


def _unnamed(value: Ints, start: int, offset: Ints, acknowledged: Ints) -> Ints:
    """The offsets whose value, of those from `start` on, no acknowledgement names. If several name
    one offset (those of a leader whose log was truncated, and of its successor), the first and the
    last count."""
    there = (offset >= start) & (offset < start + len(value))
    at, named = offset[there] - start, acknowledged[there]
    seen = np.zeros(len(value), np.bool_)
    for way in (1, -1):
        by_offset = np.full(len(value), NULL)
        by_offset[at[::way]] = named[::way]
        seen |= by_offset == value
    return start + np.flatnonzero(~seen)


def _around(places: Ints, start: int, end: int) -> list[Range]:
    """Ranges, within a log, that hold these places and their neighbours."""
    places = np.unique(places.clip(start, max(start, end - 1)))
    cut = np.flatnonzero(np.diff(places) > 2 * _EDGE + _APART)
    firsts, lasts = places[np.r_[0, cut + 1]], places[np.r_[cut, len(places) - 1]]
    pairs = zip((firsts - _EDGE).tolist(), (lasts + _EDGE + 1).tolist(), strict=True)
    return [Range(max(start, first), min(end, behind)) for first, behind in pairs if start < end]


def _confirms(
    table: pa.Table, of_second: Sequence[End], first: pa.Table, ends: Sequence[End], wanted: Ranges
) -> bool:
    """Whether the second library met the same records in the ranges, and the same ends."""
    met = {end.partition: end for end in of_second}
    if not all(
        (there := met.get(end.partition)) is not None
        and there.complete
        and there.position == end.position
        and list(there.ranges or ()) == list(wanted[end.partition])
        for end in ends
    ):
        return False
    return bool(_rows(table, wanted).equals(_rows(first, wanted)))


def _rows(table: pa.Table, ranges: Ranges) -> pa.Table:
    """The records in the ranges, in order."""
    partition, offset = (table[name].to_numpy() for name in ("partition", "offset"))
    chosen = np.zeros(len(table), np.bool_)
    for number, of_partition in ranges.items():
        here, borders = np.flatnonzero(partition == number), np.array(of_partition).ravel()
        chosen[here] = np.searchsorted(borders, offset[here], side="right") % 2 == 1
    kept = table.select(["partition", "offset", "key", "value"]).filter(pa.array(chosen))
    plain = pa.schema(
        [field.with_type(getattr(field.type, "value_type", field.type)) for field in kept.schema]
    )
    return kept.cast(plain).sort_by([("partition", "ascending"), ("offset", "ascending")])


NOT_FULLY_REPLICATED = (
    "not every replica was in sync, or a node did not answer, when the final read began: "
    "final.settle_s had passed"
)
WHOLE_FOR_NS = 1_000_000_000


def wait_until_replicated(
    settle_s: float, observer: Observer, stop: threading.Event, clock: Clock
) -> bool:
    """Wait until every partition of every cell is fully replicated and every node that was started
    again answers, and it stays so for a second (right after a heal it may be the old state). False:
    this did not happen within `settle_s`. Without an observer there is nothing to wait for: the
    ends of the final read show who was in sync."""
    if not observer.observes:
        return True
    deadline_ns = clock.now_ns() + round(settle_s * 1e9)
    since_ns: int | None = None
    while not stop.is_set() and (now_ns := clock.now_ns()) < deadline_ns:
        if not are_fully_replicated(observer) or observer.silent():
            since_ns = None
        elif since_ns is None:
            since_ns = now_ns
        elif now_ns - since_ns >= WHOLE_FOR_NS:
            return True
        clock.wait(stop, 0.1)
    return False


def are_fully_replicated(observer: Observer) -> bool:
    """Whether every partition of every cell has a leader and all its replicas in sync, as observed
    now."""
    return all(
        each.every
        for number, cell in enumerate(observer.cells)
        for each in in_sync(observer.situation(number), cell.plan)
    )


def in_sync(situation: Situation, plan: Plan) -> list[InSync]:
    """Who is in sync with each partition."""
    return [
        InSync(partition=number, replicas=plan.replicas)
        if (view := situation.partitions.get(number)) is None
        else InSync(
            partition=number,
            leader=view.leader,
            members=view.members,
            in_sync=view.in_sync,
            replicas=plan.replicas,
            nodes=view.replicas,
        )
        for number in range(plan.partitions)
    ]


def read_everything(
    target: Target[Any],
    cluster: Cluster,
    plan: Plan,
    clock: RunClock,
    recorder: Recorder,
    rundir: RunDir,
    stop: threading.Event,
    *,
    in_parts: bool = True,
) -> None:
    """The final reads, into `reads/`; ended between two readers when `stop` is set. `in_parts`:
    the second reader reads no more than what a counter-example rests on, or nothing if there is
    none; else everything, as what consumers did may be one with any record. More than two readers
    are replicas, and all of them are read."""
    if stop.is_set():
        return
    first, second, *others = readers_of(target, plan)
    written = recorder.written()
    ends: list[dict[str, Any]] = []
    with ParquetWriter(rundir.reads, READS, run_id=rundir.run_id) as reads:

        def keep(reader: str, table: pa.Table, of_reader: list[End]) -> None:
            place = table.schema.get_field_index("time_ns")
            times = pc.subtract(table["time_ns"], clock.zero_ns or 0)
            reads.write(table.set_column(place, "time_ns", times))
            ends.extend(_row_of(end, rundir.run_id, reader) for end in of_reader)

        table, of_first = read_by(target, cluster, plan, first)
        complete = all(end.complete for end in of_first)
        well = in_parts and complete and as_promised(table, written)
        if others:
            replicas = {name: read_by(target, cluster, plan, name) for name in (second, *others)}
            for name, (rows, of_replica) in _all({first: (table, of_first), **replicas}).items():
                keep(name, rows, of_replica)
        else:
            keep(first, table, of_first)
        if not (others or well or stop.is_set()):
            part: Read | None = None
            suffices = complete and in_parts and target.does("read_ranges")
            if suffices and (wanted := ranges_of(table, of_first, written)) is not None:
                part = read_by(target, cluster, plan, second, wanted)
                if not _confirms(*part, table, of_first, wanted):
                    part = None
            keep(second, *(part or read_by(target, cluster, plan, second)))
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ends, schema=ENDS), buffer)
    write_atomically(rundir.ends, buffer.getvalue())


def _all(replicas: Mapping[str, Read]) -> Mapping[str, Read]:
    """What each replica has: no read is complete unless those of all that were in sync are, since
    what is lost is on none of them."""
    unread = [
        end.error
        for name, (_, ends) in replicas.items()
        for end in ends
        if not end.complete and name in end.members
    ]
    if not unread:
        return replicas
    return {
        name: (table, [replace(end, complete=False, error=end.error or unread[0]) for end in ends])
        for name, (table, ends) in replicas.items()
    }


def as_promised(table: pa.Table, written: Written) -> bool:
    """Whether a read holds every acknowledged value, none that failed or was never written, and
    each once. Values that are unique by key alone cannot be distinguished here: then it is not."""
    values = np.sort(table["value"].to_numpy())
    return (
        table["key"].null_count == len(table)
        and not (values[1:] == values[:-1]).any()
        and bool(among(written.acknowledged, values).all())
        and not among(written.failed, values).any()
        and bool(among(values, np.sort(written.attempted)).all())
    )


def _row_of(end: End, run_id: str, reader: str) -> dict[str, Any]:
    """A row of `ENDS`."""
    ranges = None if end.ranges is None else [each._asdict() for each in end.ranges]
    members = {MEMBERS: list(end.members), "ranges": ranges}
    return {"run_id": run_id, "reader": reader, **vars(end), **members}
