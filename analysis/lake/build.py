"""Adds the rows of a campaign to a lake, and only those that are not there yet.

A run whose result is as it was when its rows were written is not read again. A run that was judged
again replaces its rows. What a campaign no longer has, because it was pruned or a file was damaged,
stays in the lake. A campaign without a finished run is not in it yet.

Each table is committed by itself, `runs` last: by it the next build sees what is missing.

The rows of one run are a row of `runs`, and those of its judged cells in every other table. Every
number comes from the readers that reports use; nothing is counted again here. What is not known is
null, and a run that the harness failed has neither verdict nor counts. A checker, which may be a
plug-in, chooses the columns of its findings and their types. Those that the lake has too, with a
type that says the same, are in these columns; all others are in `more`, as JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson
import pandas as pd
import pyarrow as pa

from analysis import frames
from analysis.findings import fitting, found_columns
from analysis.lake import delta, sources
from analysis.lake.delta import (
    CAMPAIGNS,
    CELLS,
    FINDINGS,
    OPS,
    RUNS,
    TABLES,
    TEXT,
    LakeCampaign,
    StoredLake,
    open_or_new,
)
from analysis.lake.sources import Copied, LoadedCampaign, Source, Unit, total
from analysis.lake.stored import conditions_of, digest
from analysis.primary import first_check
from analysis.statistics.cells import Outcome, is_conclusive, is_eligible, verdict_class
from harness.campaigns.folder import CampaignDir
from harness.errors import HistoryError
from harness.history import MEMBERS
from harness.history.documents import Availability, Counts, Rates, RunResult
from harness.history.run_folder import RunDir
from harness.protocols import INVALID, UNKNOWN, VALID
from harness.storage import Folder

_AT_ONCE: Final = 1_000
"""So many runs are one commit: to find the rows of more takes ever longer."""


@dataclass(frozen=True, kw_only=True)
class Built:
    """What a build did for one campaign: its finished runs, and how many of them were added to the
    lake or replaced there; the rows that the lake now has of it, by table. `absent`: how many more
    are not in the campaign's archive, or not completely. `kept`: the runs whose rows stay since
    their results cannot be read any more, and why. `unread`: those added or replaced without a
    verdict since their results cannot be read, and why."""

    campaign: str
    runs: int
    added: int
    replaced: int
    rows: Mapping[str, int]
    absent: int = 0
    kept: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Stored:
    """A run as the lake has it. `judged`: the names of its cells that have a verdict; `None` is
    that of the cell of a run without cells."""

    digest: str
    with_ops: bool
    judged: frozenset[str | None]

    def lost_by(self, unread: Mapping[str | None, str | None]) -> str | None:
        """Why a verdict would be lost with these cells, whose results cannot be read; `None`: none
        would. A run whose result cannot be read takes all its cells with it."""
        return next(
            (why for cell, why in unread.items() if self.judged and cell in {None, *self.judged}),
            None,
        )


def build(
    folder: Folder, campaign: CampaignDir, *, ops: bool = False, copied: Copied | None = None
) -> Built:
    """Bring the lake in `folder` up to date with a campaign; with `ops` also the operations of its
    runs. `copied`: the campaign's folder is a copy of its archive.

    Raises HistoryError or PlanError when the campaign cannot be read, HistoryError when the folder
    holds something else than a lake, and EnvironmentFailure when it cannot be written.
    """
    loaded = sources.load(campaign, copied)
    lake, now = open_or_new(folder), _as_it_is(loaded)
    _refuse_another(lake, loaded, now)
    stored = _stored(lake, now.id)
    every = loaded.sources()
    due = [source for source in every if _is_due(source, stored.get(source.run_id), ops)]
    kept = _worse(due, stored)
    changed = [source for source in due if source.run_id not in kept]
    replaced = sum(source.run_id in stored for source in changed)
    if changed and copied is not None:
        copied.complete({source.run_id for source in changed})
    if (changed or stored) and lake.campaign(now.id) != now:
        lake.replace(CAMPAIGNS, now.id, None, iter([now.row()]))
    for first in range(0, len(changed), _AT_ONCE):
        _write(lake, now.id, changed[first : first + _AT_ONCE], stored, ops=ops)
    if replaced:
        lake.tidy()
    return Built(
        campaign=now.id,
        runs=len(every),
        added=len(changed) - replaced,
        replaced=replaced,
        rows=_counted(open_or_new(folder) if changed else lake, now.id),
        absent=loaded.finished - len(every),
        kept=kept,
        unread={
            source.run_id: "; ".join(filter(None, source.unread.values()))
            for source in changed
            if source.unread
        },
    )


def _as_it_is(loaded: LoadedCampaign) -> LakeCampaign:
    plan, progress = loaded.campaign, loaded.progress
    return LakeCampaign(
        id=loaded.id,
        name=plan.plan.name,
        plan_hash=plan.digest,
        simulated=plan.simulated,
        started=progress.started,
        ended=progress.ended,
        workers=progress.workers,
    )


def _refuse_another(lake: StoredLake, loaded: LoadedCampaign, now: LakeCampaign) -> None:
    """Raise HistoryError where the lake has another campaign of this name, this one under another
    name, or campaigns that are simulated where this one is real."""
    file = str(loaded.folder.path)
    if lake.campaigns and lake.simulated != now.simulated:
        one, other = ("real", "simulated") if lake.simulated else ("simulated", "real")
        raise HistoryError(
            f"this campaign is {one}, and those of the lake {lake.shown} are {other}",
            file=file,
            hint="use another lake: simulated and real results never mix",
        )
    before = lake.campaign(now.id)
    if before is not None and before.identity != now.identity:
        raise HistoryError(
            f"the lake {lake.shown} has another campaign of the name {now.id}",
            file=file,
            hint="rename the folder of one of them, or use another lake",
        )
    same = next((each for each in lake.campaigns if each.identity == now.identity), now)
    if same.id != now.id:
        raise HistoryError(
            f"the lake {lake.shown} has this campaign (same plan_hash and start) under the name "
            f"{same.id!r}: as {now.id!r} its runs would count twice",
            file=file,
            hint=f"name it {same.id!r} as before, or use another lake",
        )


def _stored(lake: StoredLake, campaign: str) -> dict[str, _Stored]:
    """The runs of the campaign that the lake has, by run id."""
    judged: dict[str, set[str | None]] = {}
    cells = lake.rows(CELLS, ["run_id", "run_cell", "verdict"], campaign=campaign)
    for row in cells.to_pylist():
        names = judged.setdefault(row["run_id"], set())
        names |= {row["run_cell"]} if row["verdict"] is not None else set()
    runs = lake.rows(RUNS, ["run_id", "digest", "with_ops"], campaign=campaign)
    return {
        row["run_id"]: _Stored(
            row["digest"], row["with_ops"], frozenset(judged.get(row["run_id"], ()))
        )
        for row in runs.to_pylist()
    }


def _is_due(source: Source, stored: _Stored | None, ops: bool) -> bool:
    """Whether the rows of a run are to be written."""
    if stored is None:
        return True
    if not source.has_results:
        return False  # removed since: what the lake has is all that is left
    return source.digest != stored.digest or (
        ops and not stored.with_ops and has_rows_of(OPS, source)
    )


def _worse(due: Sequence[Source], stored: Mapping[str, _Stored]) -> dict[str, str]:
    """The runs of which the lake has a verdict that the campaign's folder has no longer, as a file
    was damaged since, and why."""
    found = {}
    for source in due:
        before = stored.get(source.run_id)
        why = before.lost_by(source.unread) if before else None
        if why is not None:
            found[source.run_id] = why
    return found


def _write(
    lake: StoredLake,
    campaign: str,
    changed: Sequence[Source],
    stored: Mapping[str, _Stored],
    *,
    ops: bool,
) -> None:
    """Replace the rows of these runs in every table. Rows stay whose files a pruned run no longer
    has."""
    for table in reversed(TABLES.values()):
        if table is OPS and not ops:
            continue
        sources = [source for source in changed if has_rows_of(table, source)]
        rows = (
            rows_of(table, source, with_ops=_has_ops(source, stored, ops=ops)) for source in sources
        )
        if sources:
            lake.replace(table, campaign, [source.run_id for source in sources], rows)


def _has_ops(source: Source, stored: Mapping[str, _Stored], *, ops: bool) -> bool:
    """Whether the lake has the operations of a run, once it is written."""
    before = stored.get(source.run_id)
    return (before is not None and before.with_ops) or (ops and has_rows_of(OPS, source))


def _counted(lake: StoredLake, campaign: str) -> dict[str, int]:
    """How many rows of each table the campaign has, but 0."""
    rows = {name: lake.rows(of, [delta.CAMPAIGN], campaign=campaign) for name, of in TABLES.items()}
    return {name: len(each) for name, each in rows.items() if len(each)}


_RUN_ID: Final = "run_id"
_CHECKER: Final = "checker"
_MORE: Final = "more"
_OF_THE_LAKE: Final = frozenset({delta.CAMPAIGN, _RUN_ID, "run_cell", _CHECKER, _MORE})
"""Columns that the lake fills: one of a checker with such a name is another."""


def findings(folder: RunDir) -> pa.Table:
    """The findings of a judged cell; the columns that name it are null. Raises HistoryError."""
    files = sorted(folder.findings.glob("*.parquet"))
    return pa.concat_tables([FINDINGS.schema.empty_table(), *map(_columns, files)])


def _columns(path: Path) -> pa.Table:
    """The findings of one checker."""
    given = found_columns(path)
    size = len(next(iter(given.values()), ()))
    held = {
        field.name: column
        for field in FINDINGS.schema
        if field.name in given.keys() - _OF_THE_LAKE
        and (column := fitting(given[field.name], field.type)) is not None
    }
    others = {name: column for name, column in given.items() if name not in held}
    held[_CHECKER] = pa.repeat(path.stem, size)
    held[_MORE] = _as_json(others, size)
    return pa.table(
        [held.get(field.name, pa.nulls(size, field.type)) for field in FINDINGS.schema],
        schema=FINDINGS.schema,
    )


def _as_json(columns: Mapping[str, pa.ChunkedArray], size: int) -> pa.Array:
    """The rows of these columns as JSON objects, without what is null; null for an empty one."""
    if not columns:
        return pa.nulls(size, TEXT)
    rows = pa.table(dict(columns)).to_pylist()
    known = ({name: value for name, value in row.items() if value is not None} for row in rows)
    texts = (orjson.dumps(each, default=str).decode() if each else None for each in known)
    return pa.array(texts, TEXT)


Row = dict[str, Any]

_NOTHING: Final = {field.name: None for field in fields(Counts)}
_WHY: Final = ("unexplained", "not_examined", "survivable")


def rows_of(table: delta.Table, source: Source, *, with_ops: bool) -> pa.Table:
    """The rows of a run in a table; `with_ops`: whether the lake has its operations. Raises
    HistoryError."""
    if table in _READ:
        return _of_folders(table, source, _READ[table])
    file = source.folder.result
    if table is delta.FAULTS:
        return _table(
            table, [row for unit in source.units for row in _fault_rows(source, unit)], file
        )
    cells = [_cell_row(source, unit) for unit in source.units]
    run = _run_row(source, cells) | {"with_ops": with_ops}
    return _table(table, cells if table is delta.CELLS else [run], file)


def has_rows_of(table: delta.Table, source: Source) -> bool:
    """Whether the files that the rows of a table come from are still there: a pruned run has
    neither operations nor observations any more."""
    if table not in (delta.OBSERVATIONS, delta.OPS):
        return True
    judged = (unit.folder for unit in source.units if unit.result)
    return any(
        folder.parts(folder.history if table is delta.OPS else folder.observations)
        for folder in judged
    )


def _run_row(source: Source, cells: list[Row]) -> Row:
    """The row of a run; of a shared run it is made of those of its cells."""
    campaign, metadata = source.campaign.campaign, source.metadata
    judged = _of_all(source, cells) if source.is_shared else _of_one(source)
    return {
        **_common(cells),
        **judged,
        "run_id": source.run_id,
        "cells": len(cells),
        **{name: total(cell[name] for cell in cells) for name in ("processes", "rate_per_s")},
        "seconds": max(
            (run.seconds for run in source.runs if run.seconds is not None), default=None
        ),
        **{
            f"{phase}_s": metadata.timings.get(f"{phase}_s") for phase in ("cluster", "run", "read")
        },
        "started": _instant(metadata.wall_time),
        "version": metadata.versions.get("target"),
        "versions": _map(metadata.versions),
        "worker": source.runs[0].worker,
        "cluster": metadata.cluster.id,
        "campaign_name": campaign.plan.name,
        "digest": source.digest,
    }


def _common(cells: list[Row]) -> Row:
    """What is the same for all cells of a run; else null."""
    first, *others = cells
    row = {name: value if all(c[name] == value for c in others) else None
           for name, value in first.items()}  # fmt: skip
    same = [pair for pair in first["setting"] if all(pair in cell["setting"] for cell in others)]
    return row | {"setting": same}


def _of_one(source: Source) -> Row:
    ((_, outcome),) = source.outcomes
    return _judgement(outcome) | _measured(outcome, source.folder)


def _of_all(source: Source, cells: list[Row]) -> Row:
    """A shared run: invalid if one of its cells is, valid if all are. Rates and what clients saw
    are each cell's own."""
    verdicts = Counter(cell["verdict"] or "without a verdict" for cell in cells)
    words = (f"{number} of {len(cells)} cells: {verdict}" for verdict, number in verdicts.items())
    valid = VALID if set(verdicts) == {VALID} else UNKNOWN
    lists = ("doubts", "counter_examples")
    return {
        **{
            name: list(dict.fromkeys(each for cell in cells for each in cell[name] or ()))
            for name in lists
        },
        "verdict": INVALID if verdicts[INVALID] else valid,
        "reason": "; ".join(words),
        **{
            name: all(cell[name] for cell in cells)
            for name in ("conclusive", "eligible", "complete")
        },
        **_measured(None, source.folder),
        **{name: total(cell[name] for cell in cells) for name in (*_NOTHING, *_WHY)},
        "causes": _summed(cell["causes"] for cell in cells),
    }


