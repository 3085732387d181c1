"""The finished runs of a campaign, as its journal and the folders of its runs have them.

A `Source` is one run folder, and has a `Unit` for each cell that was judged there: the run itself,
each cell of the campaign that shared the run, or each cell of a plan that holds several.

Of a campaign that was archived at a URL, a folder here is made: its own files and the results of
its runs are copied first, as they say which runs are new. Of those the other files that the lake
reads are copied when they are due; until then an empty file stands for each.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from analysis.campaign import metadata_of, outcome_of, refuse_mixed
from analysis.statistics.cells import FailedRun, Outcome
from harness.campaigns.folder import CampaignDir
from harness.campaigns.journal import Progress, Run
from harness.campaigns.plan import Campaign, Cell, label
from harness.errors import AcklossError, HistoryError
from harness.history.documents import CellResult, RunResult, StoredRun, read_result
from harness.history.run_folder import CELLS, RunDir, parts_of
from harness.machine.files import scratch
from harness.plan import Plan
from harness.protocols import UNKNOWN
from harness.run.cells import CellPlan
from harness.storage import Folder

_CAMPAIGN: Final = CampaignDir(Path())
_OWN: Final = (_CAMPAIGN.file.name, _CAMPAIGN.base.name, _CAMPAIGN.journal.name)
_RUN: Final = RunDir(Path())
_DOCUMENTS: Final = (_RUN.run.name, _RUN.result.name)


@dataclass(frozen=True)
class Copied:
    """An archive, and a folder of the same name into which those of its files are copied that the
    lake needs: at first what says which runs there are."""

    archive: Folder
    folder: CampaignDir
    names: tuple[str, ...]

    def begin(self) -> None:
        """Copy what says which runs there are; an empty file stands for each other one."""
        first = {name for name in self.names if name.endswith(_RUN.result.name)}
        self._fetch([*_OWN, *first])
        for name in self.names:
            path = self.folder.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def complete(self, runs: Collection[str]) -> None:
        """Copy the rest of these runs."""
        self._fetch([name for name in self.names if name.split("/")[1] in runs])

    def _fetch(self, names: Collection[str]) -> None:
        self.archive.fetch({name: self.folder.path / name for name in names})


@dataclass(frozen=True)
class Unit:
    """A judged cell: where its files are, and how it ended. `run_cell` is its name in its run.
    Where its own result says something else than that of its run (`at_odds`), it has no verdict."""

    run: Run
    cell: Cell
    folder: RunDir
    run_cell: str | None
    outcome: Outcome
    at_odds: bool = False

    @property
    def result(self) -> RunResult | None:
        """Its result; `None` where the harness failed."""
        return self.outcome if isinstance(self.outcome, RunResult) else None

    @cached_property
    def metadata(self) -> StoredRun:
        """Its run.json; empty if there is none."""
        return metadata_of(self.folder)

    @property
    def plan(self) -> Plan:
        """Its plan: that of the campaign's cell, or of one of the cells which that plan holds."""
        return self._own.plan if self._own else self.cell.resolved.plan

    @property
    def setting(self) -> dict[str, str]:
        """The axes of the campaign, and the keys that a cell of the plan changes."""
        changed = self._own.overrides if self._own else {}
        return {**self.cell.key, **{key: label(value) for key, value in changed.items()}}

    @cached_property
    def _own(self) -> CellPlan | None:
        """The cell of the plan, where the plan holds several."""
        cells = self.cell.resolved.cells
        return next((each for each in cells if each.name == self.run_cell), None)


