"""What one run left behind, as far as it is needed for judging: its files, its ends, its
circumstances.

Everything here is small; operations and records stay in their Parquet files until
`harness.history.rows` reads them. What is damaged, or of a newer schema, is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from harness import registry
from harness.errors import HistoryError, TooNewError, nearest
from harness.faults.journal import windows
from harness.history import ENDS, MEMBERS
from harness.history.documents import InSync
from harness.history.gaps import gaps
from harness.history.parquet_reader import Parts, rows_of_ends
from harness.history.run_folder import RunDir
from harness.models import MODELS
from harness.protocols import DONE, Facts, PartitionEnd, Promises, ScriptedFault, Target
from harness.protocols.runs import Conduct, Verified

# The target of a stored run: what only the system's plug-in knows about its runs' files.


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
    rows = rows_of_ends(rundir.ends, ENDS) if rundir.ends.exists() else []
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