def _summed(maps: Iterable[list[tuple[str, int]] | None]) -> list[tuple[str, int]]:
    causes = sum((Counter(dict(each or ())) for each in maps), Counter[str]())
    return list(causes.items())


def _cell_row(source: Source, unit: Unit) -> Row:
    result, cell = unit.result, unit.cell
    span = next(iter(result.lost_spans or ()), None) if result else None
    model = result.model if result else None
    faults = result.faults if result and _counted_in(unit.folder) else None
    return {
        **_of(source, unit),
        "cell": cell.name,
        **_which(source, unit),
        "plan_digest": digest({k: v for k, v in cell.document.items() if k != "seed"}),
        **vars(conditions_of(source.campaign.campaign, cell)),
        "shared": unit.run.shared,
        **_judgement(unit.outcome),
        "model": model,
        "check": first_check(result) if result else None,
        **_measured(unit.outcome, unit.folder),
        **_load(unit),
        "faults": None if faults is None else len(faults),
        "faults_proven": None if faults is None else sum(fault.proven for fault in faults),
        "lost_from_s": span.begun_s[0] if span and span.begun_s else None,
        "lost_until_s": span.acknowledged_s[1] if span and span.acknowledged_s else None,
        "counted": _counts(result) if result else None,
    }


def _counts(result: RunResult) -> list[tuple[str, int]]:
    """The whole numbers that the first check counts."""
    counts = result.checks[0].counts if result.checks else {}
    return [(name, value) for name, value in counts.items() if isinstance(value, int)]


