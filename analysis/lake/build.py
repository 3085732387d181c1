"""Adds the rows of a campaign to a lake, and only those that are not there yet.

A run whose result is as it was when its rows were written is not read again. A run that was judged
again replaces its rows. What a campaign no longer has, because it was pruned or a file was damaged,
stays in the lake. A campaign without a finished run is not in it yet.

Each table is committed by itself, `runs` last: by it the next build sees what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from analysis.lake import sources
from analysis.lake.delta import LakeCampaign, StoredLake, open_or_new
from analysis.lake.rows import has_rows_of, rows_of
from analysis.lake.schema import CAMPAIGNS, CELLS, OPS, RUNS, TABLES
from analysis.lake.sources import Copied, LoadedCampaign, Source
from harness.campaigns.folder import CampaignDir
from harness.errors import HistoryError
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
    counted = {name: lake.count(table, campaign) for name, table in TABLES.items()}
    return {name: number for name, number in counted.items() if number}
