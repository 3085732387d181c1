"""One stored run as its judges see it: what it left behind as far as it is needed for judging (its
files, its ends, its circumstances), and its rows, as its checkers request them.

Facts are small. Operations and records stay in their Parquet files until rows are requested: a run
that is not large is kept in memory while it is judged; the parts of a larger one are read again by
every pass, so that a run of any size takes the memory of one batch. What is damaged, or of a newer
schema, is refused here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Full, Queue
from typing import Any, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness import registry
from harness.errors import HistoryError, TooNewError, nearest
from harness.faults.journal import windows
from harness.history import MEMBERS, parquet_reader
from harness.history.documents import InSync
from harness.history.manifest import gaps
from harness.history.parquet_reader import Parts, rows_of_ends
from harness.history.run_folder import RunDir
from harness.models import MODELS
from harness.protocols import DONE, PartitionEnd, Promises, ScriptedFault, Target
from harness.protocols.runs import (
    Bounds,
    Conduct,
    Deliveries,
    Facts,
    FaultWindow,
    Ints,
    Operations,
    Reads,
    Texts,
    Verified,
    Writes,
)


def stored_target(run: RunDir) -> Target[Any] | None:
    """The target of a run, by its plan.json; `None` if that cannot be read, or if this ackloss has
    no such target."""
    try:
        return target_of(run.read_json(run.plan))
    except HistoryError:
        return None


def target_of(plan: Mapping[str, Any]) -> Target[Any] | None:
    """The target that a plan.json names, or the default one; `None` if there is no such target."""
    section = plan.get("target")
    system = section.get("system") if isinstance(section, Mapping) else None
    target: Target[Any] | None = registry.target_named(system)
    return target


def facts_of(rundir: RunDir) -> Facts:
    """The facts of a run folder. Raises HistoryError for what is absent, damaged or too new."""
    run, plan = rundir.read_json(rundir.run), rundir.read_json(rundir.plan)
    with as_written(rundir):
        stored = run.get("promises")
        promises = _promised(plan, run) if stored is None else Promises.of(stored)
        _refuse_model(rundir, promises.model)
        return _facts(rundir, run, plan, promises)


def _promised(plan: Mapping[str, Any], run: Mapping[str, Any]) -> Promises:
    """The promises of a run that ended before it stored them."""
    target = registry.make("targets", plan["target"]["system"], {}, key="target.system")
    effective = (run.get("settings") or {}).get("effective") or {}
    promises: Promises = target.promises(plan, effective)
    return promises


@contextmanager
def as_written(rundir: RunDir) -> Iterator[None]:
    """Raise HistoryError where a run's documents turn out not to have what ackloss writes."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HistoryError(
            f"its run.json or plan.json is not as this ackloss writes it: {error!r}",
            file=str(rundir.path),
        ) from error


def _facts(rundir: RunDir, run: dict[str, Any], plan: dict[str, Any], promises: Promises) -> Facts:
    parts = Parts.of(rundir)
    if not parts.history and run["state"] == DONE:
        raise HistoryError("holds no history", file=str(rundir.history))
    load = run.get("load") or {}
    rows = rows_of_ends(rundir.ends) if rundir.ends.exists() else []
    missing = gaps(rundir, run, parts, rows)
    ends = tuple(_merged(rows, replicas=promises.replicas))
    noted = [InSync(**each) for each in run.get("in_sync") or ()]
    return Facts(
        run_id=run["run_id"],
        folder=rundir.path,
        history=tuple(part.path for part in parts.history),
        reads=tuple(part.path for part in parts.reads),
        deliveries=tuple(part.path for part in parts.deliveries),
        rows=sum(part.rows for part in (*parts.history, *parts.reads)),
        footers=parts.footers,
        # Where records may be missing from our own files, nothing counts as read to its end.
        ends=tuple(map(_not_reached, ends) if missing.reads else ends),
        plan=plan["name"],
        seed=run["seed"],
        promises=promises,
        state=run["state"],
        attempted=load.get("attempted"),
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
        replicated={each.partition: each.every for each in noted}
        | {end.partition: end.whole for end in ends if end.complete},
        holders=frozenset(node for each in noted for node in each.nodes),
        simulated=bool(run.get("simulated")),
        final_from_ns=load.get("final_from_ns"),
        timings=run.get("timings") or {},
        clients=Conduct.of(clients) if (clients := run.get("clients")) else None,
    )


def _refuse_model(rundir: RunDir, model: str) -> None:
    """Raise HistoryError for an unknown model: its operations have no known meaning."""
    if model not in MODELS:
        near = nearest(model, sorted(MODELS))
        raise (HistoryError if near else TooNewError)(
            f"there is no model {model!r}; there are: {', '.join(sorted(MODELS))}",
            file=str(rundir.run),
            key="promises.model",
            hint=f"did you mean {near!r}?"
            if near
            else "use the ackloss that wrote it, or a newer one",
        )