def _which(source: Source, unit: Unit) -> Row:
    campaign, metadata = source.campaign.campaign, unit.metadata
    return {
        "setting": _map(unit.setting),
        "repetition": unit.run.repetition,
        "plan_hash": campaign.digest,
        "seed": unit.result.seed if unit.result else metadata.seed,
        "system": unit.plan.target.system,
        "version": metadata.versions.get("target"),
        "simulated": campaign.simulated,
        "started": _instant(metadata.wall_time),
    }


def _judgement(outcome: Outcome) -> Row:
    """What is stated of a run or a cell, without its numbers."""
    result = outcome if isinstance(outcome, RunResult) else None
    return {
        "verdict": result.verdict if result else None,
        "reason": outcome.reason if isinstance(outcome, RunResult) else outcome.error,
        "class": verdict_class(outcome),
        "conclusive": is_conclusive(outcome),
        "eligible": is_eligible(outcome),
        "complete": result.complete if result else None,
        "doubts": result.doubts if result else None,
        "counter_examples": result.counter_examples if result else None,
    }


def _measured(outcome: Outcome | None, folder: RunDir) -> Row:
    """Counts, rates and what clients saw; null where the harness failed or no check has judged the
    run, and of a count that an earlier ackloss did not make."""
    counted = _counted_in(folder) if isinstance(outcome, RunResult) else frozenset()
    result = outcome if isinstance(outcome, RunResult) and counted else None
    counts = asdict(result.counts) if result else {}
    rates, saw = (result.rates, result.availability) if result else (Rates(), Availability())
    return {
        **_NOTHING,
        **{name: value for name, value in counts.items() if name in counted},
        **{delta.rate(name): value for name, value in asdict(rates).items()},
        "causes": _map(result.causes) if result else None,
        **{name: getattr(result, name, None) for name in (*_WHY, "alarmed")},
        **{delta.seen(name): value for name, value in asdict(saw).items()},
    }


