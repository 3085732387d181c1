"""One run as large as a night: seconds and memory to judge it, beside DuckDB counting the same.

Every minute a leader is cut off for four seconds: for a while it acknowledges writes that are lost
(2 % of all), some are unknown (0.1 %), and some are sent again and there twice. 1,000 processes of
uneven speed leave gaps between values; parts are as the recorder writes them, one for 4 s; a second
library reads what no acknowledgement names. The truth is known from how the run was made. Each side
is its own process; memory is the peak of resident pages of all its processes.

    python -m bench.soak [WRITES]          default 20,000,000; a night at 5,000/s is 200,000,000
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from bench.check import Measured, measured
from bench.made_runs import PARTITIONS, PROCESSES, SEED, Counts, Ints
from harness.history import ENDS, HISTORY, READS
from harness.history.manifest import write_manifest
from harness.history.parquet_writer import PART_S, ParquetWriter
from harness.history.run_folder import RunDir
from harness.plan import parse_plan

WRITES: Final = 20_000_000
RATE_PER_S: Final = 5_000
MINUTE: Final = 60 * RATE_PER_S
"""Writes from one fault to the next."""
CUT_S, LOST_S, HEALED_S = 20.0, 1.2, 4.0
"""When in a minute the leader is cut off, how long it acknowledges what is lost, and how long it is
cut off."""
OK, FAIL, INFO = 1, 2, 3
NEMESIS: Final = -1
"""Its process."""
FAILED, UNKNOWN, AGAIN = 0.005, 0.015, 0.02
"""Of all writes; and of those that are begun while the leader is cut off."""
AT_MOST_S, AT_MOST_MB = 180.0, 3_000.0
"""For 200 million writes; in proportion for others, but for what a process needs by itself."""
FIXED_S, FIXED_MB = 20.0, 1_300.0
DUCKDB_MB: Final = 6_000
COUNTED: Final = ("attempted", "acknowledged", "failed", "unknown", "lost", "survivors")
COUNTED_TOO: Final = ("unacknowledged_found", "failed_found", "duplicates", "unexpected")


@dataclass
class Soak:
    """Makes a run minute by minute, and counts what is true of it."""

    writes: int
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(SEED))
    truth: Counts = field(default_factory=lambda: dict.fromkeys((*COUNTED, *COUNTED_TOO), 0))

    def __post_init__(self) -> None:
        speed = self.rng.lognormal(0, 1.0, PROCESSES)
        self._share = speed / speed.sum()
        self._turns = np.zeros(PROCESSES, np.int64)
        self._offsets = np.zeros(PARTITIONS, np.int64)
        self._rows = 0
        self._open: dict[str, Ints] = {}
        self.ranges: list[list[dict[str, int]]] = [[] for _ in range(PARTITIONS)]

    def make(self, rundir: RunDir) -> None:
        """Write the folder of the run."""
        name = rundir.run_id
        plan = {"schema": 1, "name": name, "seed": SEED, "topic": {"partitions": PARTITIONS}}
        rundir.write_json(rundir.plan, parse_plan(plan).document())
        run = {"schema": 1, "run_id": name, "state": "done", "seed": SEED}
        rundir.write_json(rundir.run, run)
        with (
            ParquetWriter(rundir.history, HISTORY, run_id=name) as history,
            ParquetWriter(rundir.reads, READS, run_id=name) as reads,
        ):
            second: list[pa.Table] = []
            for first in range(0, self.writes, MINUTE):
                parts = self._history(first, min(MINUTE, self.writes - first), second, reads)
                for number, part in enumerate(parts):
                    history.write(self._with_nemesis(part) if number == 0 else part)
            if second:
                reads.write(pa.concat_tables(second).unify_dictionaries())
        pq.write_table(pa.Table.from_pylist(self._ends(name), schema=ENDS), rundir.ends)
        rundir.faults.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in self._journal()))
        write_manifest(rundir, name)

    def _history(
        self, first: int, size: int, second: list[pa.Table], reads: ParquetWriter
    ) -> Iterator[pa.Table]:
        """The history of a minute, in parts; writes what was read of it."""
        at_s = np.arange(size) / RATE_PER_S
        due_ns = ((first + np.arange(size)) / RATE_PER_S * 1e9).astype(np.int64)
        process = self.rng.choice(PROCESSES, size, p=self._share)
        value = process + self._turn(process) * PROCESSES
        cut = (at_s >= CUT_S) & (at_s < CUT_S + HEALED_S)
        drawn, other = self.rng.random((2, size))
        end = np.where(drawn < FAILED, FAIL, OK)
        end[cut & (drawn > 1 - UNKNOWN)] = INFO
        copies = np.where(end == OK, 1, np.where(end == INFO, other < 0.5, 0)).astype(np.int64)
        lost = (end == OK) & (at_s >= CUT_S) & (at_s < CUT_S + LOST_S)
        copies[lost] = 0
        copies[cut & (copies == 1) & (other < AGAIN)] = 2
        copies[np.flatnonzero(cut & (end == FAIL))[:1]] = 1
        self._count(end, copies)
        latency_ns = (self.rng.lognormal(1.0, 0.7, size) * 1e6).astype(np.int64)
        latency_ns += np.where(cut, (other * 1e9).astype(np.int64), 0)
        latency_ns[end == INFO] += 10 * 10**9
        partition = value % PARTITIONS
        offset = self._log(first, value, partition, copies, cut, reads, second)
        yield from self._parts(
            {
                "process": process,
                "value": value,
                "partition": partition,
                "offset": offset,
                "end": end,
                "intended_ns": due_ns,
                "begun_ns": due_ns + 20_000,
                "ended_ns": due_ns + 20_000 + latency_ns,
            },
            last=first + size >= self.writes,
        )

    def _turn(self, process: Ints) -> Ints:
        """How many writes each write's process began before it."""
        order = np.argsort(process, kind="stable")
        begins = np.flatnonzero(np.diff(process[order], prepend=-1))
        turn = np.empty(len(process), np.int64)
        turn[order] = np.arange(len(process)) - np.repeat(
            begins, np.diff(begins, append=len(process))
        )
        turn += self._turns[process]
        self._turns += np.bincount(process, minlength=PROCESSES)
        return turn

    def _count(self, end: Ints, copies: Ints) -> None:
        ok, found = end == OK, copies > 0
        for name, number in {
            "attempted": len(end),
            "acknowledged": ok.sum(),
            "failed": (end == FAIL).sum(),
            "unknown": (end == INFO).sum(),
            "lost": (ok & ~found).sum(),
            "survivors": found.sum(),
            "unacknowledged_found": (~ok & found).sum(),
            "failed_found": ((end == FAIL) & found).sum(),
            "duplicates": (copies - 1)[found].sum(),
            "unexpected": 1,
        }.items():
            self.truth[name] += int(number)

    def _log(
        self,
        first: int,
        value: Ints,
        partition: Ints,
        copies: Ints,
        cut: Any,
        reads: ParquetWriter,
        second: list[pa.Table],
    ) -> Ints:
        """Append a minute to the log of each partition, and read it: all by the first library, by
        the second what was written while the leader was cut off. The offsets that the writes were
        acknowledged: a lost one has that of a write that is there."""
        offset, parts = np.zeros(len(value), np.int64), []
        for number in range(PARTITIONS):
            here = np.flatnonzero(partition == number)
            base, times = self._offsets[number], copies[here]
            behind = np.cumsum(times)
            offset[here] = base + np.maximum(behind - np.maximum(times, 1), 0)
            log = np.repeat(value[here], times)
            if number == 0:  # at its end, one that nobody wrote
                log = np.append(log, -1 - first // MINUTE)
            parts.append((number, base + np.arange(len(log)), log))
            self._offsets[number] += len(log)
            unsure = np.flatnonzero(cut[here])
            if len(unsure):
                begin, stop = int(base + behind[unsure[0]] - 1), int(base + behind[unsure[-1]])
                ranges = [(max(begin, int(base)), stop + 1)]
            else:
                ranges = []
            ranges.append((int(base + len(log)) - 1, int(base + len(log))))
            self.ranges[number] += [{"first": a, "behind": b} for a, b in ranges]
            for a, b in ranges:
                inside = slice(a - int(base), b - int(base))
                second.append(_records("two", number, np.arange(a, b), log[inside]))
        reads.write(pa.concat_tables([_records("one", *part) for part in parts]))
        return offset

    def _parts(self, begun: dict[str, Ints], *, last: bool) -> Iterator[pa.Table]:
        """Begins and ends in the order of time; ends that are due later wait for their minute."""
        known = {
            name: np.concatenate([self._open.get(name, column[:0]), column])
            for name, column in begun.items()
        }
        waiting = len(known["end"]) - len(begun["end"])
        until_ns = int(begun["begun_ns"][-1]) if not last else 2**62
        ends_now = known["ended_ns"] <= until_ns
        self._open = {name: column[~ends_now] for name, column in known.items()}
        place = np.concatenate([np.arange(waiting, len(known["end"])), np.flatnonzero(ends_now)])
        begins = len(begun["end"])
        time_ns = np.concatenate([begun["begun_ns"], known["ended_ns"][ends_now]])
        kind = np.concatenate([np.zeros(begins, np.int64), known["end"][ends_now]])
        order = np.argsort(time_ns, kind="stable")
        place, time_ns, kind = place[order], time_ns[order], kind[order]
        step = int(2 * RATE_PER_S * PART_S)
        for begin in range(0, len(order), step):
            now = slice(begin, begin + step)
            rows = {name: column[place[now]] for name, column in known.items()}
            yield self._table(rows, kind[now].astype(np.int32), time_ns[now])

    def _table(self, rows: dict[str, Ints], kind: Any, time_ns: Ints) -> pa.Table:
        size = len(kind)
        index = np.arange(self._rows, self._rows + size)
        self._rows += size
        zero = np.zeros(size, np.int32)
        return pa.table(
            {
                "index": index,
                "process": rows["process"].astype(np.int32),
                "type": pa.DictionaryArray.from_arrays(kind, ["invoke", "ok", "fail", "info"]),
                "f": pa.DictionaryArray.from_arrays(zero, ["append"]),
                "value": rows["value"],
                "partition": rows["partition"].astype(np.int32),
                "offset": pa.array(rows["offset"], mask=kind != OK),
                "error": pa.DictionaryArray.from_arrays(
                    pa.array(zero, mask=kind < FAIL), ["_MSG_TIMED_OUT"]
                ),
                "intended_ns": rows["intended_ns"],
                "time_ns": time_ns,
            }
        )

    def _journal(self) -> Iterator[dict[str, Any]]:
        """When each minute's cut began and was healed."""
        step = {"type": "step", "nemesis": "partition", "nodes": ["b1"], "met": None, "why": ""}
        for number, first in enumerate(range(0, self.writes, MINUTE)):
            fault = {"fault": f"cut#{number + 1}"}
            begun_ns = int((first / RATE_PER_S + CUT_S) * 1e9)
            healed_ns = begun_ns + int(HEALED_S * 1e9)
            yield {**step, **fault, "time_ns": begun_ns}
            yield {"type": "on", **fault, "time_ns": begun_ns}
            yield {"type": "healed", **fault, "time_ns": healed_ns}

    def _with_nemesis(self, part: pa.Table) -> pa.Table:
        """A part with the rows of a cut's begin and end, whose key is that of no value."""
        rows = {
            "index": [self._rows, self._rows + 1],
            "process": [NEMESIS] * 2,
            "type": ["info"] * 2,
            "f": ["inject", "heal"],
            "key": ["cut"] * 2,
            "intended_ns": [part["time_ns"][0].as_py()] * 2,
            "time_ns": [part["time_ns"][0].as_py()] * 2,
        }
        self._rows += 2
        own = [field for field in HISTORY if field.name in rows]
        nemesis = pa.table(rows, schema=pa.schema(own))
        return pa.concat_tables([part, nemesis], promote_options="default").unify_dictionaries()

    def _ends(self, run_id: str) -> list[dict[str, Any]]:
        return [
            {
                "run_id": run_id,
                "reader": reader,
                "partition": number,
                "log_start_offset": 0,
                "end_offset": int(end),
                "position": int(end),
                "isr": ["b1", "b2", "b3"],
                "complete": True,
                "ranges": ranges,
            }
            for number, end in enumerate(self._offsets)
            for reader, ranges in (("one", None), ("two", self.ranges[number]))
        ]


def _records(reader: str, partition: int, offset: Ints, value: Ints) -> pa.Table:
    zero = np.zeros(len(value), np.int32)
    return pa.table(
        {
            "reader": pa.DictionaryArray.from_arrays(zero, [reader]),
            "partition": zero + np.int32(partition),
            "offset": offset,
            "value": value,
            "time_ns": np.full(len(value), 2**40),
        }
    )


def by_duckdb(run: Path) -> Counts:
    """The counts, by one query over the same files."""
    query = f"""
        WITH marks AS (
            SELECT value,
                   CASE type WHEN 'invoke' THEN 1 WHEN 'ok' THEN 2 WHEN 'fail' THEN 4 ELSE 8 END
                       AS mark
            FROM read_parquet('{run}/history/part-*.parquet')
            WHERE process >= 0 AND f = 'append'
            UNION ALL
            SELECT value, 16 FROM read_parquet('{run}/reads/part-*.parquet') WHERE reader = 'one'
        ), outcomes AS (
            SELECT bit_or(mark) AS marks, count(*) FILTER (mark = 16) AS copies
            FROM marks GROUP BY value
        )
        SELECT count(*) FILTER (marks & 15 <> 0),
               count(*) FILTER (marks & 2 <> 0),
               count(*) FILTER (marks & 14 = 4),
               count(*) FILTER (marks & 10 = 8),
               count(*) FILTER (marks & 18 = 2),
               count(*) FILTER (marks & 15 <> 0 AND marks & 16 <> 0),
               count(*) FILTER (marks & 18 = 16 AND marks & 15 <> 0),
               count(*) FILTER (marks & 30 = 20),
               sum(greatest(copies - 1, 0)),
               count(*) FILTER (marks = 16)
        FROM outcomes
    """
    with tempfile.TemporaryDirectory(prefix="ackloss-bench-") as spill:
        duckdb.execute(f"SET temp_directory = '{spill}'; SET memory_limit = '{DUCKDB_MB}MB'")
        (row,) = duckdb.execute(query).fetchall()
    return dict(zip((*COUNTED, *COUNTED_TOO), map(int, row), strict=True))


def is_right(name: str, measured: Measured, truth: Counts) -> bool:
    """Print what a side took; whether its counts are the truth."""
    (counts,) = measured.counts.values()
    ours = {name: counts[name] for name in truth}
    rate = truth["attempted"] / measured.took_s
    wrong = {name: (ours[name], number) for name, number in truth.items() if ours[name] != number}
    print(
        f"  {name:7} {measured.took_s:8.1f} s  {measured.peak_mb:7,.0f} MB  {rate:12,.0f} writes/s"
        f"  {f'COUNTS DIFFER FROM THE TRUTH: {wrong}' if wrong else ''}",
        flush=True,
    )
    return not wrong


def bars(writes: int, measured: Measured) -> bool:
    """Print what is asked; whether it is met."""
    part = writes / 200_000_000
    most_s = FIXED_S + (AT_MOST_S - FIXED_S) * part
    most_mb = FIXED_MB + (AT_MOST_MB - FIXED_MB) * part
    met = True
    for limit, number, unit in ((most_s, measured.took_s, "s"), (most_mb, measured.peak_mb, "MB")):
        met = met and number <= limit
        print(f"  bar {limit:,.0f} {unit}: {'met' if number <= limit else 'MISSED'}")
    return met


def main(arguments: list[str]) -> int:
    """1 if a count differs from the truth or a bar is missed."""
    if arguments and arguments[0] == "duckdb":
        sys.stdout.buffer.write(orjson.dumps({"soak": by_duckdb(Path(arguments[1]))}))
        return 0
    writes = int(arguments[0]) if arguments else WRITES
    with tempfile.TemporaryDirectory(prefix="ackloss-bench-") as folder:
        soak, run = Soak(writes), Path(folder, "soak")
        soak.make(RunDir.create(Path(folder), "soak"))
        size_mb = sum(path.stat().st_size for path in run.rglob("*.parquet")) / 2**20
        print(f"one run of {writes:,} writes, {size_mb:,.0f} MB of Parquet", flush=True)
        ours = measured(
            [sys.executable, "-m", "ackloss", "check", str(run), "--json"],
            lambda document: {"soak": document["counts"]},
        )
        right = is_right("ours", ours, soak.truth)
        theirs = measured(
            [sys.executable, "-m", "bench.soak", "duckdb", str(run)], lambda counts: counts
        )
        right = is_right("duckdb", theirs, soak.truth) and right
    return 0 if bars(writes, ours) and right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