def _merged(rows: Iterable[dict[str, Any]], *, replicas: int) -> Iterable[PartitionEnd]:
    """One end per partition: of the complete readers, if there are any."""
    by_partition: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_partition.setdefault(row["partition"], []).append(row)
    for partition, every in by_partition.items():
        short = {row["reader"] for row in every if not _reached(row)}
        reached = [row for row in every if row["reader"] not in short]
        complete = [row for row in reached if row.get("ranges") is None]
        ends = complete or every
        read_to = min(_known(complete, "position"), default=None)
        yield PartitionEnd(
            partition=partition,
            log_start=max(_known(ends, "log_start_offset"), default=None),
            read_to=read_to if complete else max(_known(every, "position"), default=None),
            complete=bool(complete),
            whole=any(len(set(row[MEMBERS] or ())) >= replicas for row in complete),
            readers=tuple(dict.fromkeys(row["reader"] for row in complete)),
            error=None if complete else next(iter(_known(every, "error")), None),
            verified=tuple(
                Verified(row["reader"], tuple((r["first"], r["behind"]) for r in row["ranges"]))
                for row in reached
                if row.get("ranges") is not None and row["position"] == read_to
            ),
        )


def _reached(row: dict[str, Any]) -> bool:
    """Whether a reader was complete: it reports so, and nothing else that it reports contradicts
    it."""
    position, end = row["position"], row["end_offset"]
    stands_there = position is not None and position >= 0 and (end is None or end <= position)
    return bool(row["complete"]) and stands_there and row.get("error") is None


def _not_reached(end: PartitionEnd) -> PartitionEnd:
    return replace(end, complete=False, whole=False, readers=(), verified=())


def _known(rows: Iterable[dict[str, Any]], column: str) -> list[Any]:
    return [row[column] for row in rows if row.get(column) is not None]


# Reads ahead: while the consumer works on a part, threads make the next ones.
#
# Decoding Parquet and numpy's work on long arrays hold no lock of the interpreter, so all cores are
# used.

THREADS: Final = 2
"""Each makes the parts of every other item."""

PARTS: Final = 1
"""The largest number of parts of a thread that wait for the consumer."""

_LOOK_S: Final = 0.2
"""How often a waiting thread checks whether its consumer has gone."""

Item = TypeVar("Item")
Part = TypeVar("Part")
_Said = tuple[Part] | BaseException | None
"""A part, what making one raised, or that the parts of an item are all there."""


def ahead(items: Sequence[Item], make: Callable[[Item], Iterable[Part]]) -> Iterator[Part]:
    """The parts that `make` returns for each item, in order; what it raises is raised here, behind
    the parts before it."""
    readers = [_Reader(items[n::THREADS], make) for n in range(min(THREADS, len(items)))]
    for reader in readers:
        reader.start()
    try:
        for place in range(len(items)):
            yield from readers[place % THREADS].of_next_item()
    finally:
        for reader in readers:
            reader.stop.set()


class _Reader(threading.Thread, Generic[Item, Part]):
    """Makes the parts of some items until there are none, or `stop` is set."""

    def __init__(self, items: Sequence[Item], make: Callable[[Item], Iterable[Part]]) -> None:
        super().__init__(name="read-ahead", daemon=True)
        self.stop = threading.Event()
        self._items, self._make = items, make
        self._queue: Queue[_Said[Part]] = Queue(PARTS)

    def run(self) -> None:
        try:
            for item in self._items:
                for part in self._make(item):
                    if not self._put((part,)):
                        return
                if not self._put(None):
                    return
        except BaseException as error:  # raised again where the parts are used
            self._put(error)

    def of_next_item(self) -> Iterator[Part]:
        """The parts of the next of its items, as they are made."""
        while (got := self._queue.get()) is not None:
            if isinstance(got, BaseException):
                raise got
            yield got[0]

    def _put(self, what: _Said[Part]) -> bool:
        """Hand something over; whether it is still wanted."""
        while not self.stop.is_set():
            try:
                self._queue.put(what, timeout=_LOOK_S)
            except Full:
                continue
            return True
        return False


# What Parquet files state about the keys and values in them, so that few rows are read for it.
#
# Writers of Parquet store the least and the greatest value of a column and its number of nulls
# with each group of rows (the format's `Statistics`); they need not. A nemesis' rows have a key
# too, which is not that of a value: a file that holds some is read.


def stated(path: Path) -> Bounds | None:
    """The bounds of all rows of a file; `None` where it does not state them, or a nemesis' row may
    have a key. Raises HistoryError for a damaged file."""
    try:
        with pa.OSFile(str(path)) as source:  # a path would be looked up among file systems
            footer = pq.read_metadata(source)
    except (OSError, pa.ArrowException) as error:
        raise HistoryError("cannot be read: its Parquet is damaged", file=str(path)) from error
    names = [footer.schema.column(place).path for place in range(footer.num_columns)]
    groups = [_of_group(footer.row_group(n), names) for n in range(footer.num_row_groups)]
    known = [each for each in groups if each is not None]
    return together(known) if len(known) == len(groups) else None


def together(parts: Iterable[Bounds]) -> Bounds:
    """The bounds of all parts."""
    if not (some := [each for each in parts if each.rows]):
        return Bounds.none()
    rows, keyed, least, most = zip(*some, strict=True)
    return Bounds(sum(rows), any(keyed), min(least), max(most))


