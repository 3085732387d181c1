"""The folder of a campaign: the only place that knows its file names; and the runs that a path or a
URL names: a run, a folder of runs, or a campaign.

campaign.toml  base.json  journal.jsonl  runs/<run_id>/  runs/<shared run>/cells/<cell>/
campaign.json  report.html  junit.xml  summary.md  figures/  tables/
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson
from filelock import FileLock, Timeout

from harness.campaigns.journal import COPY_AGAIN, Progress, read_progress
from harness.errors import EnvironmentFailure, HistoryError, disk_errors
from harness.history.documents import read_run
from harness.history.run_folder import CELLS, Inside, RunDir, parts_of, write_atomically
from harness.machine.files import scratch
from harness.urls import is_url

if TYPE_CHECKING:
    from harness.campaigns.plan import Campaign
    from harness.history.remote_run import RemoteRun
    from harness.storage import Folder


@dataclass(frozen=True)
class CampaignDir:
    """One campaign's folder, and the paths inside it."""

    path: Path

    file = Inside("campaign.toml")
    base = Inside("base.json")
    journal = Inside("journal.jsonl")
    runs = Inside("runs")
    result = Inside("campaign.json")
    report = Inside("report.html")
    figures = Inside("figures")
    tables = Inside("tables")
    junit = Inside("junit.xml")
    summary = Inside("summary.md")

    @classmethod
    def create(cls, path: Path, campaign: Campaign) -> CampaignDir:
        """Make the folder of a new campaign, with everything that `resume` needs. Raises
        EnvironmentFailure if it exists or cannot be created."""
        folder = cls(path)
        with disk_errors("cannot make the campaign's folder", path):
            try:
                path.mkdir(parents=True)
            except FileExistsError as error:
                raise EnvironmentFailure(
                    "this folder exists already",
                    file=str(path),
                    hint="continue with `ackloss campaign resume`, or choose another --out",
                ) from error
            folder.runs.mkdir()
        write_atomically(folder.base, orjson.dumps(campaign.base, option=orjson.OPT_INDENT_2))
        write_atomically(folder.file, campaign.text.encode())
        return folder

    @classmethod
    def open(cls, path: Path) -> CampaignDir:
        """The folder of an existing campaign. Raises HistoryError when it is not one."""
        folder = cls(path)
        if not folder.exists:
            raise HistoryError(
                "this is not a campaign folder: it has no campaign.toml",
                file=str(path),
                hint="name a folder made by `ackloss campaign run`",
            )
        return folder

    def campaign(self) -> Campaign:
        """The campaign as it began, whatever its original file holds now. Raises HistoryError or
        PlanError for files that cannot be read, or with which its journal did not begin: its runs
        would be shown as runs of other settings."""
        # Not needed, and slow to import, where only the runs of a campaign are looked for.
        from harness.campaigns.plan import campaign_of, parse_campaign
        from harness.plan.parsing import read_plan, read_text

        text, file = read_text(self.file), str(self.file)
        plan, base = parse_campaign(text, file=file), read_plan(self.base)
        campaign = campaign_of(plan, text, base, file=file, base_file=str(self.base))
        progress = self.progress()
        campaign = campaign.with_repetitions(progress.raised)
        self._refuse_changed(campaign, progress)
        return campaign

    def progress(self) -> Progress:
        """The state of its runs, by its journal. Raises HistoryError for a journal that cannot be
        read, or does not name a run that is there."""
        # Listed before the journal is read, which names a run before its folder is made.
        present = {path.name for path in self.runs.glob("*")}
        progress = read_progress(self.journal)
        known = {parts_of(run_id)[0] for run_id in progress.runs}
        missing = sorted(
            name
            for name in present - known
            if self.run(name).run.is_file() and (not known or self._is_of_campaign(name))
        )
        if missing:
            raise HistoryError(
                f"does not name {len(missing):,} of the runs in {self.runs.name}/ (the first is "
                f"{missing[0]}), which would be missing in every count",
                file=str(self.journal),
                hint=COPY_AGAIN,
            )
        return progress

    def _is_of_campaign(self, name: str) -> bool:
        """Whether a campaign made this run; the user may have made one there by `ackloss run`."""
        try:
            return read_run(self.run(name)).campaign is not None
        except HistoryError:  # it has no document, or one that is empty
            return False

    def _refuse_changed(self, campaign: Campaign, progress: Progress) -> None:
        """Raise HistoryError if the journal is of another campaign."""
        if progress.plan_hash not in (None, campaign.digest):
            raise HistoryError(
                f"is not the campaign that {self.journal.name} began: this file or "
                f"{self.base.name} was changed",
                file=str(self.file),
                hint="restore both, or begin a new campaign with `ackloss campaign run`",
            )
        # A cell that this ackloss calls impossible may have run with an earlier one.
        known = {
            cell.name: math.inf if cell.impossible else cell.repetitions for cell in campaign.cells
        }
        for run in progress.runs.values():
            if run.repetition >= known.get(run.cell, 0):
                raise HistoryError(
                    f"names run {run.repetition} of {run.cell!r}, which {self.file.name} does not "
                    "have",
                    file=str(self.journal),
                    hint="if `repetitions` was lowered since it began, restore it; else "
                    f"{COPY_AGAIN}",
                )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the campaign: one process at a time runs it. Raises EnvironmentFailure."""
        lock = FileLock(self.path / ".lock", timeout=0)
        try:
            lock.acquire()
        except Timeout as error:
            raise EnvironmentFailure(
                "another process is running this campaign",
                file=str(self.path),
                hint="`ackloss campaign status` shows its progress",
            ) from error
        try:
            yield
        finally:
            lock.release()

    @property
    def alive(self) -> bool:
        """Whether a process is running it."""
        try:
            with FileLock(self.path / ".lock", timeout=0):
                return False
        except Timeout:
            return True

    @property
    def exists(self) -> bool:
        """Whether this is the folder of a campaign."""
        return self.file.is_file()

    def run(self, run_id: str) -> RunDir:
        """The folder of a run; of a cell that shared it with others, if the id has a dot."""
        run, cell = parts_of(run_id)
        return RunDir(self.runs / run).cell(cell) if cell else RunDir(self.runs / run)

    def runs_with_history(self) -> list[RunDir]:
        """The runs that still have their history, oldest first. A run that cells of the campaign
        shared is each of its cells; one whose plan has cells is itself. Raises HistoryError."""
        shared = read_progress(self.journal).shared_runs()
        runs = {history.parent for history in self.runs.glob("*/history")}
        cells = {history.parent for history in self.runs.glob(f"*/{CELLS}/*/history")}
        found = {run for run in runs if run.name not in shared}
        for cell in cells:
            run = cell.parents[1]
            found.add(cell if run.name in shared else run)
        return [RunDir(path) for path in sorted(found)]


class StoredRuns(NamedTuple):
    """Runs in order. `without_history`: how many more of a campaign are done, but have no history
    to judge."""

    runs: list[RunDir] | list[RemoteRun]
    without_history: int = 0


def stored_runs(given: str | Path) -> StoredRuns:
    """The runs at a path, or at a URL that pyarrow or fsspec reads.

    Raises HistoryError if there are none, and what `harness.storage` raises.
    """
    if not is_url(str(given)):
        return _at_path(Path(given))
    from harness.history.remote_run import remote_runs
    from harness.storage import Folder

    folder = Folder.at(str(given))
    if folder.local is not None:
        try:
            return _at_path(folder.local)
        except HistoryError as error:
            if error.file == str(folder.local):
                error.file = str(given)
            raise
    return StoredRuns(*remote_runs(folder, partial(_shared_runs_at, folder)))


def _at_path(path: Path) -> StoredRuns:
    campaign = CampaignDir(path)
    if campaign.exists:
        return _of_campaign(campaign)
    if not RunDir(path).run.is_file() and (runs := sorted(path.glob("*/run.json"))):
        return StoredRuns([RunDir(run.parent) for run in runs])
    return StoredRuns([RunDir.open(path)])


def _shared_runs_at(folder: Folder) -> set[str]:
    """The ids of the runs that cells of a campaign at a URL shared, by its journal; none before the
    campaign ends, as the journal is copied last: until then each run is judged with its cells."""
    name = CampaignDir(Path()).journal.name
    if not folder.has(name):
        return set()
    with scratch() as parent:
        copy = Path(parent) / name
        folder.fetch({name: copy})
        try:
            return read_progress(copy).shared_runs()
        except HistoryError as error:
            error.file = str(error.file).replace(str(copy), folder.place(name))
            raise


def _of_campaign(campaign: CampaignDir) -> StoredRuns:
    runs = campaign.runs_with_history()
    if not runs:
        raise HistoryError(
            "no run of this campaign has a history to judge",
            file=str(campaign.path),
            hint="`ackloss report` shows its results",
        )
    with_history = {run.run_id for run in runs}
    done = read_progress(campaign.journal).in_state("done")
    return StoredRuns(runs, sum(run.run_id not in with_history for run in done))
