"""Runs that are drawn by chance, with the truth about them, as a run folder holds them.

Half of the runs lose writes: those with an odd number. Values are those of processes of uneven
speed, which leave gaps, or integers in a row. Some have keys, as Jepsen's sets by key do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from harness.history import ENDS, HISTORY, READS
from harness.history.manifest import write_manifest
from harness.history.parquet_writer import PART_S, ParquetWriter
from harness.history.run_folder import RunDir
from harness.plan import parse_plan
from harness.protocols import Promises

Ints = npt.NDArray[np.int64]
Counts = dict[str, int]

SEED: Final = 2013
PARTITIONS: Final = 3
REPLICAS: Final = 3
PROCESSES: Final = 1_000
KEYS: Final = [f"key-{number}" for number in range(10)]


def make_run(
    parent: Path, operations: int, number: int, *, gapped: bool = True, keyed: bool = False
) -> tuple[str, Counts]:
    """Write one run's folder; returns its id and the truth about it."""
    rundir = RunDir.create(parent, f"bench-{number:05d}")
    plan = parse_plan(
        {"schema": 1, "name": rundir.run_id, "seed": SEED, "topic": {"partitions": PARTITIONS}}
    )
    rundir.write_json(rundir.plan, plan.document())
    promises = Promises(partitions=PARTITIONS, replicas=REPLICAS, clients=REPLICAS)
    run = {"schema": 1, "run_id": rundir.run_id, "state": "done", "seed": SEED}
    run |= {"promises": promises.document(), "load": {"attempted": operations, "starved": False}}
    rundir.write_json(rundir.run, run)
    log = Log.drawn(np.random.default_rng([SEED, number]), operations, lossy=number % 2 == 1)
    values = uneven(operations) if gapped else np.arange(operations)
    keys = KEYS if keyed else []
    with ParquetWriter(rundir.history, HISTORY, run_id=rundir.run_id) as parts:
        for part in log.history(max(1_000.0, operations / 100)):
            parts.write(_with_keys(_with_values(part, values), keys))
    with ParquetWriter(rundir.reads, READS, run_id=rundir.run_id) as parts:
        parts.write(_with_keys(_with_values(log.reads(), values), keys))
    end = {"run_id": rundir.run_id, "reader": "bench", "log_start_offset": 0, "complete": True}
    end |= {"end_offset": 2 * operations, "position": 2 * operations, "isr": ["b1", "b2", "b3"]}
    ends = [{**end, "partition": partition} for partition in range(PARTITIONS)]
    pq.write_table(pa.Table.from_pylist(ends, schema=ENDS), rundir.ends)
    write_manifest(rundir, rundir.run_id)
    return rundir.run_id, log.truth()


def uneven(size: int) -> Ints:
    """Values in the order in which processes of uneven speed write them: p, p + P, p + 2 P ...
    Most processes are as fast as the others, and a few are much faster."""
    rng = np.random.default_rng(SEED)
    speed = rng.lognormal(0, 1.0, PROCESSES)
    process = rng.choice(PROCESSES, size, p=speed / speed.sum())
    order = np.argsort(process, kind="stable")
    first = np.flatnonzero(np.diff(process[order], prepend=-1))
    turn = np.arange(size) - np.repeat(first, np.diff(first, append=size))
    values = np.empty(size, np.int64)
    values[order] = process[order] + turn * PROCESSES
    return values


def _with_values(table: pa.Table, values: Ints) -> pa.Table:
    """The rows with these values in place of 0, 1, 2 ...; strange ones are behind them all."""
    number = table["value"].to_numpy()
    known = number < len(values)
    value = np.where(known, values[np.where(known, number, 0)], number + values.max() + 1)
    return table.set_column(table.schema.get_field_index("value"), "value", pa.array(value))


def _with_keys(table: pa.Table, keys: list[str]) -> pa.Table:
    """The rows with keys, if there are any: that of a value is always the same."""
    if not keys:
        return table
    code = (table["value"].to_numpy() % len(keys)).astype(np.int32)
    column = pa.DictionaryArray.from_arrays(code, keys)
    return table.set_column(table.schema.get_field_index("key"), "key", column)