@dataclass(frozen=True)
class Source:
    """A run folder, and the cells of the campaign that were run there and have ended."""

    campaign: LoadedCampaign
    run_id: str
    runs: tuple[Run, ...]

    @property
    def folder(self) -> RunDir:
        """The folder of the run itself."""
        return self.campaign.folder.run(self.run_id)

    @cached_property
    def metadata(self) -> StoredRun:
        """The run.json of the run itself."""
        return metadata_of(self.folder)

    @property
    def is_shared(self) -> bool:
        """Whether cells of the campaign share this run."""
        return any(run.run_id != self.run_id for run in self.runs)

    @property
    def has_results(self) -> bool:
        """Whether the result of each run that is done is still there."""
        done = (run for run in self.runs if run.state == "done")
        return all(self.campaign.folder.run(run.run_id).result.is_file() for run in done)

    @cached_property
    def digest(self) -> str:
        """Equal as long as the campaign says the same of this run: SHA-256 over how each of its
        cells ended, and over their result.json, with those of the cells of a plan that has some."""
        hashed = hashlib.sha256()
        for run in self.runs:
            hashed.update(f"{run.run_id}\n{run.state}\n{run.error}\n".encode())
            folder = self.campaign.folder.run(run.run_id)
            inner = sorted(folder.cells_path.glob(f"*/{folder.result.name}"))
            for result in (folder.result, *inner):
                hashed.update(result.read_bytes() if result.is_file() else b"")
        return hashed.hexdigest()

    @cached_property
    def outcomes(self) -> tuple[tuple[Run, Outcome], ...]:
        """How each of its cells of the campaign ended. Raises HistoryError."""
        pairs = ((run, outcome_of(self.campaign.folder, run)) for run in self.runs)
        named = self.campaign.named
        known = tuple((run, named(outcome)) for run, outcome in pairs if outcome is not None)
        refuse_mixed(self.campaign.folder, self.campaign.campaign, known)
        return known

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """Its judged cells. Raises HistoryError."""
        return tuple(unit for run, outcome in self.outcomes for unit in self._units(run, outcome))

    @property
    def unread(self) -> dict[str | None, str | None]:
        """Its cells whose results cannot be read, by their names in the run (`None`: the run),
        and why. Raises HistoryError."""
        return {
            unit.run_cell: unit.outcome.error
            for unit in self.units
            if unit.run.state == "done" and isinstance(unit.outcome, FailedRun) and not unit.at_odds
        }

    def _units(self, run: Run, outcome: Outcome) -> Iterator[Unit]:
        cell, folder = self.campaign.cells[run.cell], self.campaign.folder.run(run.run_id)
        named = self.campaign.named
        if not isinstance(outcome, RunResult) or not outcome.cells:
            yield Unit(run, cell, folder, parts_of(run.run_id)[1] or None, outcome)
            return
        for each in outcome.cells:
            inner = folder.cell(each.name)
            found = _outcome_in(inner)
            why = isinstance(found, RunResult) and _contradiction(inner, found, each, outcome)
            own = FailedRun(run_id=inner.run_id, error=why, unread=True) if why else found
            yield Unit(run, cell, inner, each.name, named(own), at_odds=bool(why))


@dataclass(frozen=True)
class LoadedCampaign:
    """A campaign with its progress; `copied` where its folder is a copy."""

    folder: CampaignDir
    campaign: Campaign
    progress: Progress
    copied: Copied | None = None

    @property
    def id(self) -> str:
        """The name of its folder."""
        return self.folder.path.resolve().name

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """Its cells by name."""
        return {cell.name: cell for cell in self.campaign.cells}

    def named(self, outcome: Outcome) -> Outcome:
        """An outcome whose error names the place that the user knows."""
        if self.copied is None or not isinstance(outcome, FailedRun) or outcome.error is None:
            return outcome
        known = outcome.error.replace(str(self.folder.path), self.copied.archive.place())
        return replace(outcome, error=known)

    @property
    def finished(self) -> int:
        """How many of its runs have ended."""
        return len(self._finished)

    def sources(self) -> list[Source]:
        """Its runs, in the order of their starts; of each, what has ended. Of a copy only those
        whose results are there."""
        found = [Source(self, run_id, tuple(each)) for run_id, each in self._finished.items()]
        return [each for each in found if self.copied is None or each.has_results]

    @cached_property
    def _finished(self) -> dict[str, list[Run]]:
        runs: dict[str, list[Run]] = {}
        for run in self.progress.runs.values():
            if run.is_finished:
                runs.setdefault(parts_of(run.run_id)[0], []).append(run)
        return runs


