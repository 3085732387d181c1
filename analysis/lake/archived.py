"""A campaign that was archived at a URL, as a folder here from which the lake is built.

The campaign's own files and the results of its runs are copied first, as they say which runs are
new. Of those the other files that the lake reads are copied when they are due; until then an empty
file stands for each. What the lake does not read is never copied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from analysis.lake.sources import Copied
from harness.campaigns.folder import CampaignDir
from harness.errors import AcklossError, HistoryError
from harness.history.run_folder import CELLS, RunDir
from harness.machine.scratch import scratch
from harness.storage import Folder

_CAMPAIGN: Final = CampaignDir(Path())
_OWN: Final = (_CAMPAIGN.file.name, _CAMPAIGN.base.name, _CAMPAIGN.journal.name)
_RUN: Final = RunDir(Path())
_DOCUMENTS: Final = (_RUN.run.name, _RUN.result.name)


@contextmanager
def archived(archive: Folder, *, ops: bool) -> Iterator[tuple[CampaignDir, Copied]]:
    """The folder while the context lasts, with what copies the rest of runs into it; with `ops`
    their operations, too. Errors name the URL. Raises HistoryError for what is not an archive of a
    campaign, and what `harness.storage` raises."""
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
        copy = _Copy(archive, folder, tuple(_needed(files, ops=ops)))
        copy.begin()
        try:
            yield folder, Copied(archive.place(), copy.complete)
        except AcklossError as error:
            copied, place = str(folder.path), archive.place()
            error.what = error.what.replace(copied, place)
            error.file = error.file and error.file.replace(copied, place)
            error.hint = error.hint and error.hint.replace(copied, place)
            raise


@dataclass(frozen=True)
class _Copy:
    """What of an archive is needed, and where it is copied to."""

    archive: Folder
    folder: CampaignDir
    names: tuple[str, ...]

    def begin(self) -> None:
        """Copy what says which runs there are."""
        first = {name for name in self.names if name.endswith(_RUN.result.name)}
        self._fetch([*_OWN, *first])
        for name in self.names:
            path = self.folder.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def complete(self, runs: Collection[str]) -> None:
        """Copy the rest of these runs."""
        self._fetch([name for name in self.names if _run_of(name) in runs])

    def _fetch(self, names: Collection[str]) -> None:
        self.archive.fetch({name: self.folder.path / name for name in names})


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


def _run_of(name: str) -> str:
    return name.split("/")[1]
