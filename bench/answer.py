"""From the last operation of a flat-out run to its answer: 10 s and 2 s for each million writes.

The case of a flat-out minute: 1 partition, 1,000 processes of uneven speed, 15 % of what was
acknowledged lost, as they are lost: a leader that is cut off acknowledges a stretch of writes while
its successor is given the same offsets. A fake broker in its own process serves what is left;
history and acknowledgements are as the recorder leaves them. Measured are the final read with both
readers, its files, and judging; not the wait until the cluster has recovered, nor the page.

    python -m bench.answer [WRITES]        default 2,000,000; the minute itself is 5,600,000
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.final_read import Ints, end_of, served, source_of
from bench.made_runs import uneven
from checkers.judging.one_run import judge_run
from harness.history import HISTORY
from harness.history.manifest import write_manifest
from harness.history.parquet_writer import ParquetWriter
from harness.history.run_folder import RunDir
from harness.plan import parse_plan
from harness.protocols import Cluster, End, Range
from harness.protocols.clock import RunClock
from harness.run.final_read import read_everything
from harness.run.recorder import Recorder, Written
from targets.kafka.clients.library import READERS
from targets.kafka.plan import KafkaPlan
from targets.kafka.reading import read_from, read_ranges_from
from tests.fixtures.bare_target import BareTarget

WRITES: Final = 2_000_000
LOST: Final = 0.15
IN_FLIGHT: Final = 20_000
UNKNOWN: Final = 0.05
"""Of the writes that are in flight when the leader is cut off."""
FIXED_S, A_MILLION_S = 10.0, 2.0
PART_ROWS: Final = 1_000_000
PLAN: Final = parse_plan(
    {"schema": 1, "name": "bench-answer", "topic": {"partitions": 1, "replication_factor": 1}}
)


@dataclass(frozen=True)
class Flat:
    """What was written: values in the order of their writes, whether each is lost or unknown (of
    which half are there), and the offset of each."""

    value: Ints
    lost: Ints
    unknown: Ints
    offset: Ints

    @classmethod
    def drawn(cls, size: int) -> Flat:
        """The stretch of losses lies in the middle: each lost write shares its offset with one that
        is there."""
        rng = np.random.default_rng(2013)
        lost, first = np.zeros(size, np.int64), int(size * (0.5 - LOST))
        lost[first : first + int(2 * LOST * size)] = np.arange(int(2 * LOST * size)) % 2
        unknown = np.zeros(size, np.int64)
        unknown[first : first + IN_FLIGHT] = rng.random(size)[first : first + IN_FLIGHT] < UNKNOWN
        there = (lost == 0) & ((unknown == 0) | (np.arange(size) % 4 < 2))
        offset = np.cumsum(there) - 1
        return cls(uneven(size), lost, unknown, np.where(there, offset, np.maximum(offset, 0)))

    @property
    def log(self) -> Ints:
        """The values that are there, in order."""
        there = np.diff(self.offset, prepend=-1) == 1
        values: Ints = self.value[there & (self.lost == 0)]
        return values

    def written(self) -> Written:
        """What the final read gets from the recorder."""
        ok = self.unknown == 0
        none = np.empty(0, np.int64)
        partition = np.zeros(int(ok.sum()), np.int64)
        return Written(self.value, self.value[ok], none, partition, self.offset[ok])

    def history(self) -> pa.Table:
        """Its operations: all begin, then all end, each thousandth of a second after the other."""
        size, ok = len(self.value), self.unknown == 0
        kind = np.concatenate([np.zeros(size, np.int32), np.where(ok, 1, 2).astype(np.int32)])
        rows, time_ns = 2 * size, np.repeat(np.arange(size) * 1_000, 2)
        order = np.arange(rows).reshape(2, size).T.ravel()  # each write begins, and ends
        value = np.tile(self.value, 2)[order]
        kind = kind[order]
        zero = np.zeros(rows, np.int32)
        errors = pa.DictionaryArray.from_arrays(pa.array(zero, mask=kind < 2), ["_MSG_TIMED_OUT"])
        return pa.table(
            {
                "index": np.arange(rows),
                "process": (value % 1_000).astype(np.int32),
                "type": pa.DictionaryArray.from_arrays(kind, ["invoke", "ok", "info"]),
                "f": pa.DictionaryArray.from_arrays(zero, ["append"]),
                "key": pa.nulls(rows, HISTORY.field("key").type),
                "value": value,
                "partition": zero,
                "offset": pa.array(np.tile(self.offset, 2)[order], mask=kind != 1),
                "node": pa.nulls(rows, HISTORY.field("node").type),
                "error": errors,
                "intended_ns": time_ns,
                "time_ns": time_ns + (kind != 0),
            }
        )


@dataclass
class Recorded:
    """A recorder whose run is over."""

    flat: Flat

    def written(self) -> Written:
        """See Recorder."""
        return self.flat.written()


@dataclass
class Read(BareTarget):
    """Kafka as a target, whose brokers' ends are known."""

    address: str
    log_size: int

    def readers(self, _: object) -> tuple[str, str]:
        """Kafka's."""
        return READERS

    def read_all(
        self, _: Cluster, plan: KafkaPlan, *, reader: str, timeout_s: float
    ) -> tuple[pa.Table, list[End]]:
        """See Target."""
        print(f"  {reader} reads everything", flush=True)
        with source_of(self.address, end_of(self.log_size)) as source:
            return read_from(source, plan, reader=reader, timeout_s=timeout_s)

    def read_ranges(
        self,
        _: Cluster,
        plan: KafkaPlan,
        *,
        reader: str,
        ranges: Mapping[int, Sequence[Range]],
        timeout_s: float,
    ) -> tuple[pa.Table, list[End]]:
        """See Target."""
        size = sum(behind - first for first, behind in ranges[0])
        print(f"  {reader} reads {size:,} records in {len(ranges[0])} ranges", flush=True)
        with source_of(self.address, end_of(self.log_size)) as source:
            return read_ranges_from(source, plan, ranges, timeout_s=timeout_s)