@dataclass(frozen=True, kw_only=True)
class Log:
    """What became of the values 0, 1, 2 ...: `end` is 1 ok, 2 fail, 3 info; `copies` how often a
    value is in the log; `strange` values are in it although nobody wrote them."""

    end: Ints
    copies: Ints
    latency_ns: Ints
    strange: Ints

    @classmethod
    def drawn(cls, rng: np.random.Generator, size: int, *, lossy: bool) -> Log:
        """95 % ok, 3 % fail, 2 % info, of which half is there; lossy: some of each anomaly."""
        end = rng.choice([1, 2, 3], size, p=[0.95, 0.03, 0.02])
        there = np.where(end == 1, True, (end == 3) & (rng.random(size) < 0.5))
        strange = np.zeros(0, dtype=np.int64)
        copies = there.astype(np.int64)
        if lossy:
            copies[(end == 1) & (rng.random(size) < 0.002)] = 0
            copies[(end == 2) & (rng.random(size) < 0.01)] = 1
            copies[(copies == 1) & (rng.random(size) < 0.001)] += rng.integers(1, 3)
            strange = np.arange(size + 5, size + 8)
        latency_ns = (rng.lognormal(1.0, 0.7, size) * 1e6).astype(np.int64)
        return cls(end=end, copies=copies, latency_ns=latency_ns, strange=strange)

    def truth(self) -> Counts:
        """The counts, from how the log was drawn."""
        ok, found = self.end == 1, self.copies > 0
        return {
            "attempted": len(self.end),
            "acknowledged": int(ok.sum()),
            "failed": int((self.end == 2).sum()),
            "unknown": int((self.end == 3).sum()),
            "survivors": int(found.sum()),
            "lost": int((ok & ~found).sum()),
            "unacknowledged_found": int((~ok & found).sum()),
            "duplicates": int((self.copies - 1)[found].sum()),
            "unexpected": len(self.strange),
        }

    def history(self, rate_per_s: float) -> list[pa.Table]:
        """Its operations in parts, as the recorder would write them."""
        size = len(self.end)
        due_ns = (np.arange(size) / rate_per_s * 1e9).astype(np.int64)
        time_ns = np.concatenate([due_ns + 20_000, due_ns + 20_000 + self.latency_ns])
        order = np.argsort(time_ns, kind="stable")
        value, kind = order % size, np.where(order < size, 0, self.end[order % size])
        types = pa.array(["invoke", "ok", "fail", "info"])
        none = pa.nulls(2 * size, HISTORY.field("node").type)
        table = pa.table(
            {
                "index": np.arange(2 * size),
                "process": (value % 10).astype(np.int32),
                "type": pa.DictionaryArray.from_arrays(kind.astype(np.int32), types),
                "f": pa.DictionaryArray.from_arrays(np.zeros(2 * size, np.int32), ["append"]),
                "key": none,
                "value": value,
                "partition": (value % PARTITIONS).astype(np.int32),
                "offset": pa.array(value // PARTITIONS, mask=kind != 1),
                "node": none,
                "error": pa.DictionaryArray.from_arrays(
                    pa.array(np.zeros(2 * size, np.int32), mask=kind < 2), ["_MSG_TIMED_OUT"]
                ),
                "intended_ns": due_ns[value],
                "time_ns": time_ns[order],
            }
        )
        rows = max(int(2 * rate_per_s * PART_S), 1)
        return [table.slice(begin, rows) for begin in range(0, 2 * size, rows)]

    def reads(self) -> pa.Table:
        """Its log, read by one reader."""
        size = len(self.end)
        value = np.concatenate([np.repeat(np.arange(size), self.copies), self.strange])
        # The further copies of a value stand far behind the first.
        first = np.concatenate([[True], value[1:] != value[:-1]])
        offset = np.where(first, value // PARTITIONS, size + np.arange(len(value)))
        behind = np.argsort(offset, kind="stable")  # as a reader gets them
        value, offset = value[behind], offset[behind]
        text = np.zeros(len(value), np.int32)
        return pa.table(
            {
                "reader": pa.DictionaryArray.from_arrays(text, ["bench"]),
                "key": pa.nulls(len(value), READS.field("key").type),
                "partition": (value % PARTITIONS).astype(np.int32),
                "offset": offset,
                "value": value,
                "leader_epoch": text,
                "time_ns": np.full(len(value), 2**40),
            }
        )
