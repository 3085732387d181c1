"""What one run left behind, as far as judging it needs: its files, its ends, its circumstances.

Everything here is small; operations and records stay in their Parquet files until `checkers.rows`
reads them. What is damaged, or of a newer schema, is refused here, file by file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.evidence import Gaps, gaps
from harness.errors import HistoryError
from harness.faults.journal import FaultWindow, windows
from harness.history import ADDED, ENDS, HISTORY, READS, SCHEMA_VERSION
from harness.history.run_folder import RunDir
from harness.plan.acks import ALL, NOBODY, acks_of

DONE: Final = "done"

_DELETES: Final = ("retention.", "log.retention.", "log.cleaner.", "min.compaction.lag.")
_POLICIES: Final = ("cleanup.policy", "log.cleanup.policy")


@dataclass(frozen=True, kw_only=True)
class PartitionEnd:
    """How far one partition was read.

    `read_to` is the first offset that was not read, `log_start` the first that still was there;
    None where no reader knew. `readers`: those that read it to its end without an error; only what
    they read says what is there. `complete`: there is one, or the history itself is the reader;
    `whole`: and every replica was in sync then. `error`: why no reader was complete, where known.
    """

    partition: int
    log_start: int | None = None
    read_to: int | None = None
    complete: bool
    whole: bool
    readers: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class ScriptedFault:
    """One step of the plan that asks for a fault. `may_skip`: it has `else = "skip"`."""

    id: str
    may_skip: bool = False


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One run: where its rows are, and everything else its verdict rests on.

    `idempotent`: its producers were; `deletion_tested`: the plan itself makes the log lose its
    head; `starved`: why the load was not what was asked for; `forced`: what it asked of a version
    that does not honour it. `timed`: rows tell when they happened. `one_reader`: a history from
    outside, whose only read is its own; in a run, two libraries must agree on a counter-example.
    `drawn`: the faults asked for were drawn at random. `gaps`: what is missing from its folder.
    """

    run_id: str
    rundir: RunDir | None = None
    history: tuple[Path, ...]
    reads: tuple[Path, ...]
    ends: tuple[PartitionEnd, ...]
    partitions: int
    plan: str | None = None
    seed: int | None = None
    acks: str = "all"
    clients: int = 1  # real ones, which the processes share
    idempotent: bool = False
    deletion_tested: bool = False
    state: str = DONE
    error: str | None = None
    starved: str | None = None
    forced: tuple[str, ...] = ()
    faults: tuple[ScriptedFault, ...] = ()
    drawn: bool = False
    windows: tuple[FaultWindow, ...] = ()
    timed: bool = True
    one_reader: bool = False
    gaps: Gaps = field(default_factory=Gaps)
    timings: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def read_whole(self) -> bool:
        """Whether every partition was read to its end."""
        return self.partitions > 0 and all(
            any(end.partition == partition and end.complete for end in self.ends)
            for partition in range(self.partitions)
        )


def facts_of(rundir: RunDir) -> Facts:
    """The facts of a run folder. Raises HistoryError for what is absent, damaged or too new."""
    run, plan = rundir.read_json(rundir.run), rundir.read_json(rundir.plan)
    try:
        return _facts(rundir, run, plan)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HistoryError(
            f"its run.json or plan.json is not as this ackloss writes it: {error!r}",
            file=str(rundir.path),
        ) from error


def _facts(rundir: RunDir, run: dict[str, Any], plan: dict[str, Any]) -> Facts:
    history = _parts(rundir.parts(rundir.history), HISTORY)
    reads = _parts(rundir.parts(rundir.reads), READS)
    if not history and run["state"] == DONE:
        raise HistoryError("holds no history", file=str(rundir.history))
    settings, load = run.get("settings") or {}, run.get("load") or {}
    producer = (settings.get("effective") or {}).get("producer") or plan["workload"]["producer"]
    rows = _ends(rundir.ends)
    missing = gaps(rundir, run, rows)
    ends = _merged(rows, replicas=_replicas_needed(plan))
    return Facts(
        run_id=run["run_id"],
        rundir=rundir,
        history=history,
        reads=reads,
        # Where records may be missing from our own files, nobody has read anything to its end.
        ends=tuple(map(_not_reached, ends) if missing.reads else ends),
        partitions=plan["topic"]["partitions"],
        plan=plan["name"],
        seed=run["seed"],
        # Earlier versions took "00" and "0abc", which are 0 on the wire: none of ours, no promise.
        acks=acks_of(producer.get("acks", ALL)) or NOBODY,
        clients=int(plan["workload"].get("clients") or 1),
        idempotent=str(producer.get("enable.idempotence", False)).lower() == "true",
        deletion_tested=_deletion_tested(plan),
        state=run["state"],
        error=run.get("error"),
        starved=(load.get("why") or "the load generator was starved")
        if load.get("starved")
        else None,
        forced=tuple(
            f"{each['key']}: {each['what']} ({each['source']})" for each in run.get("forced") or []
        ),
        faults=tuple(
            ScriptedFault(id=step["id"], may_skip=step.get("else") == "skip")
            for step in plan["faults"]
            if step.get("nemesis")
        ),
        drawn=bool(plan.get("mix")),
        windows=tuple(windows(rundir.faults)),
        gaps=missing,
        timings=run.get("timings") or {},
    )


