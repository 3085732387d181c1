"""The end of a run: wait until every replica is in sync, then read all that the cluster holds.

Once with the first reader. If that read is not complete, or is not what the clients were promised,
it is repeated with the other: before any counter-example is reported, a second library reads what
it depends on (`harness.run.second_read`). Lost by the cluster, or missed by the consumer?
"""

from __future__ import annotations

import io
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.history import ENDS, MEMBERS, READS
from harness.history.documents import InSync
from harness.history.lookup import among
from harness.history.parquet_writer import ParquetWriter
from harness.history.run_folder import RunDir, write_atomically
from harness.plan import Plan
from harness.protocols import Cluster, End, Situation, Target
from harness.protocols.clock import Clock, RunClock
from harness.run.answers import read_by, readers_of
from harness.run.observer import Observer
from harness.run.recorder import Recorder, Written
from harness.run.second_read import ranges_of, read_again

NOT_FULLY_REPLICATED = (
    "not every replica was in sync when the final read began: final.settle_s had passed"
)
_WHOLE_FOR_NS = 1_000_000_000


def wait_until_replicated(
    settle_s: float,
    observer: Observer,
    stop: threading.Event,
    clock: Clock,
) -> bool:
    """Wait until every partition of every cell is fully replicated and stays so for a second (right
    after a heal it may be the old state). False: this did not happen within `settle_s`. Without an
    observer there is nothing to wait for: the ends of the final read show who was in sync."""
    if not observer.observes:
        return True
    deadline_ns = clock.now_ns() + round(settle_s * 1e9)
    since_ns: int | None = None
    while not stop.is_set() and (now_ns := clock.now_ns()) < deadline_ns:
        if not all(
            is_fully_replicated(observer.situation(number), cell.plan)
            for number, cell in enumerate(observer.cells)
        ):
            since_ns = None
        elif since_ns is None:
            since_ns = now_ns
        elif now_ns - since_ns >= _WHOLE_FOR_NS:
            return True
        clock.wait(stop, 0.1)
    return False


def is_fully_replicated(situation: Situation, plan: Plan) -> bool:
    """Whether every partition has a leader and all its replicas in sync."""
    return all(each.every for each in in_sync(situation, plan))


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
    none; else everything, as what consumers did may be one with any record."""
    if stop.is_set():
        return
    first, second = readers_of(target, plan)
    written = recorder.written()
    ends: list[pa.Table] = []
    with ParquetWriter(rundir.reads, READS, run_id=rundir.run_id) as reads:

        def keep(reader: str, table: pa.Table, of_reader: list[End]) -> None:
            reads.write(_since_start(table, clock))
            ends.append(_ends_table(rundir.run_id, reader, of_reader))

        table, of_first = read_by(target, cluster, plan, first)
        keep(first, table, of_first)
        complete = all(end.complete for end in of_first)
        well = in_parts and complete and as_promised(table, written)
        if not (well or stop.is_set()):
            wanted = ranges_of(table, of_first, written) if complete and in_parts else None
            found = read_again(target, cluster, plan, second, table, of_first, wanted)
            keep(second, *found)
    buffer = io.BytesIO()
    pq.write_table(pa.concat_tables(ends), buffer)
    write_atomically(rundir.ends, buffer.getvalue())


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


def _since_start(table: pa.Table, clock: RunClock) -> pa.Table:
    place = table.schema.get_field_index("time_ns")
    times = pc.subtract(table["time_ns"], clock.zero_ns or 0)
    return table.set_column(place, "time_ns", times)


def _ends_table(run_id: str, reader: str, ends: list[End]) -> pa.Table:
    rows = [
        {
            "run_id": run_id,
            "reader": reader,
            **vars(end),
            MEMBERS: list(end.members),
            "ranges": None if end.ranges is None else [each._asdict() for each in end.ranges],
        }
        for end in ends
    ]
    return pa.Table.from_pylist(rows, schema=ENDS)