def _of_group(group: pq.RowGroupMetaData, names: list[str]) -> Bounds | None:
    value, key, process = (_statistics(group, names, each) for each in ("value", "key", "process"))
    if value is None or key is None:
        return None
    keyed = key.null_count < group.num_rows
    if keyed and "process" in names and (process is None or not (process.min or 0) >= 0):
        return None
    if value.null_count == group.num_rows:
        return Bounds.none()
    if not value.has_min_max or value.min > value.max:
        return None
    return Bounds(group.num_rows, keyed, value.min, value.max)


def _statistics(group: pq.RowGroupMetaData, names: list[str], column: str) -> Any:
    """Those of a column; `None`: it has none, or does not say how many nulls it has."""
    if column not in names:
        return None
    found = group.column(names.index(column)).statistics
    return found if found is not None and found.has_null_count else None


Holding = Callable[[Texts, Ints], bool]

NEVER: Final = 2**63 - 1
_KEPT_BYTES: Final = 2**25
_KEPT_ROWS: Final = 2**22
"""The rows of a run with no more Parquet and no more rows are kept: they take 250 MB at most."""

_ALONE_BYTES: Final = 2**24
"""So much is read by this thread alone: others would take longer to start."""


def bounds_ns(windows: Sequence[FaultWindow]) -> tuple[Ints, Ints]:
    """The first and the last instant of each fault's window; no instant lies in one that never
    began."""
    begins, ends = [], []
    for window in windows:
        if window.from_s is None:
            begins.append(NEVER)
            ends.append(NEVER - 1)
        else:
            begins.append(round(window.from_s * 1e9))
            ends.append(NEVER if window.to_s is None else round(window.to_s * 1e9))
    return np.array(begins, np.int64), np.array(ends, np.int64)


class Rows:
    """The rows of one run. All raise HistoryError for a part that cannot be read."""

    def __init__(self, facts: Facts) -> None:
        self.facts, self._model = facts, MODELS[facts.promises.model]
        size_bytes = sum(path.stat().st_size for path in (*facts.history, *facts.reads))
        self._keeps = size_bytes <= _KEPT_BYTES and (facts.rows or 0) <= _KEPT_ROWS
        self._alone = self._keeps and size_bytes <= _ALONE_BYTES
        self._writes: list[Writes] | None = None
        self._reads: list[Reads] | None = None

    def writes(self, *, holding: Holding | None = None) -> Iterator[Writes]:
        """The writes: neither the nemesis' nor other operations."""
        if self._writes is None and self._keeps:
            self._writes = list(self._read_writes())
        if self._writes:
            return iter(self._writes)
        return self._read_writes(holding)

    def operations(self) -> Iterator[Operations]:
        """All operations of the run's model, in the order of the history."""

        def read(paths: Iterable[Path]) -> Iterator[Operations]:
            return parquet_reader.operations(paths, self._model.functions, self.facts.footers)

        return self._each(self.facts.history, read)

    def reads(self) -> Iterator[Reads]:
        """The records, of all readers."""
        if self._reads is None and self._keeps:
            self._reads = list(self._read_reads())
        if self._reads:
            return iter(self._reads)
        return self._read_reads()

    def deliveries(self) -> Iterator[Deliveries]:
        """What consumers did."""
        return self._each(self.facts.deliveries, parquet_reader.deliveries)

    def things(self) -> Iterator[tuple[Texts, Ints]]:
        """The keys and values of all rows."""
        if self._keeps:
            yield from ((rows.key, rows.value) for rows in self.writes())
            yield from ((rows.key, rows.value) for rows in self.reads())
        else:
            yield from self._each(self.facts.history, self._written)
            yield from self._each(self.facts.reads, parquet_reader.keys_and_values)

    def bounds(self) -> Bounds:
        return together(
            stated(path) or Bounds.of(read([path]))
            for read, paths in (
                (self._written, self.facts.history),
                (parquet_reader.keys_and_values, self.facts.reads),
            )
            for path in paths
        )

    def _each(
        self, paths: Sequence[Path], read: Callable[[Sequence[Path]], Iterator[Part]]
    ) -> Iterator[Part]:
        """What `read` has of these files; those of a large run are read ahead."""
        return read(paths) if self._alone else ahead(paths, lambda path: read([path]))

    def _written(self, paths: Iterable[Path]) -> Iterator[tuple[Texts, Ints]]:
        return parquet_reader.written(paths, self._model.writes)

    def _read_writes(self, holding: Holding | None = None) -> Iterator[Writes]:
        def read(paths: Iterable[Path]) -> Iterator[Writes]:
            if holding is not None:
                paths = [
                    path for path in paths if any(holding(*each) for each in self._written([path]))
                ]
            return parquet_reader.writes(paths, self._model.writes, self.facts.footers)

        return self._each(self.facts.history, read)

    def _read_reads(self) -> Iterator[Reads]:
        read = partial(parquet_reader.reads, footers=self.facts.footers)
        return self._each(self.facts.reads, read)