def main(arguments: list[str]) -> int:
    """1 if the answer is late, or wrong."""
    size = int(arguments[0]) if arguments else WRITES
    flat = Flat.drawn(size)
    lost = int(flat.lost[flat.unknown == 0].sum())
    most_s = FIXED_S + A_MILLION_S * size / 1e6
    with tempfile.TemporaryDirectory() as folder, served(flat.log) as address:
        rundir = RunDir.create(Path(folder), "r")
        rundir.write_json(rundir.plan, PLAN.document())
        rundir.write_json(rundir.run, {"schema": 1, "run_id": "r", "state": "done", "seed": 1})
        with ParquetWriter(rundir.history, HISTORY, run_id="r") as parts:
            history = flat.history()
            for first in range(0, len(history), PART_ROWS):
                parts.write(history.slice(first, PART_ROWS))
        print(f"answer after {size:,} writes, {lost:,} of them lost", flush=True)
        begun = time.monotonic()
        read_everything(
            Read(address, len(flat.log)),
            cast(Cluster, None),
            PLAN,
            RunClock(zero_ns=0),
            cast(Recorder, Recorded(flat)),
            rundir,
            threading.Event(),
        )
        read_s = time.monotonic() - begun
        write_manifest(rundir, "r")
        document = judge_run(rundir)
        took_s = time.monotonic() - begun
        ends = pq.read_table(rundir.ends).num_rows
    right = document["counts"]["lost"] == lost and "lost" in document["counter_examples"]
    print(f"  final read {read_s:.1f} s ({ends} ends), judging {took_s - read_s:.1f} s")
    print(f"  {document['reason']}: {'as it is' if right else f'WRONG, {lost:,} are lost'}")
    print(f"  bar {most_s:.1f} s: {'met' if took_s <= most_s else 'MISSED'} ({took_s:.1f} s)")
    return 0 if right and took_s <= most_s else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