def _counted_in(folder: RunDir) -> frozenset[str]:
    """The counts that the result in a folder has; none where no check has judged it, as the checker
    broke: the zeros of such a result are nobody's."""
    document = folder.read_json(folder.result)
    if document.get("checks") == [] and not document.get("cells"):
        return frozenset()
    return frozenset(document["counts"])


def _load(unit: Unit) -> Row:
    load, metadata = unit.plan.workload, unit.metadata
    return {
        "workload": load.name,
        "processes": load.processes,
        "rate_per_s": load.rate_per_s,
        "duration_s": load.duration_s,
        "starved": metadata.load.starved if metadata.state is not None else None,
    }


def _fault_rows(source: Source, unit: Unit) -> Iterator[Row]:
    if (result := unit.result) is None:
        return
    met = {each.fault: each.met for each in result.leaders or ()}
    for fault in result.faults:
        row = {"fault": fault.id, "leader_met": met.get(fault.id), **asdict(fault)}
        yield {**_of(source, unit), **row}


def _of(source: Source, unit: Unit) -> Row:
    names = {delta.CAMPAIGN: source.campaign.id, "run_id": source.run_id}
    return {**names, "run_cell": unit.run_cell}


def _map(known: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in known.items() if value is not None]


def _instant(text: str | None) -> datetime | None:
    """A wall time of run.json; `None` where it is not one."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _table(table: delta.Table, rows: list[Row], file: Path) -> pa.Table:
    """Rows as Arrow. Raises HistoryError, which names `file`, for a value that no column holds."""
    columns = []
    for column in table.schema:
        try:
            columns.append(pa.array([row.get(column.name) for row in rows], column.type))
        except (pa.ArrowException, OverflowError) as error:
            what = f"the lake cannot hold its {column.name}: {error}"
            raise HistoryError(what, file=str(file)) from error
    return pa.table(columns, schema=table.schema)


def _observations(folder: RunDir) -> pa.Table:
    rows = frames.observations(folder).rename(columns={MEMBERS: "members"})
    return _arrow(delta.OBSERVATIONS, rows)


def _of_folders(table: delta.Table, source: Source, read: Callable[[RunDir], pa.Table]) -> pa.Table:
    """The rows of the folders of all judged cells."""
    made = [table.schema.empty_table()]
    for unit in source.units:
        if unit.result:
            rows = read(unit.folder)
            for name, value in _of(source, unit).items():
                place = table.schema.get_field_index(name)
                same = pa.repeat(pa.scalar(value, delta.TEXT), len(rows))
                rows = rows.set_column(place, table.schema.field(name), same)
            made.append(rows)
    return pa.concat_tables(made)


def _arrow(table: delta.Table, rows: pd.DataFrame) -> pa.Table:
    """A frame as Arrow; a column that it lacks is null."""
    columns = [
        pa.array(rows[field.name], field.type, from_pandas=True)
        if field.name in rows
        else pa.nulls(len(rows), field.type)
        for field in table.schema
    ]
    return pa.table(columns, schema=table.schema)


_READ: Final[Mapping[delta.Table, Callable[[RunDir], pa.Table]]] = {
    delta.FINDINGS: findings,
    delta.OBSERVATIONS: _observations,
    delta.OPS: lambda folder: _arrow(delta.OPS, frames.history(folder)),
}
"""How the folder of a judged cell is read, for tables of which it holds many rows."""