def load(folder: CampaignDir, copied: Copied | None = None) -> LoadedCampaign:
    """A campaign as it is now. Raises HistoryError or PlanError when its folder cannot be read, or
    has a name that no table can hold."""
    loaded = LoadedCampaign(folder, folder.campaign(), folder.progress(), copied)
    try:
        loaded.id.encode()
    except UnicodeEncodeError as error:
        raise HistoryError(
            f"the name of this folder is not UTF-8: {os.fsencode(loaded.id)!r}",
            file=str(folder.path.parent),
            hint="rename it: the lake knows a campaign by the name of its folder",
        ) from error
    return loaded


def total(numbers: Iterable[int | float | None]) -> int | float | None:
    """The sum of the numbers that are known; `None` where none is."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _outcome_in(folder: RunDir) -> Outcome:
    try:
        return read_result(folder)
    except HistoryError as error:
        return FailedRun(run_id=folder.run_id, error=str(error), unread=True)


def _contradiction(
    folder: RunDir, own: RunResult, listed: CellResult, run: RunResult
) -> str | None:
    """Why the result of a cell cannot be believed, by what that of its run says; `None`: both say
    the same, or the cell's own claims nothing, as of one that was judged again by itself."""
    what = None
    if own.run_id not in (None, folder.run_id):
        what = f"is of another run, {own.run_id!r}"
    elif own.simulated != run.simulated:
        what = "is simulated, or its run is, and the other is real"
    elif own.verdict not in (UNKNOWN, listed.verdict):
        what = f"is {own.verdict}, and the result of its run has {listed.verdict} for this cell"
        what += f" ({listed.reason})" if listed.reason else ""
    if what is None:
        return None
    hint = f"`ackloss check {folder.path.parent.parent}` writes both again"
    return str(HistoryError(what, file=str(folder.result), hint=hint))


@contextmanager
def archived(archive: Folder, *, ops: bool) -> Iterator[Copied]:
    """The copy while the context lasts; with `ops` also of operations. Errors name the URL. Raises
    HistoryError for what is not an archive of a campaign, and what `harness.storage` raises."""
    files = list(archive.files())
    if _OWN[0] not in files:
        raise HistoryError(
            f"this is not an archived campaign: it has no {_OWN[0]}",
            file=archive.place(),
            hint="name the URL that `ackloss campaign run --archive` was given",
        )
    for name in _OWN:
        if name not in files:
            raise HistoryError(
                "is not archived: that is copied when the campaign ends",
                file=archive.place(name),
                hint="`ackloss campaign resume FOLDER --archive URL` copies what is missing",
            )
    with scratch() as parent:
        folder = CampaignDir(Path(parent) / _name(archive))
        copy = Copied(archive, folder, tuple(_needed(files, ops=ops)))
        copy.begin()
        try:
            yield copy
        except AcklossError as error:
            copied, place = str(folder.path), archive.place()
            error.what = error.what.replace(copied, place)
            error.file = error.file and error.file.replace(copied, place)
            error.hint = error.hint and error.hint.replace(copied, place)
            raise


def _name(archive: Folder) -> str:
    """The name of its folder, by which the lake knows the campaign; of a bucket that of the
    bucket. Raises HistoryError where there is none."""
    parts = urlsplit(archive.url)
    name = PurePosixPath(unquote(parts.path)).name or parts.netloc
    if name in ("", "..") or "\0" in name:
        raise HistoryError("names no folder of a campaign", file=archive.place())
    return name


def _needed(files: Collection[str], *, ops: bool) -> Iterator[str]:
    """What the lake reads of the runs whose copies are complete: they have their manifests."""
    folders = (_RUN.findings.name, _RUN.observations.name, *([_RUN.history.name] if ops else []))
    known = set(files)
    for name in files:
        parts = PurePosixPath(name).parts
        if len(parts) < 3 or parts[0] != _CAMPAIGN.runs.name or ".." in parts:
            continue
        own = parts[4:] if parts[2] == CELLS else parts[2:]
        of_lake = own in [(each,) for each in _DOCUMENTS] or (
            len(own) == 2 and own[0] in folders and own[1].endswith(".parquet")
        )
        if of_lake and f"{parts[0]}/{parts[1]}/{_RUN.manifest.name}" in known:
            yield name
