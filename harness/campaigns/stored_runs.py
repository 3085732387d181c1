"""The runs that a path or a URL names: a run, a folder of runs, or a campaign."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from harness.campaigns.folder import CampaignDir
from harness.errors import HistoryError
from harness.history.run_folder import RunDir
from harness.urls import is_url

if TYPE_CHECKING:
    from harness.history.remote_run import RemoteRun
    from harness.storage import Folder


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
    from harness.campaigns.progress import read_progress
    from harness.machine.scratch import scratch

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
    from harness.campaigns.progress import read_progress

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