def _parts(paths: list[Path], schema: pa.Schema) -> tuple[Path, ...]:
    for path in paths:
        _check(path, schema)
    return tuple(paths)


def _check(path: Path, schema: pa.Schema) -> None:
    """Raise HistoryError unless `path` is a whole Parquet file with this schema's columns."""
    try:
        found = pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        what = "is empty" if path.stat().st_size == 0 else "is cut off, or not Parquet"
        raise HistoryError(what, file=str(path)) from error
    version = int((found.metadata or {}).get(b"ackloss.schema", SCHEMA_VERSION))
    if version > SCHEMA_VERSION:
        raise HistoryError(
            f"has schema {version}, this ackloss reads {SCHEMA_VERSION}",
            file=str(path),
            key="ackloss.schema",
            hint="use the ackloss that wrote it, or a newer one",
        )
    for column in schema:
        place = found.get_field_index(column.name)
        if place < 0 and (path.name, column.name) in ADDED:
            continue
        if place < 0:
            raise HistoryError("lacks a column", file=str(path), key=column.name)
        if _plain(found.field(place).type) != _plain(column.type):
            raise HistoryError(
                f"holds {found.field(place).type}, not {column.type}",
                file=str(path),
                key=column.name,
            )


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _ends(path: Path) -> list[dict[str, Any]]:
    """The rows of `reads/ends.parquet`; none where nothing was read."""
    if not path.exists():
        return []
    _check(path, ENDS)
    with pq.ParquetFile(path, pre_buffer=False) as file:  # three times as fast as `read_table`
        rows: list[dict[str, Any]] = file.read(use_threads=False).to_pylist()
    return rows


def _merged(rows: Iterable[dict[str, Any]], *, replicas: int) -> Iterable[PartitionEnd]:
    """One end a partition: of the readers that are complete, where there are any."""
    by_partition: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_partition.setdefault(row["partition"], []).append(row)
    for partition, every in by_partition.items():
        short = {row["reader"] for row in every if not _reached(row)}
        complete = [row for row in every if row["reader"] not in short]
        ends = complete or every
        yield PartitionEnd(
            partition=partition,
            log_start=max(_known(ends, "log_start_offset"), default=None),
            read_to=min(_known(complete, "position"), default=None)
            if complete
            else max(_known(every, "position"), default=None),
            complete=bool(complete),
            whole=any(len(set(row["isr"] or ())) >= replicas for row in complete),
            readers=tuple(dict.fromkeys(row["reader"] for row in complete)),
            error=None if complete else next(iter(_known(every, "error")), None),
        )


def _reached(row: dict[str, Any]) -> bool:
    """Whether a reader was complete: it says so, and nothing else that it says is against it."""
    position, end = row["position"], row["end_offset"]
    stands_there = position is not None and position >= 0 and (end is None or end <= position)
    return bool(row["complete"]) and stands_there and row.get("error") is None


def _not_reached(end: PartitionEnd) -> PartitionEnd:
    return replace(end, complete=False, whole=False, readers=())


def _known(rows: Iterable[dict[str, Any]], column: str) -> list[Any]:
    return [row[column] for row in rows if row.get(column) is not None]


def _replicas_needed(plan: dict[str, Any]) -> int:
    """How many replicas in sync are all of them, and no fewer than `min.insync.replicas`."""
    topic, target = plan["topic"]["settings"], plan["target"]["settings"]
    least = topic.get("min.insync.replicas", target.get("min.insync.replicas", 1))
    return max(int(plan["topic"]["replication_factor"]), int(least))


def _deletion_tested(plan: dict[str, Any]) -> bool:
    """Whether the plan puts retention, compaction or clocks under test."""
    asked = {**plan["target"]["settings"], **plan["topic"]["settings"]}
    return (
        any(key.startswith(_DELETES) and str(value) != "-1" for key, value in asked.items())
        or any("compact" in str(asked.get(policy, "")) for policy in _POLICIES)
        or any("clock" in str(step.get("nemesis")) for step in plan["faults"])
    )
