"""Adds the rows of a campaign to a lake, and only those that are not there yet.

A run whose result is as it was when its rows were written is not read again. A run that was judged
again replaces its rows. What a campaign no longer has, because it was pruned or a file was damaged,
stays in the lake. A campaign without a finished run is not in it yet.

Files are never changed: new rows are a new file, and a file that holds replaced rows is written
again without them under another name. The manifest is replaced last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

from analysis.lake import sources
from analysis.lake.manifest import (
    FILE,
    LakeCampaign,
    Manifest,
    Part,
    columns_of,
    folder_of,
    read_manifest,
    read_part,
    write_manifest,
    write_part,
)
from analysis.lake.place import Place
from analysis.lake.rows import has_rows_of, rows_of
from analysis.lake.schema import CELLS, OPS, RUNS, TABLES, Table
from analysis.lake.sources import Copied, LoadedCampaign, Source
from harness.campaigns.folder import CampaignDir
from harness.errors import HistoryError


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
    place: Place, folder: CampaignDir, *, ops: bool = False, copied: Copied | None = None
) -> Built:
    """Bring the lake up to date with a campaign; with `ops` also the operations of its runs.
    `copied`: its folder is a copy (`analysis.lake.archived`).

    Raises HistoryError or PlanError when the campaign cannot be read, HistoryError when the place
    holds something else than a lake, and EnvironmentFailure when it cannot be written. The lake is
    then as it was.
    """
    loaded = sources.load(folder, copied)
    refuse_strangers(place)  # before anything is written there
    with place.locked():
        manifest = _open(place)
        _refuse_mixed(place, manifest, loaded)
        campaign = _known(place, manifest, loaded)
        stored = _stored(place, campaign)
        every = loaded.sources()
        due = [source for source in every if _is_due(source, stored.get(source.run_id), ops)]
        kept = _worse(due, stored)
        changed = [source for source in due if source.run_id not in kept]
        if changed:
            if copied is not None:
                copied.complete({source.run_id for source in changed})
            campaign = _written(place, campaign, changed, stored, ops=ops)
        if campaign.parts and campaign != manifest.campaign(campaign.id):
            write_manifest(place, manifest.with_campaign(campaign))
        _sweep(place, campaign)
    replaced = sum(source.run_id in stored for source in changed)
    return Built(
        campaign=campaign.id,
        runs=len(every),
        added=len(changed) - replaced,
        replaced=replaced,
        rows={name: campaign.rows(name) for name in TABLES if campaign.rows(name)},
        absent=loaded.finished - len(every),
        kept=kept,
        unread={
            source.run_id: "; ".join(filter(None, source.unread.values()))
            for source in changed
            if source.unread
        },
    )


def refuse_strangers(place: Place) -> None:
    """Raise HistoryError for a folder that is neither a lake nor empty, and for a lake that is
    damaged or of a newer schema."""
    if read_manifest(place) is None and any(not _hidden(path) for path in place.sizes("")):
        raise HistoryError(
            f"this is not a lake: it has no {FILE}, but other files",
            file=place.shown,
            hint="name a lake, or a folder that is new or empty",
        )


def _hidden(path: str) -> bool:
    return PurePosixPath(path).name.startswith(".")


def _open(place: Place) -> Manifest:
    """The manifest; a new one if there is none. From then on the folder is a lake, whatever
    becomes of the build."""
    manifest = read_manifest(place)
    if manifest is None:
        manifest = Manifest()
        write_manifest(place, manifest)
    return manifest


def _known(place: Place, manifest: Manifest, loaded: LoadedCampaign) -> LakeCampaign:
    """The campaign as the lake has it, with how far it has come now. Raises HistoryError where the
    lake has another one of this name, or this one under another name."""
    plan, progress = loaded.campaign, loaded.progress
    now = LakeCampaign(
        id=loaded.id,
        name=plan.plan.name,
        plan_hash=plan.digest,
        simulated=plan.simulated,
        started=progress.started,
        ended=progress.ended,
        workers=progress.workers,
    )
    before = manifest.campaign(loaded.id)
    if before is None or not before.parts:
        _refuse_second_name(place, manifest, loaded, now)
        return now
    if before.identity != now.identity:
        raise HistoryError(
            f"the lake {place.shown} has another campaign of the name {loaded.id}",
            file=str(loaded.folder.path),
            hint="rename the folder of one of them, or use another lake",
        )
    return replace(now, parts=before.parts)


def _refuse_second_name(
    place: Place, manifest: Manifest, loaded: LoadedCampaign, now: LakeCampaign
) -> None:
    known = (each for each in manifest.campaigns if each.parts and each.identity == now.identity)
    if first := next(known, None):
        raise HistoryError(
            f"the lake {place.shown} has this campaign (same plan_hash and start) under the name "
            f"{first.id!r}: as {now.id!r} its runs would count twice",
            file=str(loaded.folder.path),
            hint=f"name it {first.id!r} as before, or use another lake",
        )


def _refuse_mixed(place: Place, manifest: Manifest, loaded: LoadedCampaign) -> None:
    if manifest.campaigns and manifest.simulated != loaded.campaign.simulated:
        one, other = ("real", "simulated") if manifest.simulated else ("simulated", "real")
        raise HistoryError(
            f"this campaign is {one}, and those of the lake {place.shown} are {other}",
            file=str(loaded.folder.path),
            hint="use another lake: simulated and real results never mix",
        )


def _stored(place: Place, campaign: LakeCampaign) -> dict[str, _Stored]:
    """The runs of the campaign that the lake has, by run id."""
    judged: dict[str, set[str | None]] = {}
    for row in _rows(place, campaign, CELLS, ["run_id", "run_cell", "verdict"]):
        cells = judged.setdefault(row["run_id"], set())
        cells |= {row["run_cell"]} if row["verdict"] is not None else set()
    return {
        row["run_id"]: _Stored(
            row["digest"], row["with_ops"], frozenset(judged.get(row["run_id"], ()))
        )
        for row in _rows(place, campaign, RUNS, ["run_id", "digest", "with_ops"])
    }


def _rows(
    place: Place, campaign: LakeCampaign, table: Table, columns: list[str]
) -> Iterator[dict[str, Any]]:
    for part in campaign.parts.get(table.name, ()):
        yield from columns_of(place, part, columns).to_pylist()


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


def _written(
    place: Place,
    campaign: LakeCampaign,
    changed: Sequence[Source],
    stored: Mapping[str, _Stored],
    *,
    ops: bool,
) -> LakeCampaign:
    """The campaign with one more file in each table that changes; no manifest names it yet."""
    parts = dict(campaign.parts)
    number = 1 + max((_number(part) for each in parts.values() for part in each), default=0)
    had_ops = {run_id for run_id, run in stored.items() if run.with_ops}
    for table in TABLES.values():
        if table is OPS and not ops:
            continue
        of_table = [source for source in changed if has_rows_of(table, source)]
        replaced = stored.keys() & {source.run_id for source in of_table}
        kept, again = _split(place, parts.get(table.name, ()), replaced)
        rows = (
            rows_of(
                table,
                source,
                with_ops=source.run_id in had_ops or (ops and has_rows_of(OPS, source)),
            )
            for source in of_table
        )
        rest = (read_part(place, table, part, without=replaced) for part in again)
        part = write_part(place, table, campaign.id, number, chain(rest, rows))
        parts[table.name] = (*kept, *([part] if part else []))
    return replace(campaign, parts=parts)


def _split(
    place: Place, parts: Sequence[Part], replaced: Set[str]
) -> tuple[list[Part], list[Part]]:
    """The files without any of these runs, and those with some."""
    kept: list[Part] = []
    again: list[Part] = []
    for part in parts:
        runs = columns_of(place, part, ["run_id"])["run_id"].unique() if replaced else ()
        with_some = any(run.as_py() in replaced for run in runs)
        (again if with_some else kept).append(part)
    return kept, again


def _number(part: Part) -> int:
    return int(PurePosixPath(part.path).stem.removeprefix("part-"))


def _sweep(place: Place, campaign: LakeCampaign) -> None:
    """Remove files of this campaign that no manifest names: replaced ones, and what a build that
    was killed has left."""
    known = {part.path for parts in campaign.parts.values() for part in parts}
    for table in TABLES.values():
        for path in place.sizes(folder_of(table, campaign.id)):
            if path not in known:
                place.remove(path)
